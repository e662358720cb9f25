#include "domain/cluster.hpp"

#include "base/check.hpp"

namespace hpplan {

int rank_of(const ClusterSpec& cluster, const DevicePlace& place) {
  int rank = 0;
  for (int group = 0; group < place.group; ++group) {
    rank += cluster.node_groups[static_cast<std::size_t>(group)].device_count();
  }
  const NodeGroup& group = cluster.node_groups[static_cast<std::size_t>(place.group)];
  return rank + place.node * group.devices_per_node + place.device;
}

DevicePlace place_of_rank(const ClusterSpec& cluster, int rank) {
  int rest = rank;
  for (int group = 0; group < cluster.group_count(); ++group) {
    const NodeGroup& nodes = cluster.node_groups[static_cast<std::size_t>(group)];
    if (rest < nodes.device_count()) return {group, rest / nodes.devices_per_node, rest % nodes.devices_per_node};
    rest -= nodes.device_count();
  }
  check_invariant(false, "rank within the cluster");
  return {};
}

const std::string& node_name(const ClusterSpec& cluster, const DevicePlace& place) {
  return cluster.node_groups[static_cast<std::size_t>(place.group)].node_names[static_cast<std::size_t>(place.node)];
}

}  // namespace hpplan
