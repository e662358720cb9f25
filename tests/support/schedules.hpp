#pragma once

#include <string>
#include <vector>

#include "schedule/table.hpp"
#include "simulate/simulate.hpp"

namespace hpplan::testing {

/// A request with equal stages; a test states only what matters to it.
inline ScheduleRequest equal_stages(int stages, int micro_batches, double forward, double backward,
                                    double weight_gradient = 0.0, double link = 0.0) {
  ScheduleRequest request;
  request.stage_count = stages;
  request.micro_batches = micro_batches;
  request.times.assign(static_cast<std::size_t>(stages),
                       {Seconds{forward}, Seconds{backward}, Seconds{weight_gradient}, Seconds{link}});
  return request;
}

inline ScheduleRequest with_chunks(ScheduleRequest request, int chunks) {
  request.chunks = chunks;
  return request;
}

inline Simulation run(const std::string& family, const ScheduleRequest& request) {
  return simulate(make_schedule_of(family, request));
}

}  // namespace hpplan::testing
