#pragma once

#include <string>

#include "schedule/request.hpp"

namespace hpplan {

/// An empty schedule of `family` with its devices and micro-batches set; stages are added by the functions below.
[[nodiscard]] Schedule make_schedule(const std::string& family, const ScheduleRequest& request, int device_count);

/// One stage per device, in order.
void place_linear(Schedule& schedule, const ScheduleRequest& request);

/// `chunks` parts per device, dealt round robin: chunk c of device r is part c*P + r. Times of whole stages are divided
/// evenly among the chunks. The way back from the last device to the first costs as much as the slowest link.
void place_loop(Schedule& schedule, const ScheduleRequest& request, int chunks);

/// Two parts per device, down and back up: device r holds parts r and 2P-1-r. The turn on the last device is local.
void place_vee(Schedule& schedule, const ScheduleRequest& request);

/// Two replicas of the model: one down (stage s on device s), one up (stage s on device P-1-s). Stage ids: the down
/// replica first, then the up replica, each in model order. `times` may be those of both replicas in that order.
void place_two_way(Schedule& schedule, const ScheduleRequest& request);

}  // namespace hpplan
