#pragma once

#include <span>
#include <vector>

#include "domain/plan.hpp"
#include "predict/problem.hpp"
#include "predict/stage.hpp"
#include "simulate/plan_schedule.hpp"

namespace hpplan {

/// The layers that a stage's devices hold: its chunks, or its layers alone.
[[nodiscard]] std::vector<LayerRange> held_parts(const StagePlan& stage);

/// The query of one part of a planned stage, one micro-batch in flight.
[[nodiscard]] StageQuery part_query(const PipelinePlan& pipeline, const StagePlan& stage, LayerRange part);

/// The recompute ranges of a stage that lie in `part`.
[[nodiscard]] std::vector<RecomputeRange> recompute_inside(const StagePlan& stage, LayerRange part);

/// Elements on one device of a planned stage.
[[nodiscard]] double parameters_of(const Problem& problem, const PipelinePlan& pipeline, const StagePlan& stage);

/// Sets forward, backward, weight gradient, link and provenance of all stages and chunks from the decisions. Weight
/// gradients are 0 where the schedule does not run them on their own.
void set_stage_times(const Problem& problem, PipelinePlan& pipeline);

/// Memory of one device of stage `s` that recomputes as planned. Activations are kept from the forward to the weight
/// gradient, or to the whole backward where that is one op.
[[nodiscard]] StageMemory planned_memory(const Problem& problem, const PipelinePlan& pipeline, const StagePlan& stage,
                                         const Holdings& holdings, int weight_copies);

}  // namespace hpplan
