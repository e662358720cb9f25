#pragma once

#include <vector>

#include "domain/plan.hpp"
#include "schedule/table.hpp"
#include "simulate/pipeline_simulation.hpp"

namespace hpplan {

/// Paths of a pipeline's parts, each in model order: `device` is the stage, `chunk` its place in StagePlan::chunks (0
/// where a stage holds its layers alone).
[[nodiscard]] std::vector<std::vector<PartPlace>> part_paths(const PipelinePlan& pipeline);

/// The request that makes the pipeline's op lists, from the times that the plan states.
[[nodiscard]] ScheduleRequest schedule_request_of(const PipelinePlan& pipeline);

/// What a stage holds at once: activations per chunk. Several moments where none has most of every chunk.
using Holdings = std::vector<std::vector<int>>;

/// Moments of a device's op list at which no other moment holds at least as much of everything.
///   chunk_of  the chunk that an index into Schedule::stages is on its device
[[nodiscard]] Holdings peak_holdings(const std::vector<Op>& program, const std::vector<int>& chunk_of);

/// A pipeline of a plan, run. Lists are per stage.
struct PlannedRun {
  PipelineSimulation simulation;  // of one step; asynchronous: of its micro-batches in the middle of a long run
  std::vector<Holdings> holdings;
  std::vector<int> drift;
  std::vector<int> weight_copies;
};

/// Runs the schedule of `pipeline` from the stage and link times that it states.
/// Throws InputError where the schedule refuses its stages or micro-batches.
[[nodiscard]] PlannedRun run_planned(const PipelinePlan& pipeline);

}  // namespace hpplan
