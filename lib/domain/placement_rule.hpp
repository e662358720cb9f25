#pragma once

#include <string>
#include <vector>

#include "base/range.hpp"
#include "domain/cluster.hpp"
#include "domain/model.hpp"

namespace hpplan {

/// Forbid: what the rule names is not done. Force: the layers it names lie on the devices it names and nowhere else.
enum class RuleKind { Forbid, Force };

/// Which layers a rule speaks of: all, a range, or the head, whose index the rule does not know.
enum class LayerChoice { All, Range, Head };

/// A device as rules name it.
struct RuleDevice {
  std::string node;
  int device = 0;

  friend bool operator==(const RuleDevice&, const RuleDevice&) = default;
};

/// Which devices may hold which layers. A device is meant if it is in every list that is not empty. A rule that names
/// nodes or devices speaks of all layers: nodes of a group are alike, so more would not say anything about a plan.
struct PlacementRule {
  RuleKind kind = RuleKind::Forbid;
  std::vector<std::string> types;
  std::vector<std::string> groups;
  std::vector<std::string> nodes;
  std::vector<RuleDevice> devices;
  LayerChoice choice = LayerChoice::All;
  LayerRange layers;  // of LayerChoice::Range

  friend bool operator==(const PlacementRule&, const PlacementRule&) = default;
};

[[nodiscard]] const char* to_text(RuleKind kind);
/// "type=ascend-910b4 stage=first": reads back as the same rule.
[[nodiscard]] std::string to_text(const PlacementRule& rule);

/// What is wrong with a rule, and what to do.
struct RuleFault {
  RuleKind kind = RuleKind::Forbid;
  std::string message;
  std::string hint;
};
/// Rules that name what the cluster or the model does not have, or that together leave a layer no device.
[[nodiscard]] std::vector<RuleFault> rule_faults(const std::vector<PlacementRule>& rules, const ModelSpec& model,
                                                 const ClusterSpec& cluster);

/// What the rules of a job leave.
class AllowedPlaces {
 public:
  AllowedPlaces() = default;
  /// The rules must have no fault.
  AllowedPlaces(const std::vector<PlacementRule>& rules, const ModelSpec& model, const ClusterSpec& cluster);

  /// Whether a stage on `group` may hold these layers.
  [[nodiscard]] bool may_hold(int group, LayerRange layers) const;
  /// Devices of a node that stages may use, ascending.
  [[nodiscard]] const std::vector<int>& usable(int group, int node) const {
    return usable_[static_cast<std::size_t>(group)][static_cast<std::size_t>(node)];
  }
  [[nodiscard]] bool may_use(const DevicePlace& place) const;
  [[nodiscard]] int device_count(int group) const;  // usable ones
  /// Nodes with all devices usable.
  [[nodiscard]] int whole_nodes(int group) const { return whole_[static_cast<std::size_t>(group)]; }
  /// The most devices that a node has for stages.
  [[nodiscard]] int largest_node(int group) const;
  /// The layer ranges that rules name: layers that lie in the same ones are alike to all rules.
  [[nodiscard]] std::vector<LayerRange> spans() const;

 private:
  struct Ban {
    int group = 0;
    LayerRange layers;
  };
  std::vector<Ban> bans_;
  std::vector<std::vector<std::vector<int>>> usable_;  // [group][node]
  std::vector<int> whole_;                             // [group]
};

}  // namespace hpplan
