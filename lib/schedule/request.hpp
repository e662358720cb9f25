#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace hpplan {

/// Times of one model layer, for the families that decide themselves which layers go where.
struct LayerTime {
  std::string name;
  Seconds forward;
  Seconds backward;  // input gradient
  Seconds weight_gradient;
};

/// A stage of a placed `octopipe` schedule; its time is beside it in ScheduleRequest::times.
struct OctoStage {
  LayerRange layers;
  int device = 0;
};

/// What a family builds its op lists from.
struct ScheduleRequest {
  int stage_count = 0;                  // of the pipeline, as the family counts them; at least 1
  int micro_batches = 0;                // at least 1
  std::vector<StageTime> times;         // one per stage; or one per part, in the order of schedule/arrangement.hpp, for
                                        // families that put several parts of the model on a device
  int chunks = 0;                       // chunks per device; 0: what the family uses by default
  std::optional<double> memory_limit;   // of the searched families: activations a device may hold, in whole stages
  std::vector<int> in_flight;           // of `1f1b-adaptive`: micro-batches per stage; empty: as many as 1F1B has
  std::vector<OctoStage> placement;     // of `octopipe`: stages already placed; empty: it searches
  std::vector<double> activation_caps;  // of a placed `octopipe`, per device, in activations of one layer; empty: none
  std::optional<int> max_drift;         // of `paci` and `amdp`: updates allowed between forward and backward
  int accumulation = 0;                 // of the asynchronous families: micro-batches per update; 0: the default
  std::optional<double> weight_gradient_memory;  // share of an activation kept from input to weight gradient, 0..1;
                                                 // nothing: the family's default
  double joined_time = 1.0;                      // time of an overlapped forward and backward over the sum of both
  std::vector<LayerTime> layers;                 // of `octopipe`: what to partition; `times` is not used then
};

/// Throws InputError about option `field` of a schedule.
[[noreturn]] void refuse_schedule(const std::string& field, const std::string& message, const std::string& hint);

/// Throws InputError unless counts are positive, and times are as many as they should be and not negative.
void check_request(const ScheduleRequest& request, int chunks);

}  // namespace hpplan
