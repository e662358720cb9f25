#pragma once

#include <string>
#include <vector>

#include "domain/plan_file.hpp"
#include "simulate/plan_schedule.hpp"
#include "simulate/simulate.hpp"

namespace hpplan {

/// One pipeline of a plan, run op by op from the stage and link times that the plan file states.
struct SimulatedPipeline {
  Schedule schedule;
  Simulation simulation;  // one step, from empty to empty: what the pictures show
  PlannedRun planned;     // what the plan counts: of asynchronous schedules the steady state
  double bubble = 0.0;    // idle share of the pipeline's devices, each stage counted with its devices
};

/// A whole iteration: all pipelines at once, then what the All-Reduce leaves exposed, then the optimizer.
struct PlanSimulation {
  std::vector<SimulatedPipeline> pipelines;
  Seconds pipeline_time;
  Seconds iteration_time;
};

/// Throws InputError where a schedule refuses its stages or micro-batches.
[[nodiscard]] PlanSimulation simulate_plan(const PlanFile& file);

/// The result for people and for programs: times, bubbles, busy time, peak in flight and memory of every stage.
[[nodiscard]] std::string plan_simulation_text(const PlanFile& file, const PlanSimulation& run);
[[nodiscard]] std::string plan_simulation_json(const PlanFile& file, const PlanSimulation& run);

/// Chrome trace events of the iteration: one process per pipeline, and one for the All-Reduce and the optimizer.
[[nodiscard]] std::string plan_trace_json(const PlanFile& file, const PlanSimulation& run);

/// A picture of the iteration: the timelines of all pipelines below each other.
[[nodiscard]] std::string plan_timeline_svg(const PlanFile& file, const PlanSimulation& run);

}  // namespace hpplan
