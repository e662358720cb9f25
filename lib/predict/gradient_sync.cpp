#include "predict/gradient_sync.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>

#include "domain/operators.hpp"
#include "predict/link.hpp"
#include "predict/planned_stage.hpp"

namespace hpplan {

namespace {

/// A stage that holds a layer's gradient, cut into tensor_parallel equal shards.
struct Holder {
  const StagePlan* stage = nullptr;
  std::vector<int> ranks;
};

/// All stages of a plan with their ranks.
std::vector<std::vector<Holder>> holders_by_layer(const Problem& problem, std::span<const PipelinePlan> pipelines) {
  const int layers = problem.model.layer_count();
  std::vector<std::vector<Holder>> holders(static_cast<std::size_t>(layers));
  for (const PipelinePlan& pipeline : pipelines) {
    for (const StagePlan& stage : pipeline.stages) {
      Holder holder{&stage, {}};
      for (const DevicePlace& place : stage.devices) holder.ranks.push_back(rank_of(problem.cluster, place));
      bool first = false;
      bool last = false;
      for (const LayerRange& part : held_parts(stage)) {
        for (int layer = part.first; layer < part.last; ++layer) {
          holders[static_cast<std::size_t>(layer)].push_back(holder);
        }
        first = first || part.first == 0;
        last = last || part.last == layers;
      }
      if (problem.model.tied_embeddings && last && !first) holders[0].push_back(holder);
    }
  }
  return holders;
}

/// Ranks of `holder` whose shard covers the piece that starts at numerator/denominator of the layer.
void append_covering_ranks(const Holder& holder, std::int64_t numerator, std::int64_t denominator,
                           std::vector<int>& ranks) {
  const int tp = holder.stage->tensor_parallel;
  const auto shard = static_cast<std::size_t>(numerator * tp / denominator);
  for (std::size_t replica = 0; replica < static_cast<std::size_t>(holder.stage->data_parallel); ++replica) {
    ranks.push_back(holder.ranks[replica * static_cast<std::size_t>(tp) + shard]);
  }
}

struct GroupContent {
  Bytes bytes;
  std::vector<GradientBlock> blocks;
  std::int64_t tensor_calls = 0;  // tensor-wise: calls of this group
};

using Groups = std::map<std::vector<int>, GroupContent>;

int tensor_count(const LayerKind& kind) {
  int count = 0;
  if (kind.attention) count += 2 + (kind.attention->qkv_bias ? 1 : 0) + (kind.attention->output_bias ? 1 : 0) + 1;
  if (kind.mlp) count += (kind.mlp->gated ? 3 : 2) * std::max(1, kind.mlp->experts) + (kind.mlp->bias ? 2 : 0) + 1;
  return std::max(1, count);
}

void add_layer(const Problem& problem, int layer, const std::vector<Holder>& holders, Groups& groups) {
  // Union of shard boundaries, in units of 1/denominator of the layer.
  std::int64_t denominator = 1;
  for (const Holder& holder : holders) {
    denominator = std::lcm(denominator, static_cast<std::int64_t>(holder.stage->tensor_parallel));
  }
  std::vector<std::int64_t> cuts{0, denominator};
  for (const Holder& holder : holders) {
    const std::int64_t step = denominator / holder.stage->tensor_parallel;
    for (std::int64_t cut = step; cut < denominator; cut += step) cuts.push_back(cut);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());

  const std::int64_t bytes = layer_gradient_bytes(problem.model, layer).count();
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    std::vector<int> ranks;
    for (const Holder& holder : holders) append_covering_ranks(holder, cuts[i], denominator, ranks);
    if (ranks.size() < 2) continue;
    std::sort(ranks.begin(), ranks.end());
    GroupContent& group = groups[ranks];
    // Both ends rounded the same way, so that the blocks of a layer add up to the layer.
    group.bytes += Bytes{bytes * cuts[i + 1] / denominator - bytes * cuts[i] / denominator};
    group.tensor_calls += tensor_count(problem.model.kind_of(layer));
    const auto fraction = [&](std::int64_t cut) { return static_cast<double>(cut) / static_cast<double>(denominator); };
    if (!group.blocks.empty() && group.blocks.back().layer == layer && group.blocks.back().end == fraction(cuts[i])) {
      group.blocks.back().end = fraction(cuts[i + 1]);
    } else {
      group.blocks.push_back({layer, fraction(cuts[i]), fraction(cuts[i + 1])});
    }
  }
}

/// Where the ranks of a group lie, and what their links give.
struct GroupShape {
  int ranks = 0;
  int nodes = 0;
  int ranks_per_node = 0;  // 0: nodes hold different numbers
  RingLinks links;
};

GroupShape shape_of(const Problem& problem, std::span<const int> ranks) {
  struct RanksOnNode {
    int group;
    int node;
    int ranks;
  };
  std::vector<RanksOnNode> nodes;
  for (const int rank : ranks) {
    const DevicePlace place = place_of_rank(problem.cluster, rank);
    const auto known = std::find_if(nodes.begin(), nodes.end(), [&](const RanksOnNode& other) {
      return other.group == place.group && other.node == place.node;
    });
    if (known == nodes.end()) {
      nodes.push_back({place.group, place.node, 1});
    } else {
      ++known->ranks;
    }
  }
  GroupShape shape;
  std::vector<int> groups;
  bool even = true;
  for (const RanksOnNode& node : nodes) {
    shape.ranks += node.ranks;
    even = even && node.ranks == nodes.front().ranks;
    if (std::find(groups.begin(), groups.end(), node.group) == groups.end()) groups.push_back(node.group);
  }
  shape.links = slowest_links(problem, groups);
  shape.nodes = static_cast<int>(nodes.size());
  shape.ranks_per_node = even && !nodes.empty() ? nodes.front().ranks : 0;
  return shape;
}

Seconds all_reduce_time(const GroupShape& shape, Bytes bytes) {
  if (shape.nodes == 1) return ring_time(bytes.value(), shape.ranks, shape.links.intra);
  const Seconds flat = ring_time(bytes.value(), shape.ranks, shape.links.inter);
  if (shape.ranks_per_node < 2) return flat;
  const int k = shape.ranks_per_node;
  const Seconds outer = ring_time(bytes.value() / k, shape.nodes, shape.links.inter);
  return std::min(flat, ring_time(bytes.value(), k, shape.links.intra) + outer);
}

/// Sums call costs per device and gives the largest sum.
class DeviceLoad {
 public:
  explicit DeviceLoad(int devices) : load_(static_cast<std::size_t>(devices), 0.0) {}
  void add(std::span<const int> ranks, Seconds cost) {
    for (const int rank : ranks) load_[static_cast<std::size_t>(rank)] += cost.value();
  }
  [[nodiscard]] Seconds largest() const { return Seconds{*std::max_element(load_.begin(), load_.end())}; }

 private:
  std::vector<double> load_;
};

/// One call per device: its whole buffer, padded to the largest buffer of the plan, over the largest and worst placed
/// group that it belongs to.
Seconds device_wise_time(const Problem& problem, const Groups& groups) {
  std::vector<std::int64_t> held(static_cast<std::size_t>(problem.cluster.device_count()), 0);
  for (const auto& [ranks, content] : groups) {
    for (const int rank : ranks) held[static_cast<std::size_t>(rank)] += content.bytes.count();
  }
  const Bytes padded{*std::max_element(held.begin(), held.end())};
  Seconds worst;
  for (const auto& [ranks, content] : groups) worst = std::max(worst, all_reduce_time(problem, ranks, padded));
  return worst;
}

}  // namespace

Bytes layer_gradient_bytes(const ModelSpec& model, int layer) {
  return Bytes{static_cast<std::int64_t>(
      std::llround(device_parameters(model, model.kind_of(layer), 1) * model.state.gradient))};
}

Seconds all_reduce_time(const Problem& problem, std::span<const int> ranks, Bytes bytes) {
  return all_reduce_time(shape_of(problem, ranks), bytes);
}

GradientSync predict_gradient_sync(const Problem& problem, std::span<const PipelinePlan> pipelines) {
  Groups groups;
  const auto holders = holders_by_layer(problem, pipelines);
  for (int layer = 0; layer < problem.model.layer_count(); ++layer) {
    const bool tied_head = problem.model.tied_embeddings && layer == problem.model.layer_count() - 1;
    // The tied matrix is layer 0's gradient; what else the head holds (its norm) stays with the head.
    if (tied_head) continue;
    add_layer(problem, layer, holders[static_cast<std::size_t>(layer)], groups);
  }
  GradientSync sync;
  if (groups.empty()) return sync;

  DeviceLoad block_wise(problem.cluster.device_count());
  DeviceLoad tensor_wise(problem.cluster.device_count());
  for (auto& [ranks, content] : groups) {
    const GroupShape shape = shape_of(problem, ranks);
    const Seconds cost = all_reduce_time(shape, content.bytes);
    const Seconds latency = all_reduce_time(shape, Bytes{0});
    block_wise.add(ranks, cost);
    tensor_wise.add(ranks, cost + latency * static_cast<double>(content.tensor_calls - 1));
    sync.groups.push_back({ranks, content.bytes, std::move(content.blocks)});
  }
  sync.block_wise = block_wise.largest();
  sync.tensor_wise = tensor_wise.largest();
  sync.device_wise = device_wise_time(problem, groups);
  // In a tie block-wise wins: it moves the fewest bytes in the fewest calls that need no padding.
  sync.method = sync.device_wise < sync.block_wise ? GradientSyncMethod::DeviceWise : GradientSyncMethod::BlockWise;
  sync.time = std::min(sync.device_wise, sync.block_wise);
  return sync;
}

Seconds gradient_sync_lower_bound(const Problem& problem, const SyncShape& shape, Bytes held_bytes) {
  const NodeGroup& nodes = problem.cluster.node_groups[static_cast<std::size_t>(shape.group)];
  const int devices = shape.devices;
  const int members = std::max(shape.replicas, devices / shape.tensor_parallel);
  if (members < 2) return Seconds{0.0};
  // Every byte that a device holds crosses its links at least as often as in the cheapest group the stage can be in.
  const double held = held_bytes.value();
  const double inner = nodes.intra_node.bandwidth.value();
  const double share = inter_node_share(nodes).value();
  // Ranks of one block on one node: own DP replicas there, and others where the stage leaves devices of the node free.
  const int on_node = std::min(devices, nodes.devices_per_node);
  const int own = std::max(1, on_node / shape.tensor_parallel);
  const int free = std::max(0, nodes.devices_per_node - on_node - shape.taken);
  double best = std::numeric_limits<double>::infinity();
  if (!shape.spread && devices <= nodes.devices_per_node && own + free >= members) {
    best = 2.0 * (members - 1) / members * held / inner;  // the whole group on one node
  }
  for (int k = own; k <= own + free; ++k) {
    const int rings = std::max(2, (members + k - 1) / k);
    const double hierarchical = 2.0 * (k - 1) / k * held / inner + 2.0 * (rings - 1) / rings * held / k / share;
    best = std::min(best, hierarchical);
  }
  // A flat ring over several nodes.
  best = std::min(best, 2.0 * (members - 1) / members * held / share);
  return Seconds{best};
}

}  // namespace hpplan
