#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "search/price_sheet.hpp"

namespace hpplan {

/// The cheapest pipelines of one micro-batch size that run m micro-batches within a time, at given prices
/// (search-notes C.11). Nothing depends on how many devices the cluster has.
///
/// Every price is a lower bound: it belongs to a relaxed pipeline, whose stages j = 0..p-1 have times t_j and links c_j
/// that satisfy (R_j = sum_{i>j} t_i + 2 sum_{i>=j} c_i, S_j = t_j + R_j, w_j = p - j, limit T after the tails)
///     S_0 + (m - w_j) t_j + R_j <= T                              one stage, m > w_j (search-notes C.5)
///     S_0 - t_j + (m + 1) / 2 t_j <= T                            one stage, m <= w_j
///     sum of window [j..k] + links inside <= (k - j + 1) lambda   every window
/// where lambda is the largest window average that any pipeline within T can have. Proof of the last: let [j..k] be the
/// window of largest average. A path that goes q = floor(M / n) times around it and once around its first M mod n
/// stages, M = m - 1 - w_j and n = k - j + 1, takes S_0 + S_j + q n lambda + (the part), and the part is at least
/// (M mod n) lambda - 2 c for the link that it stops at, as the rest of the window averages at most lambda. So
/// lambda <= (T - S_0 - S_j + 2 c) / (m - 1 - w_j). S_0 and S_j are bounded by what the DP itself finds.
///
/// Neighbours that share a node form a chain of no more devices than the node has, and a link between two chains leaves
/// the node. Of the other replicas of a stage's layers that node has room for no more than the chain leaves devices.
/// The DP counts them on request; the sheets know of the former by charges (NodeCharges).
class Pricer {
 public:
  /// The menu must outlive the pricer. Safe to use from several threads.
  Pricer(const StageMenu& menu, int min_stages, int max_stages);

  /// A first bound for one number of micro-batches.
  [[nodiscard]] PriceSheet sheet(int micro_batches, double limit, const Prices& prices) const {
    return {*menu_, min_stages_, max_stages_, micro_batches, limit, prices};
  }

  /// What is known of the places of a pipeline's stages.
  ///   Endless   any two neighbours may share a node that has room for both
  ///   Counted   a node has only so many devices: neighbours that share one leave less room for the stages before them,
  ///             and for other replicas of their layers. Sharper, at several times the work.
  enum class Nodes { Endless, Counted };

  struct Priced {
    double price = kInfinity;  // no pipeline of p stages is cheaper; infinity: none within the budget
    Candidate candidate;       // the relaxed pipeline of this price
    std::int64_t work = 0;     // transitions
    bool cut = false;          // given up: the price is still a bound, but no pipeline is known for it
  };
  /// The cheapest relaxed pipeline of exactly p stages among those that cost at most `budget`; given up after
  /// `most_work` transitions.
  [[nodiscard]] Priced cheapest(const PriceSheet& sheet, int p, double budget, Nodes nodes,
                                std::int64_t most_work = std::numeric_limits<std::int64_t>::max()) const;

 private:
  class Table;

  const StageMenu* menu_;
  int min_stages_;
  int max_stages_;
};

}  // namespace hpplan
