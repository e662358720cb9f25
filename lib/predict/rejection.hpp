#pragma once

#include <string>

#include "base/units.hpp"

namespace hpplan {

enum class RejectReason { DeviceMemory, NoProfile, TooFewDevices, BatchNotReachable, Constraint };

[[nodiscard]] const char* to_text(RejectReason reason);

/// Why a candidate is not feasible, and by how much it misses.
struct Rejection {
  RejectReason reason = RejectReason::DeviceMemory;
  int stage = -1;    // where it fails; -1: the whole candidate
  Bytes needed;      // with DeviceMemory: what the candidate takes on one device
  Bytes available;   // and what there is
  std::string text;  // one line for people
};

}  // namespace hpplan
