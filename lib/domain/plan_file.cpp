#include "domain/plan_file.hpp"

#include <map>
#include <optional>

#include "base/check.hpp"
#include "base/text.hpp"

namespace hpplan {

namespace {

/// Places by the names that files use.
class DeviceIndex {
 public:
  explicit DeviceIndex(const ClusterSpec& cluster) : cluster_(cluster) {
    for (int g = 0; g < cluster.group_count(); ++g) {
      const NodeGroup& group = cluster.node_groups[static_cast<std::size_t>(g)];
      for (int n = 0; n < group.nodes; ++n) nodes_[group.node_names[static_cast<std::size_t>(n)]] = {g, n, 0};
    }
  }

  [[nodiscard]] std::optional<DevicePlace> find(const DeviceName& name) const {
    const auto node = nodes_.find(name.node);
    if (node == nodes_.end() || name.device < 0) return std::nullopt;
    DevicePlace place = node->second;
    const int count = cluster_.node_groups[static_cast<std::size_t>(place.group)].devices_per_node;
    if (name.device >= count) return std::nullopt;
    place.device = name.device;
    return place;
  }

  /// What the cluster has where `name` is not found.
  [[nodiscard]] std::string known(const DeviceName& name) const {
    const auto node = nodes_.find(name.node);
    if (node != nodes_.end()) {
      const int count = cluster_.node_groups[static_cast<std::size_t>(node->second.group)].devices_per_node;
      return concat("a device of ", name.node, ", which has 0..", count - 1);
    }
    std::vector<std::string> names;
    for (const auto& [text, place] : nodes_) names.push_back(text);
    const std::string near = nearest_name(name.node, names);
    return near.empty() ? concat("a node of cluster ", cluster_.name) : concat("a node such as ", near);
  }

 private:
  const ClusterSpec& cluster_;
  std::map<std::string, DevicePlace> nodes_;
};

int group_named(const ClusterSpec& cluster, const std::string& name) {
  for (int g = 0; g < cluster.group_count(); ++g) {
    if (cluster.node_groups[static_cast<std::size_t>(g)].name == name) return g;
  }
  return -1;
}

void place_stage(const ClusterSpec& cluster, const DeviceIndex& index, const StagePlacement& names,
                 const std::string& path, StagePlan& stage, std::vector<Difference>& differences) {
  stage.node_group = group_named(cluster, names.node_group);
  if (stage.node_group < 0) {
    std::vector<std::string> known;
    for (const NodeGroup& group : cluster.node_groups) known.push_back(group.name);
    differences.push_back(
        {path + ".node_group", names.node_group, "one of " + join(known, ", "), "no such node group"});
  }
  stage.devices.clear();
  for (std::size_t d = 0; d < names.devices.size(); ++d) {
    const std::string where = concat(path, ".devices[", d, "]");
    const std::optional<DevicePlace> place = index.find(names.devices[d]);
    if (!place) {
      differences.push_back({where, to_text(names.devices[d]), index.known(names.devices[d]), "no such device"});
      continue;
    }
    stage.devices.push_back(*place);
    if (stage.node_group >= 0 && place->group != stage.node_group) {
      differences.push_back({where, to_text(names.devices[d]), "a device of node group " + names.node_group,
                             "a stage lies on one node group"});
    }
    const int rank = rank_of(cluster, *place);
    if (d < names.ranks.size() && names.ranks[d] != rank) {
      differences.push_back({concat(path, ".ranks[", d, "]"), concat(names.ranks[d]), concat(rank),
                             concat("the rank of ", to_text(names.devices[d]))});
    }
  }
  if (names.ranks.size() != names.devices.size()) {
    differences.push_back({path + ".ranks", concat(names.ranks.size(), " ranks"),
                           concat(names.devices.size(), " ranks"), "one for each device"});
  }
}

}  // namespace

std::vector<Difference> place_on(const ClusterSpec& cluster, PlanFile& file) {
  const DeviceIndex index(cluster);
  std::vector<Difference> differences;
  for (std::size_t p = 0; p < file.plan.pipelines.size(); ++p) {
    std::vector<StagePlan>& stages = file.plan.pipelines[p].stages;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      place_stage(cluster, index, file.placements[p][s], stage_path(p, s), stages[s], differences);
    }
  }
  file.plan.idle_devices.clear();
  for (std::size_t d = 0; d < file.idle_devices.size(); ++d) {
    const std::optional<DevicePlace> place = index.find(file.idle_devices[d]);
    if (place) {
      file.plan.idle_devices.push_back(*place);
    } else {
      differences.push_back({concat("idle_devices[", d, "]"), to_text(file.idle_devices[d]),
                             index.known(file.idle_devices[d]), "no such device"});
    }
  }
  return differences;
}

StagePlacement placement_of(const ClusterSpec& cluster, const StagePlan& stage) {
  StagePlacement placement;
  placement.node_group = cluster.node_groups[static_cast<std::size_t>(stage.node_group)].name;
  for (const DevicePlace& place : stage.devices) {
    placement.devices.push_back(name_of(cluster, place));
    placement.ranks.push_back(rank_of(cluster, place));
  }
  return placement;
}

DeviceName name_of(const ClusterSpec& cluster, const DevicePlace& place) {
  return {node_name(cluster, place), place.device};
}

std::string to_text(const DeviceName& device) { return concat(device.node, ":", device.device); }

const char* to_text(OptimizerSharding sharding) {
  switch (sharding) {
    case OptimizerSharding::None: return "none";
    case OptimizerSharding::StageDataParallel: return "stage-data-parallel";
  }
  check_invariant(false, "known optimizer sharding");
  return "";
}

std::string stage_path(std::size_t pipeline, std::size_t stage) {
  return concat("pipelines[", pipeline, "].stages[", stage, "]");
}

}  // namespace hpplan
