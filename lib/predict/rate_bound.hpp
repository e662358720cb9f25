#pragma once

#include "predict/problem.hpp"

namespace hpplan {

/// Lower bound of the iteration time of any plan: the global batch's work over the summed best rates of all devices
/// (search-notes C.4). Memory, links, fill and All-Reduce are ignored, so it holds for every cut of the space.
[[nodiscard]] Seconds rate_bound(const Problem& problem);

/// Least device-seconds that the forward and backward of one sample through a layer of `kind` take on a node group that
/// can run the model: at any TP degree, micro-batch size and without recomputation.
[[nodiscard]] Seconds least_device_time(const Problem& problem, int group, int kind);

}  // namespace hpplan
