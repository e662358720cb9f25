#pragma once

#include <string>
#include <vector>

#include "base/diagnostic.hpp"
#include "domain/cluster.hpp"
#include "domain/job.hpp"
#include "domain/model.hpp"

namespace hpplan {

// Sizes of an iteration must fit 64 bits, and a sum of micro-batches is looked for in a table of this length.
constexpr int kMaxGlobalBatch = 1 << 24;
constexpr double kMaxTolerance = 1e6;

/// Whole numbers from 1 to `max` in a text such as "1,2,4", ascending and without repeats. `option` is named in
/// messages. Throws InputError.
[[nodiscard]] std::vector<int> parse_count_list(const std::string& option, const std::string& text, int max);

/// "4": exactly 4; "2..8": from 2 to 8; "2..": at least 2; "..8": at most 8. Throws InputError.
[[nodiscard]] CountLimit parse_count_limit(const std::string& option, const std::string& text);

/// Rules of --forbid or --force, one a text. Throws InputError.
[[nodiscard]] std::vector<PlacementRule> parse_placement_rules(RuleKind kind, const std::vector<std::string>& texts);

/// Names in a text such as "1f1b,zb-h1", in order. Throws InputError for an empty or repeated one.
[[nodiscard]] std::vector<std::string> parse_name_list(const std::string& option, const std::string& text);

/// Every contradiction in a job, or between it, the model and the cluster, that no search could resolve: bad input, not
/// "no feasible plan". Fields are named by the options that set them.
[[nodiscard]] std::vector<Diagnostic> job_faults(const Job& job, const ModelSpec& model, const ClusterSpec& cluster);

}  // namespace hpplan
