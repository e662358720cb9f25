#pragma once

#include "base/units.hpp"

namespace hpplan {

/// Times of one pipeline stage for one micro-batch.
///   backward         the whole backward, or its input-gradient half when `weight_gradient` is given
///   weight_gradient  the other half; families that do not split the backward run both halves as one op
///   link             transfer of one boundary tensor to the next stage, one way; ignored on the last stage
struct StageTime {
  Seconds forward;
  Seconds backward;
  Seconds weight_gradient;
  Seconds link;

  [[nodiscard]] constexpr Seconds whole_backward() const { return backward + weight_gradient; }
  [[nodiscard]] constexpr Seconds total() const { return forward + backward + weight_gradient; }
};

}  // namespace hpplan
