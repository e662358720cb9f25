#pragma once

#include <string>
#include <vector>

#include "domain/cluster.hpp"
#include "domain/model.hpp"

namespace hpplan {

/// The model or cluster named by file, by "-" or by the name of a shipped one. Clusters may refer to the device types
/// of the shipped profiles/devices.yaml.
[[nodiscard]] ModelSpec load_model(const std::string& name_or_path);
[[nodiscard]] ClusterSpec load_cluster(const std::string& name_or_path);

/// The device types of the shipped profiles/devices.yaml.
[[nodiscard]] std::vector<DeviceType> load_device_types();

}  // namespace hpplan
