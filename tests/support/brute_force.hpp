#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "domain/plan.hpp"
#include "predict/problem.hpp"

namespace hpplan::testing {

/// The optimum of a small problem, and how much was looked at to find it.
struct BruteForceResult {
  std::optional<Plan> plan;  // nothing: no plan is feasible
  std::int64_t layouts = 0;  // sets of pipelines as placed on devices
  std::int64_t scored = 0;   // plans whose gradient synchronisation was predicted

  [[nodiscard]] double time() const;  // infinity: no plan is feasible
};

/// Pipelines without micro-batches and places: each stage as node group, devices, TP degree, first and last layer.
using BruteForceShape = std::vector<std::vector<std::array<int, 5>>>;  // ascending
[[nodiscard]] BruteForceShape brute_force_shape(const std::vector<PipelinePlan>& pipelines);

/// Enumerates the search space of problem.md 3 and keeps the plan with the least iteration time. Shares no code with
/// lib/search: shapes, placements, splits, layer ranges, recomputation and batch splits are enumerated from the text;
/// lib/predict says what a stage, a link and a gradient synchronisation cost, and `evaluate` has the last word.
/// Only plans that are certain to be slower than one already known are left out (time >= pipelines + optimizer), and
/// of several nodes that are equal and empty only the first is tried. For some ten devices at most.
///   excluded  shapes of plans that do not count
[[nodiscard]] BruteForceResult brute_force_plan(const Problem& problem, const std::set<BruteForceShape>& excluded = {});

/// Time of one 1F1B step by running every forward and backward in the order of the schedule.
struct BruteForceStage {
  double forward = 0.0;
  double backward = 0.0;
  double link = 0.0;  // to the next stage, one way
};
[[nodiscard]] double brute_force_makespan(const std::vector<BruteForceStage>& stages, int micro_batches);

}  // namespace hpplan::testing
