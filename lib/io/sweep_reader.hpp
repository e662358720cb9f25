#pragma once

#include <optional>
#include <string>
#include <vector>

#include "domain/sweep.hpp"

namespace hpplan {

/// The points of a sweep:
///   base    settings that hold for all points
///   grid    lists of values; their product, the last key varying fastest
///   points  a list of maps: settings of single points, each combined with the grid if there is one
/// Settings: model, cluster, profile, global_batch, micro_batch, sequence, schedule, tolerance, pipelines, stages,
/// tensor_parallel, whole_nodes, type_pure, forbid, force. A value that is a list for one point is a list inside the
/// grid's list. Throws InputError with every fault found.
[[nodiscard]] std::vector<SweepPoint> parse_sweep(std::string text, std::string file);

/// One line of a results file, without its line end; nothing if it is not one.
[[nodiscard]] std::optional<SweepLine> parse_sweep_line(const std::string& line);

/// Lines of a results file, in their order; a last line without line end is left out. Throws InputError for a line that
/// cannot be read.
[[nodiscard]] std::vector<SweepLine> parse_sweep_results(const std::string& text, const std::string& file);

/// `line` as one JSON object, without a line end. Reads back as the same line.
[[nodiscard]] std::string sweep_line_text(const SweepLine& line);

}  // namespace hpplan
