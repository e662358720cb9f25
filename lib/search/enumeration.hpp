#pragma once

#include <cstdint>
#include <functional>
#include <limits>

#include "search/plan_shape.hpp"
#include "search/realise.hpp"

namespace hpplan {

/// What an enumeration looks for.
///   Fastest  the plan with the least iteration time; each plan found lowers the limit for the next
///   Even     among all plans within the limit the one that comes first in the order of EvenOrder
enum class EnumerationGoal { Fastest, Even };

struct EnumerationInput {
  EnumerationGoal goal = EnumerationGoal::Fastest;
  double limit = kInfinity;  // slower plans are of no interest
  bool cache = true;         // CPC: stage tables and the pipelines of a resource vector are computed once
  bool skip = true;          // SES: drop what a bound shows to be beyond the limit
  bool order = true;         // OSO: good simple plans first, then divisions and pipelines by promise
  int threads = 1;           // for the stage tables
  double tolerance = 0.0;    // Fastest: plans that are better by no more than this are skipped too
  std::int64_t budget = std::numeric_limits<std::int64_t>::max();  // stages tried, and what costs as much
  const PlanShapes* excluded = nullptr;                            // plans that do not count; may be null
  std::function<bool()> stop;                                      // may be empty
  std::function<void(double time)> progress;                       // called when a plan is found; may be empty
};

struct EnumerationResult {
  Realised best;                  // time infinity: nothing within the limit
  bool complete = true;           // every plan within the limit was looked at
  bool stopped = false;           // by `stop`
  std::int64_t divisions = 0;     // of the devices into pipelines
  std::int64_t lists = 0;         // lists of pipelines computed, one for a resource vector and its share of the batch
  std::int64_t lists_reused = 0;  // CPC: and looked up again
  std::int64_t stages = 0;        // stages tried
  std::int64_t sets = 0;          // sets of pipelines scored: placed on nodes, with the batch split over them
  std::int64_t skipped_divisions = 0;  // SES, by level
  std::int64_t skipped_stages = 0;
  std::int64_t skipped_pipelines = 0;
  std::int64_t skipped_sets = 0;
  std::int64_t improvements = 0;  // plans that were the best when found: OSO makes them few
};

/// Walks the whole search space without dynamic programming: every division of the devices into pipelines as resource
/// vectors, for every vector every list of stages (ports, splits, layers) and micro-batch size, every set of such
/// pipelines, every placement. What the four switches compare against, and, with a tight limit, the way to choose
/// among plans of equal time.
///
/// Bounds (SES), with limit T and m the least number of micro-batches that a pipeline must run because the others'
/// ideal rates finish no more by T:
///   division  the ideal rates of all vectors together finish the batch by T
///   stage     m t_s + tail_s <= T, and the layers left take the devices left, at their best rate, at most T / m
///   pipeline  the simulated time of m micro-batches, plus the tail, is at most T
///   set       what the pipelines finish by T, less the largest tail, makes the batch
[[nodiscard]] EnumerationResult enumerate_plans(const Problem& problem, const Space& space,
                                                const EnumerationInput& input);

/// The order among plans of equal time, the same whoever found them: fewest pipelines, fewest stages, the most even
/// stage times inside the pipelines (by the sum of squared distances from the mean, relative to it), then the smallest
/// ports, splits and layers.
struct EvenOrder {
  int pipelines = 0;
  int stages = 0;
  float unevenness = 0.0F;            // single precision: what differs by rounding only must be equal
  std::vector<Candidate> candidates;  // ascending

  friend auto operator<=>(const EvenOrder&, const EvenOrder&) = default;
};

}  // namespace hpplan
