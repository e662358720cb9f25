#include "domain/placement_rule.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace hpplan {

namespace {

bool is_in(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

LayerRange layers_of(const PlacementRule& rule, const ModelSpec& model) {
  switch (rule.choice) {
    case LayerChoice::All: return {0, model.layer_count()};
    case LayerChoice::Range: return rule.layers;
    case LayerChoice::Head: return {model.layer_count() - 1, model.layer_count()};
  }
  return {};
}

bool names_group(const PlacementRule& rule, const ClusterSpec& cluster, int group) {
  const NodeGroup& nodes = cluster.node_groups[static_cast<std::size_t>(group)];
  return (rule.types.empty() || is_in(rule.types, cluster.type_of(group).name)) &&
         (rule.groups.empty() || is_in(rule.groups, nodes.name));
}

bool names_device(const PlacementRule& rule, const ClusterSpec& cluster, const DevicePlace& place) {
  const std::string& node = node_name(cluster, place);
  return names_group(rule, cluster, place.group) && (rule.nodes.empty() || is_in(rule.nodes, node)) &&
         (rule.devices.empty() ||
          std::find(rule.devices.begin(), rule.devices.end(), RuleDevice{node, place.device}) != rule.devices.end());
}

/// Whether the rule keeps layers off what it names, or off everything else.
bool hits(const PlacementRule& rule, bool named) { return named == (rule.kind == RuleKind::Forbid); }

std::string known_names(const std::string& name, const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 6;
  const std::string nearest = nearest_name(name, names);
  if (!nearest.empty()) return concat("did you mean \"", nearest, "\"?");
  std::vector<std::string> shown(names.begin(),
                                 names.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, names.size())));
  return concat("there are ", join(shown, ", "),
                names.size() > kShown ? concat(" and ", names.size() - kShown, " more") : "");
}

class RuleChecks {
 public:
  RuleChecks(const std::vector<PlacementRule>& rules, const ModelSpec& model, const ClusterSpec& cluster)
      : rules_(rules), model_(model), cluster_(cluster) {
    for (int g = 0; g < cluster.group_count(); ++g) {
      const NodeGroup& group = cluster.node_groups[static_cast<std::size_t>(g)];
      if (!is_in(types_, cluster.type_of(g).name)) types_.push_back(cluster.type_of(g).name);
      groups_.push_back(group.name);
      nodes_.insert(nodes_.end(), group.node_names.begin(), group.node_names.end());
    }
  }

  std::vector<RuleFault> run() {
    for (const PlacementRule& rule : rules_) check(rule);
    if (faults_.empty() && !rules_.empty()) check_together();
    return std::move(faults_);
  }

 private:
  void add(const PlacementRule& rule, const std::string& message, const std::string& hint) {
    faults_.push_back({rule.kind, concat("\"", to_text(rule), "\": ", message), hint});
  }
  void check_names(const PlacementRule& rule, const char* what, const std::vector<std::string>& names,
                   const std::vector<std::string>& known) {
    for (const std::string& name : names) {
      if (!is_in(known, name))
        add(rule, concat("the cluster has no ", what, " \"", name, "\""), known_names(name, known));
    }
  }

  void check(const PlacementRule& rule) {
    const std::size_t before = faults_.size();
    check_names(rule, "device type", rule.types, types_);
    check_names(rule, "node group", rule.groups, groups_);
    check_names(rule, "node", rule.nodes, nodes_);
    for (const RuleDevice& device : rule.devices) check_device(rule, device);
    const bool places = !rule.nodes.empty() || !rule.devices.empty();
    if (!places && rule.types.empty() && rule.groups.empty()) {
      add(rule, "names no devices", "add type=, group=, node= or device=");
    }
    if (places && rule.choice != LayerChoice::All) {
      add(rule, "nodes of a group are alike, so a rule about nodes or devices holds for all layers",
          "leave out the layers, or name a type= or group= instead");
    }
    if (rule.choice == LayerChoice::Range && rule.layers.last > model_.layer_count()) {
      add(rule, concat("the layers of ", model_.name, " are 0 (embedding) to ", model_.layer_count() - 1, " (head)"),
          "layers=head is the last one");
    }
    if (faults_.size() == before && !names_any(rule)) {
      add(rule, "no device is all of this", "what a rule names holds together: write a rule for each");
    }
  }

  [[nodiscard]] bool names_any(const PlacementRule& rule) const {
    for (int g = 0; g < cluster_.group_count(); ++g) {
      const NodeGroup& group = cluster_.node_groups[static_cast<std::size_t>(g)];
      for (int n = 0; n < group.nodes; ++n) {
        for (int d = 0; d < group.devices_per_node; ++d) {
          if (names_device(rule, cluster_, {g, n, d})) return true;
        }
      }
    }
    return false;
  }

  void check_device(const PlacementRule& rule, const RuleDevice& device) {
    for (const NodeGroup& group : cluster_.node_groups) {
      if (!is_in(group.node_names, device.node)) continue;
      if (device.device >= group.devices_per_node) {
        add(rule, concat("node ", device.node, " has no device ", device.device),
            concat("its devices are 0 to ", group.devices_per_node - 1));
      }
      return;
    }
    add(rule, concat("the cluster has no node \"", device.node, "\""), known_names(device.node, nodes_));
  }

  void check_together() {
    const AllowedPlaces places(rules_, model_, cluster_);
    for (int layer = 0; layer < model_.layer_count(); ++layer) {
      bool held = false;
      for (int g = 0; g < cluster_.group_count(); ++g) {
        held = held || (places.device_count(g) > 0 && places.may_hold(g, {layer, layer + 1}));
      }
      if (held) continue;
      const std::string name = layer == 0 ? " (embedding)" : (layer == model_.layer_count() - 1 ? " (head)" : "");
      const bool alone = rules_.size() == 1;
      add(rules_.back(), concat(alone ? "" : "with the rules before it, ", "no device may hold layer ", layer, name),
          alone ? "leave it out, or name fewer devices" : "leave out one of the rules");
      return;
    }
  }

  const std::vector<PlacementRule>& rules_;
  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  std::vector<std::string> types_;
  std::vector<std::string> groups_;
  std::vector<std::string> nodes_;
  std::vector<RuleFault> faults_;
};

}  // namespace

const char* to_text(RuleKind kind) { return kind == RuleKind::Forbid ? "forbid" : "force"; }

std::string to_text(const PlacementRule& rule) {
  std::vector<std::string> words;
  const auto add = [&](const char* key, const std::vector<std::string>& values) {
    if (!values.empty()) words.push_back(concat(key, "=", join(values, ",")));
  };
  add("type", rule.types);
  add("group", rule.groups);
  add("node", rule.nodes);
  std::vector<std::string> devices;
  for (const RuleDevice& device : rule.devices) devices.push_back(concat(device.node, ":", device.device));
  add("device", devices);
  if (rule.choice == LayerChoice::Head) words.push_back("stage=last");
  if (rule.choice == LayerChoice::Range) {
    words.push_back(rule.layers == LayerRange{0, 1} ? std::string("stage=first")
                                                    : concat("layers=", rule.layers.first, "-", rule.layers.last - 1));
  }
  return join(words, " ");
}

std::vector<RuleFault> rule_faults(const std::vector<PlacementRule>& rules, const ModelSpec& model,
                                   const ClusterSpec& cluster) {
  return RuleChecks(rules, model, cluster).run();
}

AllowedPlaces::AllowedPlaces(const std::vector<PlacementRule>& rules, const ModelSpec& model,
                             const ClusterSpec& cluster) {
  for (int g = 0; g < cluster.group_count(); ++g) {
    const NodeGroup& group = cluster.node_groups[static_cast<std::size_t>(g)];
    std::vector<std::vector<int>>& nodes = usable_.emplace_back();
    int& whole = whole_.emplace_back(0);
    for (int n = 0; n < group.nodes; ++n) {
      std::vector<int>& devices = nodes.emplace_back();
      for (int d = 0; d < group.devices_per_node; ++d) {
        const bool barred = std::any_of(rules.begin(), rules.end(), [&](const PlacementRule& rule) {
          return rule.choice == LayerChoice::All && hits(rule, names_device(rule, cluster, {g, n, d}));
        });
        if (!barred) devices.push_back(d);
      }
      whole += static_cast<int>(devices.size()) == group.devices_per_node ? 1 : 0;
    }
    for (const PlacementRule& rule : rules) {
      if (rule.choice == LayerChoice::All || !hits(rule, names_group(rule, cluster, g))) continue;
      bans_.push_back({g, layers_of(rule, model)});
    }
  }
}

bool AllowedPlaces::may_hold(int group, LayerRange layers) const {
  return std::none_of(bans_.begin(), bans_.end(), [&](const Ban& ban) {
    return ban.group == group && layers.first < ban.layers.last && ban.layers.first < layers.last;
  });
}

bool AllowedPlaces::may_use(const DevicePlace& place) const {
  const std::vector<int>& devices = usable(place.group, place.node);
  return std::binary_search(devices.begin(), devices.end(), place.device);
}

int AllowedPlaces::device_count(int group) const {
  int count = 0;
  for (const std::vector<int>& devices : usable_[static_cast<std::size_t>(group)])
    count += static_cast<int>(devices.size());
  return count;
}

int AllowedPlaces::largest_node(int group) const {
  std::size_t most = 0;
  for (const std::vector<int>& devices : usable_[static_cast<std::size_t>(group)])
    most = std::max(most, devices.size());
  return static_cast<int>(most);
}

std::vector<LayerRange> AllowedPlaces::spans() const {
  std::vector<LayerRange> spans;
  for (const Ban& ban : bans_) {
    if (std::find(spans.begin(), spans.end(), ban.layers) == spans.end()) spans.push_back(ban.layers);
  }
  return spans;
}

}  // namespace hpplan
