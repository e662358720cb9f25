#include "support/random_problems.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/text.hpp"
#include "predict/stage.hpp"
#include "support/builders.hpp"
#include "support/models.hpp"

namespace hpplan::testing {

std::uint64_t Dice::next() {
  // SplitMix64 (Steele, Lea, Flood 2014).
  std::uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

int Dice::whole(int first, int last) {
  return first + static_cast<int>(next() % static_cast<std::uint64_t>(last - first + 1));
}

double Dice::real(double first, double last) {
  return first + (last - first) * static_cast<double>(next() >> 11) * 0x1.0p-53;
}

double Dice::spread(double first, double last) { return first * std::pow(last / first, real(0.0, 1.0)); }

namespace {

constexpr double kBlockForward = 0.010;  // seconds of one sample on a device of speed 1, about

ModelSpec random_model(Dice& dice, const ProblemSize& size) {
  const int blocks = dice.whole(1, size.blocks);
  const int heads = dice.one_of({1, 2, 4, 6, 12});
  const int hidden = heads * dice.one_of({4, 8});
  const int sequence = dice.one_of({4, 16, 64});
  const int vocabulary = dice.one_of({4, 64, 512});
  ModelSpec model = dice.chance(0.5) ? gpt_model(blocks, hidden, heads, sequence, vocabulary)
                                     : llama_model(blocks, hidden, heads, heads, 3 * hidden, vocabulary);
  model.sequence = sequence;
  model.vocabulary_multiple = 1;
  model.tied_embeddings = dice.chance(0.5);
  if (dice.chance(0.4)) {
    LayerKind other = model.kinds[1];
    other.name = "other";
    other.mlp->ffn *= dice.whole(2, 3);
    if (dice.chance(0.3)) other.attention.reset();
    model.kinds.push_back(other);
    for (int layer = 1; layer <= blocks; ++layer) {
      if (dice.chance(0.4)) model.layers[static_cast<std::size_t>(layer)] = 3;
    }
  }
  return model;
}

struct Shape {
  int nodes = 1;
  int devices_per_node = 1;
};

std::vector<Shape> random_shapes(Dice& dice, const ProblemSize& size) {
  std::vector<Shape> shapes;
  int left = size.devices;
  const int groups = dice.whole(1, size.groups);
  for (int g = 0; g < groups && left > 0; ++g) {
    const int most = std::max(1, g + 1 < groups ? left - (groups - g - 1) : left);
    Shape shape;
    shape.devices_per_node = dice.whole(1, most);
    shape.nodes = dice.whole(1, std::min(3, most / shape.devices_per_node));
    left -= shape.nodes * shape.devices_per_node;
    shapes.push_back(shape);
  }
  return shapes;
}

/// Links on which a boundary tensor of one sample takes about `share` of a block's forward.
Link random_link(Dice& dice, const ModelSpec& model, double share, double latency_share) {
  const double tensor = boundary_bytes(model, 1).value();
  return {BytesPerSecond{tensor / (kBlockForward * share)},
          Seconds{kBlockForward * latency_share * dice.real(0.0, 1.0)}};
}

ClusterSpec random_cluster(Dice& dice, const ModelSpec& model, const ProblemSize& size) {
  ClusterSpec cluster;
  const double slowness = dice.spread(0.02, 2.0);
  const double latency = dice.chance(0.5) ? 0.0 : 0.1;
  for (const Shape& shape : random_shapes(dice, size)) {
    NodeGroup group;
    const auto index = cluster.node_groups.size();
    group.name = concat("g", index);
    if (index < 2) {
      DeviceType type = a100();
      type.name = concat("type", index);
      type.memory = Bytes{1LL << 50};
      type.peak = FlopPerSecond{1e12};
      type.memory_bandwidth = BytesPerSecond{dice.spread(1e6, 1e9)};
      cluster.device_types.push_back(type);
      group.device_type = static_cast<int>(index);
    } else {
      group.device_type = dice.whole(0, 1);
    }
    group.nodes = shape.nodes;
    group.devices_per_node = shape.devices_per_node;
    group.intra_node = random_link(dice, model, slowness * dice.spread(0.05, 1.0), 0.5 * latency);
    group.inter_node = random_link(dice, model, slowness * dice.spread(0.3, 2.0), latency);
    for (int n = 0; n < shape.nodes; ++n) group.node_names.push_back(concat(group.name, "-", n));
    cluster.node_groups.push_back(std::move(group));
  }
  link_groups(cluster);
  if (cluster.group_count() > 1 && dice.chance(0.5)) {
    const Link link = random_link(dice, model, slowness * dice.spread(0.3, 3.0), latency);
    cluster.group_links[0][1] = cluster.group_links[1][0] = link;
  }
  return cluster;
}

/// Times about proportional to samples and, for TP, a little worse than a t-th; each with its own error.
DeviceProfile random_profile(Dice& dice, const ModelSpec& model, const std::string& type) {
  DeviceProfile profile;
  profile.device_type = type;
  profile.model = model.name;
  const double speed = dice.spread(0.5, 2.0);
  const double error = dice.one_of({0.0, 0.05, 0.5});
  const double ends = dice.one_of({0.01, 0.3, 2.0});
  for (const LayerKind& kind : model.kinds) {
    const double weight = kind.role == LayerRole::Block ? (kind.name == "other" ? 1.7 : 1.0) : ends;
    const std::string name = kind.role == LayerRole::Embedding ? "embedding"
                             : kind.role == LayerRole::Head    ? "head"
                                                               : kind.name;
    for (const int tp : {1, 2, 3, 4, 6, 12}) {
      for (const int samples : {1, 2, 3, 4, 8}) {
        ProfilePoint& point = profile.points[name][tp][samples];
        const double jitter = 1.0 + error * dice.real(-0.5, 1.0);
        const double forward = kBlockForward * weight * (0.2 + samples) / (speed * std::pow(tp, 0.85)) * jitter;
        point.forward = Seconds{forward};
        point.backward = Seconds{forward * dice.real(1.5, 2.5)};
      }
    }
  }
  if (dice.chance(0.7)) profile.optimizer_per_parameter[1] = Seconds{kBlockForward * dice.spread(1e-6, 1e-3)};
  return profile;
}

/// Memory that some stage of two layers or more needs to the byte: its neighbours in the space just fit or just do not.
Bytes memory_of_a_stage(Dice& dice, const Problem& roomy, int group) {
  const int layers = roomy.model.layer_count();
  const int first = dice.chance(0.5) ? 0 : dice.whole(0, layers - 2);
  const StageQuery query{group,           1, 1, roomy.job.micro_batches.back(), {first, dice.whole(first + 1, layers)},
                         dice.whole(1, 3)};
  const StageBase base = stage_base(roomy, query);
  const Bytes relief = largest_relief(recompute_items(roomy, query), query.in_flight);
  return base.memory.total() - (dice.chance(0.5) ? relief : Bytes{0});
}

/// Memory around what the whole model takes on one device, or exactly what some stage takes.
void set_memory(Dice& dice, Inputs& inputs) {
  const Problem roomy = inputs.problem();
  const StageQuery all{0, 1, 1, inputs.job.micro_batches.front(), {0, inputs.model.layer_count()}, 1};
  if (roomy.costs.degrees(0).empty()) return;
  const double whole = stage_base(roomy, all).memory.total().value();
  const double tightness = dice.one_of({0.2, 0.35, 0.6, 1.0, 4.0});
  for (DeviceType& type : inputs.cluster.device_types) {
    type.memory = Bytes{static_cast<std::int64_t>(whole * tightness * dice.real(0.8, 1.6))};
  }
  for (int g = 0; g < inputs.cluster.group_count(); ++g) {
    if (!dice.chance(0.3) || roomy.costs.degrees(g).empty()) continue;
    const int type = inputs.cluster.node_groups[static_cast<std::size_t>(g)].device_type;
    inputs.cluster.device_types[static_cast<std::size_t>(type)].memory = memory_of_a_stage(dice, roomy, g);
  }
}

}  // namespace

Problem Inputs::problem() const { return make_problem(model, cluster, ProfileTable(profiles), job); }

Inputs random_inputs(std::uint64_t seed, const ProblemSize& size) {
  Dice dice(seed);
  Inputs inputs;
  inputs.model = random_model(dice, size);
  inputs.cluster = random_cluster(dice, inputs.model, size);
  inputs.job.global_batch = dice.whole(1, size.batch);
  inputs.job.micro_batches =
      dice.one_of<std::vector<int>>({{1}, {1, 2}, {1, 2, 4}, {1, 2, 4}, {2, 3}, {1, 4}, {3}, {2, 4}});
  inputs.job.framework_overhead = Bytes{0};
  if (dice.chance(0.3)) inputs.job.optimizer_sharding = OptimizerSharding::StageDataParallel;
  if (dice.chance(0.2)) inputs.job.constraints.allow_recompute = false;
  if (dice.chance(0.8)) {
    for (const DeviceType& type : inputs.cluster.device_types) {
      inputs.profiles.push_back(random_profile(dice, inputs.model, type.name));
    }
  }
  set_memory(dice, inputs);
  return inputs;
}

void constrain(Inputs& inputs, std::uint64_t seed) {
  Dice dice(seed);
  Constraints& constraints = inputs.job.constraints;
  if (dice.chance(0.3)) constraints.pipelines = dice.one_of<CountLimit>({{1, 1}, {2, 2}, {1, 2}, {2, -1}, {3, 3}});
  if (dice.chance(0.3)) constraints.stages = dice.one_of<CountLimit>({{1, 1}, {2, 2}, {1, 2}, {2, -1}, {3, 3}});
  if (dice.chance(0.3)) {
    int widest = 1;
    for (const NodeGroup& group : inputs.cluster.node_groups) widest = std::max(widest, group.devices_per_node);
    std::vector<int> allowed;
    for (const int degree : allowed_tensor_parallel(inputs.model, widest)) {
      if (dice.chance(0.5)) allowed.push_back(degree);
    }
    constraints.tensor_parallel = allowed;
  }
  if (dice.chance(0.3)) constraints.whole_nodes = true;
  if (dice.chance(0.3)) constraints.type_pure = true;
  if (dice.chance(0.2)) constraints.tensor_parallel_across_nodes = true;
}

namespace {

PlacementRule random_rule(Dice& dice, const Inputs& inputs) {
  const ClusterSpec& cluster = inputs.cluster;
  const NodeGroup& group = cluster.node_groups[static_cast<std::size_t>(dice.whole(0, cluster.group_count() - 1))];
  const std::string node = group.node_names[static_cast<std::size_t>(dice.whole(0, group.nodes - 1))];
  PlacementRule rule;
  rule.kind = dice.chance(0.6) ? RuleKind::Forbid : RuleKind::Force;
  switch (dice.whole(0, 3)) {
    case 0: rule.nodes = {node}; return rule;
    case 1: rule.devices = {{node, dice.whole(0, group.devices_per_node - 1)}}; return rule;
    case 2: rule.groups = {group.name}; break;
    default: rule.types = {cluster.device_types[static_cast<std::size_t>(group.device_type)].name}; break;
  }
  rule.choice = dice.one_of({LayerChoice::Range, LayerChoice::Range, LayerChoice::Head, LayerChoice::All});
  if (rule.choice != LayerChoice::Range) return rule;
  const int last = inputs.model.layer_count() - 1;
  rule.layers.first = dice.chance(0.4) ? 0 : dice.whole(0, last);
  rule.layers.last = dice.whole(rule.layers.first, std::min(last, rule.layers.first + 2)) + 1;
  return rule;
}

}  // namespace

void restrict_places(Inputs& inputs, std::uint64_t seed) {
  Dice dice(seed);
  std::vector<PlacementRule>& rules = inputs.job.constraints.placement;
  for (int tries = 0; tries < 8 && rules.size() < 2; ++tries) {
    rules.push_back(random_rule(dice, inputs));
    // A single device is rarely enough for a whole model.
    const bool narrow = rules.back().kind == RuleKind::Force && !rules.back().devices.empty();
    if (narrow || !rule_faults(rules, inputs.model, inputs.cluster).empty()) rules.pop_back();
    if (!rules.empty() && dice.chance(0.5)) break;
  }
}

Inputs twice_as_slow(Inputs inputs) {
  for (DeviceProfile& profile : inputs.profiles) {
    for (auto& [kind, degrees] : profile.points) {
      for (auto& [degree, series] : degrees) {
        for (auto& [samples, point] : series) {
          point.forward = point.forward * 2.0;
          point.backward = point.backward * 2.0;
        }
      }
    }
    for (auto& [degree, each] : profile.optimizer_per_parameter) each = each * 2.0;
  }
  const auto slow = [](Link& link) { link = {link.bandwidth / 2.0, link.latency * 2.0}; };
  for (NodeGroup& group : inputs.cluster.node_groups) {
    slow(group.intra_node);
    slow(group.inter_node);
  }
  for (std::vector<Link>& row : inputs.cluster.group_links) {
    for (Link& link : row) slow(link);
  }
  for (DeviceType& type : inputs.cluster.device_types) type.memory_bandwidth = type.memory_bandwidth / 2.0;
  return inputs;
}

std::string describe(const Inputs& inputs) {
  std::string text = concat(inputs.model.block_count(), " blocks of ", inputs.model.kinds.size() - 2, " kinds, hidden ",
                            inputs.model.hidden, inputs.model.tied_embeddings ? ", tied" : ", untied", "; ");
  for (const NodeGroup& group : inputs.cluster.node_groups) {
    text += concat(group.nodes, "x", group.devices_per_node, " of type ", group.device_type, ", ");
  }
  text += concat("batch ", inputs.job.global_batch, " of");
  for (const int b : inputs.job.micro_batches) text += concat(" ", b);
  text += inputs.profiles.empty() ? "; modelled" : "; measured";
  const Constraints& c = inputs.job.constraints;
  text += concat("; pipelines ", c.pipelines.min, "..", c.pipelines.max, ", stages ", c.stages.min, "..", c.stages.max);
  if (!c.tensor_parallel.empty()) {
    text += ", tp";
    for (const int degree : c.tensor_parallel) text += concat(" ", degree);
  }
  if (c.whole_nodes) text += ", whole nodes";
  if (c.type_pure) text += ", type-pure";
  if (c.tensor_parallel_across_nodes) text += ", tp across nodes";
  for (const PlacementRule& rule : c.placement) text += concat(", ", to_text(rule.kind), " ", to_text(rule));
  return text;
}

}  // namespace hpplan::testing
