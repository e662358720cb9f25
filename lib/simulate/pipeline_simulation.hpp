#pragma once

#include <span>
#include <string>
#include <vector>

#include "schedule/request.hpp"
#include "schedule/stage_time.hpp"

namespace hpplan {

/// What one step of a pipeline costs. Lists are per device; for families with one stage per device, per stage.
struct PipelineSimulation {
  Seconds makespan;          // last end minus first start over all devices
  Seconds span;              // longest time from first start to last end of one device
  double bubble = 0.0;       // idle share of the devices over the makespan
  double span_bubble = 0.0;  // the same over the span
  std::vector<Seconds> busy;
  std::vector<Seconds> last_end;
  std::vector<int> peak_in_flight;
  bool extrapolated = false;  // the steady state was found to repeat, and the rest was not run
};

/// Simulates `micro_batches` through the schedule `family` with these stage times.
///   stages         one per stage; families with chunks divide them evenly
/// Throws InputError when the family's limits are not met ("interleaved": m a multiple of the stages, ...).
/// From kExtrapolateFrom micro-batches on, three shorter steps whose lengths differ by one period are run; if all
/// results grow by the same amounts, the rest follows; otherwise the whole step is run.
[[nodiscard]] PipelineSimulation simulate_pipeline(const std::string& family, std::span<const StageTime> stages,
                                                   int micro_batches);

/// The same with all options of a family.
[[nodiscard]] PipelineSimulation simulate_pipeline(const std::string& family, const ScheduleRequest& request);

/// Runs every micro-batch, however many.
[[nodiscard]] PipelineSimulation simulate_pipeline_fully(const std::string& family, const ScheduleRequest& request);

inline constexpr int kExtrapolateFrom = 4096;

}  // namespace hpplan
