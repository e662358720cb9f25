#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace hpplan {

/// A kind of accelerator. Peak is the dense 16-bit matrix rate.
struct DeviceType {
  std::string name;
  Bytes memory;
  FlopPerSecond peak;
  BytesPerSecond memory_bandwidth;

  friend bool operator==(const DeviceType&, const DeviceType&) = default;
};

/// Bandwidth and latency of a link, one direction.
///   intra-node: per device; inter-node: per node, shared by its devices.
struct Link {
  BytesPerSecond bandwidth;
  Seconds latency;

  friend bool operator==(const Link&, const Link&) = default;
};

/// Identical nodes with the same links. All devices of a node are of one type.
struct NodeGroup {
  std::string name;
  int device_type = 0;       // index into ClusterSpec::device_types
  int nodes = 0;             // at least 1
  int devices_per_node = 0;  // at least 1
  Link intra_node;
  Link inter_node;
  std::vector<std::string> node_names;  // one per node

  [[nodiscard]] int device_count() const { return nodes * devices_per_node; }
};

/// The machines. Ranks number all devices group by group, node by node.
struct ClusterSpec {
  std::string name;
  std::vector<DeviceType> device_types;
  std::vector<NodeGroup> node_groups;
  std::vector<std::vector<Link>> group_links;  // [a][b]: limit of traffic between groups a and b, per node; the smaller
                                               // of both groups' inter_node where the input states nothing
  std::vector<std::string> notes;              // e.g. "node n4 has no devices and was skipped"
  std::string digest;

  [[nodiscard]] int group_count() const { return static_cast<int>(node_groups.size()); }
  [[nodiscard]] int device_count() const {
    int count = 0;
    for (const NodeGroup& group : node_groups) count += group.device_count();
    return count;
  }
  /// Devices of the largest node.
  [[nodiscard]] int largest_node() const {
    int most = 1;
    for (const NodeGroup& group : node_groups) most = std::max(most, group.devices_per_node);
    return most;
  }
  /// Devices that may share one layer: those of the largest node, or of the largest node group.
  [[nodiscard]] int widest_tensor_parallel(bool across_nodes) const {
    if (!across_nodes) return largest_node();
    int most = 1;
    for (const NodeGroup& group : node_groups) most = std::max(most, group.device_count());
    return most;
  }
  [[nodiscard]] const DeviceType& type_of(int group) const {
    return device_types[static_cast<std::size_t>(node_groups[static_cast<std::size_t>(group)].device_type)];
  }
};

/// One device: its node group, the node within the group, the device within the node.
struct DevicePlace {
  int group = 0;
  int node = 0;
  int device = 0;

  friend auto operator<=>(const DevicePlace&, const DevicePlace&) = default;
};

/// Global rank of a device: contiguous over groups, nodes, devices.
[[nodiscard]] int rank_of(const ClusterSpec& cluster, const DevicePlace& place);
[[nodiscard]] DevicePlace place_of_rank(const ClusterSpec& cluster, int rank);
[[nodiscard]] const std::string& node_name(const ClusterSpec& cluster, const DevicePlace& place);

}  // namespace hpplan
