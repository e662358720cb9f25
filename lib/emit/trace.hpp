#pragma once

#include <span>
#include <string>

#include "simulate/simulate.hpp"

namespace hpplan {

/// One simulated pipeline of a trace.
struct TracedPipeline {
  std::string name;
  const Schedule* schedule = nullptr;
  const Simulation* simulation = nullptr;
};

/// Chrome trace events (opens in Perfetto and chrome://tracing): one process per pipeline, one thread per device, one
/// event per op and a counter of the activations held.
///   microseconds  length of one time unit of the simulations: 1e6 when they ran in seconds
[[nodiscard]] std::string trace_json(std::span<const TracedPipeline> pipelines, double microseconds);

}  // namespace hpplan
