#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "domain/plan.hpp"
#include "search/candidate.hpp"
#include "search/placement.hpp"

namespace hpplan {

/// The best way found to run these pipelines together: placement, batch split, recomputation.
struct Realised {
  std::vector<Candidate> pipelines;
  std::vector<int> micro_batches;
  Placement placement;
  double time = kInfinity;  // iteration time
  bool complete = true;     // every placement was tried, and every batch split that could be the best
  int tried = 0;            // placements
  std::int64_t looks = 0;   // what placing took, see PlacedSync::looks()
};

/// What a search around one plan came to.
struct Improved {
  Realised plan;
  int tries = 0;          // plans priced
  std::int64_t work = 0;  // what that cost, see trial_work()
  bool stopped = false;   // by the tables' check_stop(), with the best plan until then
};

/// At most so many placements are priced; nothing slower than `limit` is of interest.
///   first   a placement of the pipelines, in their order, that is priced before others; empty: none
[[nodiscard]] Realised realise(SearchTables& tables, std::vector<Candidate> pipelines, double limit,
                               int most_placements, Placement first = {});

/// What it costs to realise pipelines at one placement: about the steps of their simulations (micro-batches times
/// stages), and for every stage as much as 200 of those.
[[nodiscard]] std::int64_t trial_work(const Problem& problem, const std::vector<Candidate>& pipelines);

/// The trials of a search around one plan, counted.
class Trials {
 public:
  ///   most_work   after which the search is to end, see trial_work()
  Trials(SearchTables& tables, std::int64_t most_work) : tables_(&tables), most_work_(most_work) {}

  [[nodiscard]] bool spent() const { return work_ >= most_work_; }
  [[nodiscard]] std::int64_t left() const { return most_work_ - work_; }
  ///   cost   of one try, see trial_work()
  void count(int tries, std::int64_t cost, const Realised& realised) {
    tries_ += tries;
    work_ += tries * cost + kPlaceLook * realised.looks;
  }
  /// realise(), counted as one trial.
  [[nodiscard]] Realised realise(std::vector<Candidate> pipelines, double limit, int most_placements,
                                 Placement first = {});
  [[nodiscard]] int tries() const { return tries_; }
  [[nodiscard]] std::int64_t work() const { return work_; }
  /// Runs `search`; whether the tables' check_stop() ended it.
  template <typename Search>
  [[nodiscard]] static bool stops(const Search& search) {
    try {
      search();
    } catch (const SearchStopped&) {
      return true;
    }
    return false;
  }
  /// Runs `search`, which may be ended like that; `best` is what it came to.
  template <typename Search>
  [[nodiscard]] Improved run(Realised& best, const Search& search) {
    const bool stopped = stops(search);
    return {std::move(best), tries_, work_, stopped};
  }

 private:
  static constexpr std::int64_t kPlaceLook = 10;

  SearchTables* tables_;
  std::int64_t most_work_;
  std::int64_t work_ = 0;
  int tries_ = 0;
};

/// A realised plan with every number predicted.
[[nodiscard]] Plan finish(const Problem& problem, const Space& space, const Realised& realised);

}  // namespace hpplan
