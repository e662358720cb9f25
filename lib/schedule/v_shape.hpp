#pragma once

#include <string>

#include "schedule/request.hpp"

namespace hpplan {

constexpr int kVeePeriod = 6;  // two chunks, each with F, B and W

/// Slots of one micro-batch on one device of a V schedule, in the block that repeats every six slots.
struct VeeBlock {
  int forward_down = 0;
  int forward_up = 0;
  int backward_up = 0;
  int backward_down = 0;
};

/// Builds a V schedule from the block of each device: blocks are repeated every six slots. Two ways lead on: the order
/// of slots is the wanted order of forwards and input gradients, and fill_block_order makes the most of it within
/// `limit` chunk activations per device; or reordered_block moves ops on the grid of slots. The shorter span is kept.
/// Source: Pipeline Parallelism with Controllable Memory (2405.15362).
[[nodiscard]] Schedule make_v_shape(const std::string& family, const ScheduleRequest& request,
                                    VeeBlock (*block)(int stages, int device), int limit);

}  // namespace hpplan
