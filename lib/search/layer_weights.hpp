#pragma once

#include <vector>

#include "search/stage_table.hpp"

namespace hpplan {

/// Relative size of each layer kind's work, by the first stage of one such layer that fits: any positive weights give a
/// valid rate bound. 0 where no such layer fits.
[[nodiscard]] std::vector<double> layer_weights(const Problem& problem, const StageTable& stages,
                                                const RangeClasses& ranges);

/// Work of these layers, in the weights' unit.
[[nodiscard]] double work_of(const ModelSpec& model, const std::vector<double>& weights, LayerRange layers);

}  // namespace hpplan
