#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/units.hpp"
#include "profile/profile_table.hpp"

namespace hpplan {

/// Layers of one kind inside a stage, and the ways to save memory in each of them.
struct RecomputeItem {
  int kind = 0;
  int layers = 0;
  std::span<const RecomputeChoice> choices;  // the first is "nothing"
};

/// `layers` layers of `kind` use choice number `choice` (never 0).
struct RecomputeCount {
  int kind = 0;
  int choice = 0;
  int layers = 0;

  friend bool operator==(const RecomputeCount&, const RecomputeCount&) = default;
};

struct RecomputeSelection {
  Seconds extra;  // added to the stage's backward, one micro-batch
  Bytes freed;    // per micro-batch
  Bytes live;     // the largest live set of a choice in use
  std::vector<RecomputeCount> counts;
};

/// The cheapest choice of recomputed layers that frees enough memory:
///   minimise the sum of extra, subject to in_flight * freed - live >= excess,
/// over all counts of layers per choice. Exact (a multiple-choice knapsack, solved by depth-first search with the
/// convex-hull bound of search-notes C.3). `excess`: bytes over the capacity with nothing recomputed.
/// Nothing when even the best choice does not free enough. Ties: the selection found first in index order.
[[nodiscard]] std::optional<RecomputeSelection> cheapest_recompute(std::span<const RecomputeItem> items, int in_flight,
                                                                   Bytes excess);

/// The most that recomputation can lower the memory of a stage: max over selections of in_flight * freed - live.
[[nodiscard]] Bytes largest_relief(std::span<const RecomputeItem> items, int in_flight);

}  // namespace hpplan
