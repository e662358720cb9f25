#pragma once

#include <vector>

#include "schedule/schedule.hpp"

namespace hpplan {

/// Fills the op lists of a schedule with two chunks per device from the order in which forwards and input gradients are
/// wanted: each runs when its turn comes and its input is there, and weight gradients fill what would be idle, or run
/// when memory is short. Several rules for running ahead of the turn are tried; the best span is kept.
///   wanted  per device: forwards and input gradients in their order
///   limit   chunk activations that a device may hold
/// Source: repeat, squeeze and reorder of 2405.15362; for ZB-V of 2401.10241 the order is that of its section 6.
///   returns the span: the longest time from the first start to the last end of one device
Seconds fill_block_order(Schedule& schedule, const std::vector<std::vector<Op>>& wanted, int limit);

/// Fills the op lists of a schedule with `lists`, which must not wait for each other in a circle; returns the span.
Seconds run_in_order(Schedule& schedule, const std::vector<std::vector<Op>>& lists);

}  // namespace hpplan
