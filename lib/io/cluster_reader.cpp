#include "io/cluster_reader.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "io/digest.hpp"
#include "io/document.hpp"
#include "io/file_kind.hpp"

namespace hpplan {

namespace {

constexpr int kMaxNodes = 1 << 16;       // of all groups together
constexpr std::size_t kMaxGroups = 256;  // of equal nodes; links are stored for every pair
constexpr int kMaxDevicesPerNode = 1 << 12;
constexpr std::int64_t kMaxDevices = std::int64_t{1} << 20;
constexpr double kMaxRate = 1e21;  // any rate: a million times today's
constexpr double kMinRate = 1.0;

/// Nodes of one entry of node_groups, before they are cut into groups of equal nodes.
struct GroupEntry {
  Reader map;
  std::string name;
  int device_type = 0;
  std::vector<std::string> node_names;
  std::vector<int> devices;  // per node
  std::optional<Link> intra_node;
  std::optional<Link> inter_node;
};

template <typename Rate>
Rate read_rate(const Reader& field) {
  const Rate rate = field.quantity<Rate>();
  const bool is_read = field.exists() && rate > Rate{};
  if (is_read && (rate.value() > kMaxRate || rate.value() < kMinRate))
    field.fault("no device and no link is like this");
  return rate;
}

Link read_link(const Reader& map) {
  Link link;
  link.bandwidth = read_rate<BytesPerSecond>(map.required("bandwidth"));
  const Reader latency = map.required("latency");
  link.latency = latency.quantity<Seconds>(ZeroRule::Allowed);
  if (link.latency > Seconds{1e3}) latency.fault("a latency of more than 1000 s");
  return link;
}

std::vector<std::string> names_of(const std::vector<DeviceType>& types) {
  std::vector<std::string> names;
  for (const DeviceType& type : types) names.push_back(type.name);
  return names;
}

const DeviceType* find_type(const std::vector<DeviceType>& types, const std::string& name) {
  const auto found =
      std::find_if(types.begin(), types.end(), [&](const DeviceType& type) { return type.name == name; });
  return found == types.end() ? nullptr : &*found;
}

void fault_unknown_type(const Reader& field, const std::string& name, const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(name, known);
  std::string hint = known.empty() ? "describe it under device_types" : concat("known: ", join(known, ", "));
  if (!nearest.empty()) hint = concat("did you mean \"", nearest, "\"?");
  field.fault(concat("no device type is called \"", name, "\""), hint);
}

/// One device type: figures given here, the rest from the known type that `like` names.
DeviceType read_device_type(const Reader& map, const std::vector<DeviceType>& known_types) {
  DeviceType type;
  const Reader name = map.required("name");
  const Reader like = map.optional("like");
  const DeviceType* base = nullptr;
  if (like.exists()) {
    const std::string base_name = like.name();
    base = find_type(known_types, base_name);
    if (base == nullptr && like.kind() == ValueKind::Text) fault_unknown_type(like, base_name, names_of(known_types));
  }
  if (base != nullptr) type = *base;
  const auto field = [&](const char* key) { return like.exists() ? map.optional(key) : map.required(key); };
  if (const Reader memory = field("memory"); memory.exists()) {
    type.memory = memory.quantity<Bytes>();
    if (type.memory > Bytes{std::int64_t{1} << 50}) memory.fault("more than 1024 TiB of memory on one device");
  }
  if (const Reader peak = field("peak"); peak.exists()) type.peak = read_rate<FlopPerSecond>(peak);
  if (const Reader rate = field("memory_bandwidth"); rate.exists()) {
    type.memory_bandwidth = read_rate<BytesPerSecond>(rate);
  }
  type.name = name.name();
  (void)map.optional("origin").text_or("");  // for people: where the figures are from
  return type;
}

std::vector<DeviceType> read_device_types(const Reader& list, const std::vector<DeviceType>& known_types) {
  std::vector<DeviceType> types;
  for (const Reader& item : list.items()) {
    DeviceType type = read_device_type(item, known_types);
    if (!type.name.empty() && find_type(types, type.name) != nullptr) {
      item.required("name").fault(concat("a second device type called \"", type.name, "\""), "give each its own name");
    }
    types.push_back(std::move(type));
  }
  return types;
}

/// Index of the type that the group names, taken over from the known types where the file does not describe it.
int read_type_of_group(const Reader& field, std::vector<DeviceType>& types,
                       const std::vector<DeviceType>& known_types) {
  const std::string name = field.name();
  if (field.kind() != ValueKind::Text) return 0;
  if (find_type(types, name) == nullptr) {
    const DeviceType* const known = find_type(known_types, name);
    if (known == nullptr) {
      std::vector<std::string> names = names_of(types);
      for (const std::string& other : names_of(known_types)) names.push_back(other);
      fault_unknown_type(field, name, names);
      return 0;
    }
    types.push_back(*known);
  }
  return static_cast<int>(find_type(types, name) - types.data());
}

/// Devices of each node: one number for all, or a list with one number per node.
std::vector<int> read_devices(const Reader& field, int nodes, const Reader& nodes_field) {
  if (field.kind() != ValueKind::List) {
    return std::vector<int>(static_cast<std::size_t>(nodes), field.count(0, kMaxDevicesPerNode));
  }
  std::vector<int> devices;
  for (const Reader& item : field.items()) devices.push_back(item.count(0, kMaxDevicesPerNode));
  if (field.document_ok() && devices.size() != static_cast<std::size_t>(nodes)) {
    field.fault(concat(devices.size(), " numbers of devices for ", nodes, " nodes (", nodes_field.position(), ")"),
                "give one number for each node, or one for all");
    devices.resize(static_cast<std::size_t>(nodes));
  }
  return devices;
}

std::vector<std::string> read_node_names(const Reader& field, const std::string& group, int nodes,
                                         const Reader& nodes_field) {
  std::vector<std::string> names;
  if (!field.exists()) {
    for (int node = 0; node < nodes; ++node) names.push_back(concat(group, "-", node));
    return names;
  }
  for (const Reader& item : field.items()) names.push_back(item.name());
  if (field.document_ok() && names.size() != static_cast<std::size_t>(nodes)) {
    field.fault(concat(names.size(), " names for ", nodes, " nodes (", nodes_field.position(), ")"),
                "give each node a name, or leave node_names out");
  }
  names.resize(static_cast<std::size_t>(nodes));
  return names;
}

GroupEntry read_group(const Reader& map, std::vector<DeviceType>& types, const std::vector<DeviceType>& known_types) {
  GroupEntry entry{map, map.required("name").name(), 0, {}, {}, std::nullopt, std::nullopt};
  entry.device_type = read_type_of_group(map.required("device"), types, known_types);
  const Reader nodes = map.required("nodes");
  const int count = nodes.count(0, kMaxNodes);
  entry.devices = read_devices(map.required("devices_per_node"), count, nodes);
  entry.node_names = read_node_names(map.optional("node_names"), entry.name, count, nodes);
  if (const Reader link = map.optional("intra_node"); link.exists()) entry.intra_node = read_link(link);
  if (const Reader link = map.optional("inter_node"); link.exists()) entry.inter_node = read_link(link);
  map.also_called("device", {"device_type", "type", "accelerator"});
  map.also_called("devices_per_node", {"gpus_per_node", "num_gpus", "devices"});
  map.also_called("nodes", {"num_nodes", "node_count"});
  map.also_called("intra_node", {"intra_link", "intra_bandwidth"});
  map.also_called("inter_node", {"inter_link", "inter_bandwidth"});
  return entry;
}

/// A link that only one node or one device would never use may be left out; every other one must be stated.
void complete_links(GroupEntry& entry, int nodes_with_devices) {
  const bool needs_intra = *std::max_element(entry.devices.begin(), entry.devices.end()) > 1;
  const bool needs_inter = nodes_with_devices > 1;
  if (needs_intra && !entry.intra_node) {
    (void)entry.map.required("intra_node");
    return;
  }
  if (needs_inter && !entry.inter_node) {
    (void)entry.map.required("inter_node");
    return;
  }
  // One device alone: no link is ever used, but a Link must still divide sizes.
  const Link unused{BytesPerSecond{1e9}, Seconds{}};
  if (!entry.intra_node) entry.intra_node = entry.inter_node.value_or(unused);
  if (!entry.inter_node) entry.inter_node = entry.intra_node;
}

/// Cuts an entry into groups of nodes with equal numbers of devices, in order of first appearance.
std::vector<NodeGroup> split_by_size(const GroupEntry& entry, std::vector<std::string>& notes) {
  std::vector<NodeGroup> groups;
  std::vector<int> sizes;
  for (std::size_t node = 0; node < entry.devices.size(); ++node) {
    const int size = entry.devices[node];
    if (size == 0) {
      notes.push_back(concat("node ", entry.node_names[node], " has no devices and was skipped"));
      continue;
    }
    auto place = std::find(sizes.begin(), sizes.end(), size);
    if (place == sizes.end()) {
      sizes.push_back(size);
      place = sizes.end() - 1;
      NodeGroup group;
      group.device_type = entry.device_type;
      group.devices_per_node = size;
      group.intra_node = *entry.intra_node;
      group.inter_node = *entry.inter_node;
      groups.push_back(std::move(group));
    }
    NodeGroup& group = groups[static_cast<std::size_t>(place - sizes.begin())];
    ++group.nodes;
    group.node_names.push_back(entry.node_names[node]);
  }
  for (NodeGroup& group : groups) {
    group.name = groups.size() == 1 ? entry.name : concat(entry.name, "-of-", group.devices_per_node);
  }
  return groups;
}

Link slower_of(const Link& a, const Link& b) {
  return {std::min(a.bandwidth, b.bandwidth), std::max(a.latency, b.latency)};
}

/// Checks what only all entries together show: names, at least one device, not too many.
void check_entries(const Reader& list, const std::vector<GroupEntry>& entries) {
  std::map<std::string, std::string> group_places;
  std::map<std::string, std::string> node_places;
  std::int64_t total = 0;
  for (const GroupEntry& entry : entries) {
    const Reader name = entry.map.required("name");
    const auto [group, is_new] = group_places.emplace(entry.name, name.position());
    if (!is_new) name.fault(concat("a second group called \"", entry.name, "\", first at ", group->second));
    const Reader names = entry.map.optional("node_names");
    for (const std::string& node : entry.node_names) {
      const auto [first, is_new_node] = node_places.emplace(node, names.position());
      if (!is_new_node) names.fault(concat("a second node called \"", node, "\", first at ", first->second));
    }
    for (const int devices : entry.devices) total += devices;
  }
  if (total == 0) list.fault("no devices in the whole cluster", "at least one node needs devices");
  if (total > kMaxDevices) list.fault(concat(total, " devices, at most ", kMaxDevices, " are allowed"));
}

int index_of(const std::vector<GroupEntry>& entries, const Reader& field) {
  const std::string name = field.name();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].name == name) return static_cast<int>(i);
    names.push_back(entries[i].name);
  }
  if (field.kind() == ValueKind::Text) {
    field.fault(concat("no node group is called \"", name, "\""), concat("groups: ", join(names, ", ")));
  }
  return -1;
}

/// Links between entries that the file states, by (smaller, larger) index.
std::map<std::pair<int, int>, Link> read_stated_links(const Reader& list, const std::vector<GroupEntry>& entries) {
  std::map<std::pair<int, int>, Link> links;
  for (const Reader& item : list.items()) {
    const Reader between = item.required("between");
    const std::vector<Reader> ends = between.items();
    const Link link = read_link(item);
    if (ends.size() != 2) {
      if (between.kind() == ValueKind::List) between.fault("a link is between two node groups");
      continue;
    }
    const int a = index_of(entries, ends[0]);
    const int b = index_of(entries, ends[1]);
    if (a < 0 || b < 0) continue;
    if (a == b) {
      between.fault("a link of a node group to itself", "inter_node of the group says this");
    } else if (!links.emplace(std::minmax(a, b), link).second) {
      between.fault("a second link between the same groups");
    }
  }
  return links;
}

/// Fills cluster.node_groups and notes; returns for each group the index of its entry.
std::vector<int> build_groups(const Reader& list, std::vector<GroupEntry>& entries, ClusterSpec& cluster) {
  int nodes_with_devices = 0;
  for (const GroupEntry& entry : entries) {
    nodes_with_devices += static_cast<int>(entry.devices.size()) -
                          static_cast<int>(std::count(entry.devices.begin(), entry.devices.end(), 0));
  }
  std::vector<int> entry_of_group;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    GroupEntry& entry = entries[i];
    if (entry.devices.empty()) {
      cluster.notes.push_back(concat("node group ", entry.name, " has no nodes and was skipped"));
      continue;
    }
    complete_links(entry, nodes_with_devices);
    if (!list.document_ok()) continue;
    for (NodeGroup& group : split_by_size(entry, cluster.notes)) {
      const bool is_taken = std::any_of(cluster.node_groups.begin(), cluster.node_groups.end(),
                                        [&](const NodeGroup& other) { return other.name == group.name; });
      if (is_taken) {
        entry.map.required("name").fault(concat("its nodes with ", group.devices_per_node,
                                                " devices become a second group called \"", group.name, "\""),
                                         "rename one of the groups");
      }
      if (cluster.node_groups.size() >= kMaxGroups) {
        list.fault(concat("more than ", kMaxGroups, " groups of equal nodes"));
        return entry_of_group;
      }
      cluster.node_groups.push_back(std::move(group));
      entry_of_group.push_back(static_cast<int>(i));
    }
  }
  return entry_of_group;
}

/// For every pair of groups the stated link, or else what the slower side allows.
std::vector<std::vector<Link>> link_matrix(const std::vector<NodeGroup>& groups, const std::vector<int>& entry_of_group,
                                           const std::map<std::pair<int, int>, Link>& stated_links) {
  std::vector<std::vector<Link>> matrix;
  for (std::size_t a = 0; a < groups.size(); ++a) {
    std::vector<Link> row;
    for (std::size_t b = 0; b < groups.size(); ++b) {
      const auto link = stated_links.find(std::minmax(entry_of_group[a], entry_of_group[b]));
      row.push_back(link != stated_links.end() ? link->second : slower_of(groups[a].inter_node, groups[b].inter_node));
    }
    matrix.push_back(std::move(row));
  }
  return matrix;
}

}  // namespace

std::vector<DeviceType> parse_device_types(std::string text, std::string file) {
  const Document document = Document::parse(std::move(text), std::move(file));
  std::vector<DeviceType> types = read_device_types(document.root().required("device_types"), {});
  document.finish();
  return types;
}

ClusterSpec parse_cluster(std::string text, std::string file, const std::vector<DeviceType>& known_types) {
  const Document document = Document::parse(std::move(text), std::move(file));
  check_kind(document, FileKind::Cluster);
  const Reader root = document.root();
  ClusterSpec cluster;
  cluster.name = root.required("name").name();
  cluster.device_types = read_device_types(root.optional("device_types"), known_types);
  const Reader group_list = root.required("node_groups");
  std::vector<GroupEntry> entries;
  std::size_t node_count = 0;
  for (const Reader& item : group_list.items(1)) {
    entries.push_back(read_group(item, cluster.device_types, known_types));
    node_count += entries.back().devices.size();
    if (node_count > static_cast<std::size_t>(kMaxNodes) || entries.size() > kMaxGroups) {
      item.fault(concat("more than ", kMaxNodes, " nodes or ", kMaxGroups, " node groups"));
      break;
    }
  }
  const std::map<std::pair<int, int>, Link> stated_links = read_stated_links(root.optional("links"), entries);
  if (document.ok()) check_entries(group_list, entries);

  std::vector<int> entry_of_group;
  if (document.ok()) entry_of_group = build_groups(group_list, entries, cluster);
  document.finish();

  cluster.group_links = link_matrix(cluster.node_groups, entry_of_group, stated_links);
  cluster.digest = cluster_digest(cluster);
  return cluster;
}

}  // namespace hpplan
