#include "simulate/pipeline_simulation.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

#include "schedule/table.hpp"
#include "simulate/simulate.hpp"

namespace hpplan {

namespace {

/// What is not linear in rounding is not steady: p*m additions of equal numbers stay well within this.
constexpr double kSteadyTolerance = 1e-9;

/// a, b, c at equal distances: the value `steps` distances past c, or nothing unless the two differences agree.
std::optional<Seconds> extend(Seconds a, Seconds b, Seconds c, double steps) {
  const double first = (b - a).value();
  const double second = (c - b).value();
  if (std::abs(second - first) > kSteadyTolerance * std::max(1.0, std::abs(c.value()))) return std::nullopt;
  return c + Seconds{second * steps};
}

bool extend_list(const std::vector<Seconds>& a, const std::vector<Seconds>& b, std::vector<Seconds>& c, double steps) {
  for (std::size_t d = 0; d < c.size(); ++d) {
    const std::optional<Seconds> value = extend(a[d], b[d], c[d], steps);
    if (!value) return false;
    c[d] = *value;
  }
  return true;
}

double idle_share(const std::vector<Seconds>& busy, Seconds cost) {
  Seconds total;
  for (const Seconds time : busy) total += time;
  return cost > Seconds{} ? 1.0 - total / (cost * static_cast<double>(busy.size())) : 0.0;
}

std::optional<PipelineSimulation> extrapolate(const std::string& family, const ScheduleRequest& request) {
  // A period holds whole groups of every family: Megatron's groups, Chimera's units and AMDP's cycles of P, pairs of
  // DualPipe, and updates.
  const int period = 4 * request.stage_count * std::max(1, request.accumulation);
  const int head = 16 * request.stage_count;
  const int steps = (request.micro_batches - head) / period - 2;
  if (steps < 1) return std::nullopt;
  ScheduleRequest shorter = request;
  PipelineSimulation runs[3];
  for (int k = 0; k < 3; ++k) {
    shorter.micro_batches = request.micro_batches - (steps + 2 - k) * period;
    runs[k] = simulate_pipeline_fully(family, shorter);
  }
  PipelineSimulation result = runs[2];
  const auto makespan = extend(runs[0].makespan, runs[1].makespan, runs[2].makespan, steps);
  const auto span = extend(runs[0].span, runs[1].span, runs[2].span, steps);
  if (!makespan || !span || runs[1].peak_in_flight != runs[2].peak_in_flight ||
      !extend_list(runs[0].busy, runs[1].busy, result.busy, steps) ||
      !extend_list(runs[0].last_end, runs[1].last_end, result.last_end, steps)) {
    return std::nullopt;
  }
  result.makespan = *makespan;
  result.span = *span;
  result.bubble = idle_share(result.busy, result.makespan);
  result.span_bubble = idle_share(result.busy, result.span);
  result.extrapolated = true;
  return result;
}

}  // namespace

PipelineSimulation simulate_pipeline_fully(const std::string& family, const ScheduleRequest& request) {
  const Simulation simulation = simulate(make_schedule_of(family, request));
  PipelineSimulation result;
  result.makespan = simulation.makespan;
  result.span = simulation.span;
  result.bubble = simulation.idle_share;
  result.span_bubble = simulation.bubble_rate;
  result.busy = simulation.busy;
  result.last_end = simulation.last_end;
  result.peak_in_flight = simulation.peak_in_flight;
  return result;
}

PipelineSimulation simulate_pipeline(const std::string& family, const ScheduleRequest& request) {
  if (request.micro_batches >= kExtrapolateFrom) {
    const std::optional<PipelineSimulation> steady = extrapolate(family, request);
    if (steady) return *steady;
  }
  return simulate_pipeline_fully(family, request);
}

PipelineSimulation simulate_pipeline(const std::string& family, std::span<const StageTime> stages, int micro_batches) {
  ScheduleRequest request;
  request.stage_count = static_cast<int>(stages.size());
  request.micro_batches = micro_batches;
  request.times.assign(stages.begin(), stages.end());
  return simulate_pipeline(family, request);
}

}  // namespace hpplan
