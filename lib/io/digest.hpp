#pragma once

#include <string>
#include <string_view>

#include "domain/cluster.hpp"
#include "domain/model.hpp"

namespace hpplan {

/// FNV-1a 64 of `text` as 16 hexadecimal digits. Tells inputs apart; does not protect against forgery.
[[nodiscard]] std::string fingerprint(std::string_view text);

/// Fingerprint of what a result depends on. Spelling, key order, comments, file names, the model's or cluster's own
/// name and device types that no group uses change nothing.
[[nodiscard]] std::string model_digest(const ModelSpec& model);
[[nodiscard]] std::string cluster_digest(const ClusterSpec& cluster);

}  // namespace hpplan
