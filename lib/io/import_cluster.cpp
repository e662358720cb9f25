#include "io/import_cluster.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "io/detail/text_lines.hpp"
#include "io/digest.hpp"

namespace hpplan {

using detail::TextFaults;

namespace {

constexpr Seconds kIntraLatency{3e-6};
constexpr Seconds kInterLatency{5e-6};

const DeviceType* type_of_label(const ClusterImportOptions& options, const std::string& label) {
  const auto find = [&](const std::string& wanted) {
    return std::find_if(options.devices.begin(), options.devices.end(),
                        [&](const auto& entry) { return entry.first == wanted; });
  };
  auto found = find(label);
  if (found == options.devices.end()) found = find("");
  return found == options.devices.end() ? nullptr : &found->second;
}

/// Index of `type` in the cluster's list, added when new.
int type_index(ClusterSpec& cluster, const DeviceType& type) {
  const auto found = std::find(cluster.device_types.begin(), cluster.device_types.end(), type);
  if (found != cluster.device_types.end()) return static_cast<int>(found - cluster.device_types.begin());
  cluster.device_types.push_back(type);
  return static_cast<int>(cluster.device_types.size()) - 1;
}

NodeGroup& group_for(ClusterSpec& cluster, int type, int devices) {
  for (NodeGroup& group : cluster.node_groups) {
    if (group.device_type == type && group.devices_per_node == devices) return group;
  }
  NodeGroup group;
  group.device_type = type;
  group.devices_per_node = devices;
  cluster.node_groups.push_back(std::move(group));
  return cluster.node_groups.back();
}

void add_hosts(ClusterSpec& cluster, const std::vector<Host>& hosts, const ClusterImportOptions& options,
               TextFaults& faults) {
  std::vector<std::string> unknown;
  for (const Host& host : hosts) {
    const DeviceType* const type = type_of_label(options, host.type);
    const int devices = host.devices > 0 ? host.devices : options.devices_per_node;
    if (type == nullptr && std::find(unknown.begin(), unknown.end(), host.type) == unknown.end()) {
      unknown.push_back(host.type);
      const std::string label = host.type.empty() ? "" : host.type + "=";
      faults.add(host.line, 1, "device", concat("the list does not say which device ", host.name, " has"),
                 concat("add --device ", label, "NAME, such as --device ", label, "a100-80gb"));
    }
    if (devices == 0) {
      faults.add(host.line, 1, "slots", concat("the list does not say how many devices ", host.name, " has"),
                 "add --devices-per-node N");
    }
    if (type == nullptr || devices == 0) continue;
    NodeGroup& group = group_for(cluster, type_index(cluster, *type), devices);
    group.node_names.push_back(host.name);
    group.nodes = static_cast<int>(group.node_names.size());
  }
}

void set_links(ImportedCluster& result, const ClusterImportOptions& options, TextFaults& faults) {
  ClusterSpec& cluster = result.cluster;
  const bool several_devices = std::any_of(cluster.node_groups.begin(), cluster.node_groups.end(),
                                           [](const NodeGroup& group) { return group.devices_per_node > 1; });
  int nodes = 0;
  for (const NodeGroup& group : cluster.node_groups) nodes += group.nodes;
  if (several_devices && !options.intra_bandwidth) {
    faults.add(0, 0, "intra_node.bandwidth", "the list does not say how fast links inside a node are",
               "add --intra-bandwidth \"1536 Gbps\", --topology FILE or --intra-nccl FILE");
  }
  if (nodes > 1 && !options.inter_bandwidth) {
    faults.add(0, 0, "inter_node.bandwidth", "the list does not say how fast links between nodes are",
               "add --inter-bandwidth \"200 Gbps\" or --inter-nccl FILE");
  }
  if (!options.intra_latency)
    result.notes.emplace_back("intra_node.latency: default 3 us; change with --intra-latency");
  if (!options.inter_latency)
    result.notes.emplace_back("inter_node.latency: default 5 us; change with --inter-latency");
  const BytesPerSecond unused{1e9};  // a link that nothing crosses
  const Link intra{options.intra_bandwidth.value_or(options.inter_bandwidth.value_or(unused)),
                   options.intra_latency.value_or(kIntraLatency)};
  const Link inter{options.inter_bandwidth.value_or(intra.bandwidth), options.inter_latency.value_or(kInterLatency)};
  for (NodeGroup& group : cluster.node_groups) {
    group.intra_node = intra;
    group.inter_node = inter;
  }
  const std::size_t groups = cluster.node_groups.size();
  cluster.group_links.assign(groups, std::vector<Link>(groups, inter));
}

/// Named after the device type; after the number of devices too where that alone would not tell groups apart.
void name_groups(ClusterSpec& cluster) {
  for (NodeGroup& group : cluster.node_groups) {
    const int type = group.device_type;
    const auto same_type = std::count_if(cluster.node_groups.begin(), cluster.node_groups.end(),
                                         [&](const NodeGroup& other) { return other.device_type == type; });
    group.name = cluster.device_types[static_cast<std::size_t>(type)].name;
    if (same_type > 1) group.name += concat("-of-", group.devices_per_node);
  }
}

}  // namespace

ImportedCluster import_cluster(const std::vector<Host>& hosts, const std::string& file,
                               const ClusterImportOptions& options) {
  TextFaults faults(file);
  ImportedCluster result;
  result.cluster.name = options.name;
  add_hosts(result.cluster, hosts, options, faults);
  set_links(result, options, faults);
  faults.finish();
  name_groups(result.cluster);
  result.cluster.digest = cluster_digest(result.cluster);
  return result;
}

}  // namespace hpplan
