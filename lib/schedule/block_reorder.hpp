#pragma once

#include <vector>

#include "schedule/schedule.hpp"
#include "schedule/v_shape.hpp"

namespace hpplan {

/// Op lists of a V schedule from the blocks of its devices, by repeat, reorder and squeeze on a grid of unit slots:
/// blocks are repeated every six slots; what comes before the first full backward and after the last forward moves to
/// the earliest free slot that its inputs and the peak of the repeated blocks allow, once with weight gradients in the
/// grid and once more, at the end of the step, without; then weight gradients take the free slots. Real times only
/// matter when the lists are run.
///   blocks  per device; device r holds stages r and 2P-1-r
/// Source: Pipeline Parallelism with Controllable Memory (2405.15362), sections 3 and 4.
[[nodiscard]] std::vector<std::vector<Op>> reordered_block(const std::vector<VeeBlock>& blocks, int micro_batches);

}  // namespace hpplan
