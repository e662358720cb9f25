#pragma once

#include <cstdint>
#include <vector>

#include "domain/plan.hpp"
#include "search/candidate.hpp"
#include "search/placement.hpp"

namespace hpplan {

/// The best way to run these pipelines together: placement, batch split, recomputation.
struct Realised {
  std::vector<Candidate> pipelines;
  std::vector<int> micro_batches;
  Placement placement;
  double time = kInfinity;  // iteration time
  bool complete = true;     // every placement was tried
  int tried = 0;            // placements
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

/// What it costs to realise pipelines at a few placements: about the steps of their simulations (micro-batches times
/// stages), and for every stage that is placed as much as 200 of those.
[[nodiscard]] std::int64_t trial_work(const Problem& problem, const std::vector<Candidate>& pipelines);

/// A realised plan with every number predicted.
[[nodiscard]] Plan finish(const Problem& problem, const Space& space, const Realised& realised);

}  // namespace hpplan
