#pragma once

#include <vector>

#include "domain/plan.hpp"
#include "predict/problem.hpp"

namespace hpplan {

/// Fills in every predicted number of a plan from its decisions (devices, layers, degrees, recomputation,
/// micro-batches, schedules), whether the plan is feasible or not. Uses no search code: `plan`, `check` and `simulate`
/// share it. The lower bound is left at 0.
[[nodiscard]] Plan evaluate(const Problem& problem, std::vector<PipelinePlan> pipelines);

/// Numbers of one pipeline as placed: stage times, links, memory, time, bubble.
void evaluate_pipeline(const Problem& problem, PipelinePlan& pipeline);

/// The largest optimizer time over all stages.
[[nodiscard]] Seconds plan_optimizer_time(const Problem& problem, const std::vector<PipelinePlan>& pipelines);

/// Samples per second and share of the peak floating-point rate that the plan reaches (model FLOPs, no recomputation,
/// over the peak of all devices of the cluster).
[[nodiscard]] double samples_per_second(const Problem& problem, const Plan& plan);
[[nodiscard]] double model_flop_utilisation(const Problem& problem, const Plan& plan);

}  // namespace hpplan
