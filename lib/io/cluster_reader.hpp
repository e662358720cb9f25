#pragma once

#include <string>
#include <vector>

#include "domain/cluster.hpp"

namespace hpplan {

/// Device types that a text such as profiles/devices.yaml lists, for clusters that refer to them by name.
[[nodiscard]] std::vector<DeviceType> parse_device_types(std::string text, std::string file);

/// The cluster that a YAML or JSON text describes; configs/README.md lists the fields. `file` is shown in messages.
///   known_types   device types that the cluster may name without describing them
/// Nodes of one group with different numbers of devices become a group for each number; what has no devices is left
/// out, with a note. Throws InputError with every fault found.
[[nodiscard]] ClusterSpec parse_cluster(std::string text, std::string file,
                                        const std::vector<DeviceType>& known_types = {});

}  // namespace hpplan
