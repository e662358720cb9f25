#pragma once

#include <vector>

#include "schedule/schedule.hpp"

namespace hpplan {

/// What the DualPipe order of one device depends on. "Own" is the direction that enters the pipeline at this device's
/// end, "other" the opposite one.
struct DualPipeDevice {
  int half = 0;           // devices from the end to the turn: P/2, or all of them when folded
  int distance = 0;       // of this device from its end
  int micro_batches = 0;  // per direction
  int own_stage = 0;
  int other_stage = 0;
  int own_first = 0;  // first micro-batch of the direction
  int other_first = 0;
  bool middle = false;  // the very first pair of a middle device runs as two ops
};

/// The eight steps of DualPipe. Source: DeepSeek-V3 (2412.19437) and its public implementation; schedules.md 2.9.
void write_dualpipe(std::vector<Op>& program, const DualPipeDevice& device);

}  // namespace hpplan
