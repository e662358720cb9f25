#pragma once

#include <string>
#include <vector>

#include "domain/sweep.hpp"

namespace hpplan {

/// One row per line, by point: what was varied, the status, the time, the gap and the plan.
[[nodiscard]] std::string sweep_table(std::vector<SweepLine> lines);

/// The same with every setting, for spreadsheets (RFC 4180).
[[nodiscard]] std::string sweep_csv(std::vector<SweepLine> lines);

/// Iteration time against devices, both logarithmic: a line per model and other settings, the best plan of each
/// number of devices.
[[nodiscard]] std::string sweep_svg(std::vector<SweepLine> lines);

}  // namespace hpplan
