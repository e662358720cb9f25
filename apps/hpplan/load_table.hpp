#pragma once

#include <string>
#include <vector>

#include "domain/cluster.hpp"
#include "domain/model.hpp"
#include "profile/profile_table.hpp"

namespace hpplan {

/// Profiles named by `names`, or the shipped ones that match when there are none.
[[nodiscard]] ProfileTable load_profile_table(const std::vector<std::string>& names, const ModelSpec& model,
                                              const ClusterSpec& cluster);

}  // namespace hpplan
