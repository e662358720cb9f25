#include "search/node_load.hpp"

#include <algorithm>

#include "predict/link.hpp"
#include "predict/rate_bound.hpp"

namespace hpplan {

namespace {

/// Blocks are whole bytes, and sums are rounded.
constexpr double kRound = 1.0 - 1e-6;

/// A kind of layer on one node group.
struct Work {
  double bytes = 0.0;  // of the gradient
  double time = 0.0;   // device-seconds of the whole batch, at least
};

/// Most gradient bytes of layers (so many of each kind) whose whole batch a node can run in `time` device-seconds;
/// parts of a layer count.
double most_bytes(const std::vector<Work>& kinds, const std::vector<int>& counts, double time) {
  std::vector<std::size_t> order;  // of the kinds that add bytes: one without bytes and time has no place in it
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    if (counts[kind] > 0 && kinds[kind].bytes > 0.0) order.push_back(kind);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return kinds[a].bytes * kinds[b].time > kinds[b].bytes * kinds[a].time;
  });
  double bytes = 0.0;
  for (const std::size_t kind : order) {
    const double all = counts[kind] * kinds[kind].time;
    const double part = all <= time ? 1.0 : time / all;
    bytes += part * counts[kind] * kinds[kind].bytes;
    time -= part * all;
  }
  return bytes;
}

}  // namespace

NodeLoad::NodeLoad(const SearchTables& tables, double limit) {
  const Problem& problem = tables.problem();
  const ModelSpec& model = problem.model;
  const RangeClasses& ranges = tables.ranges();
  const int layers = model.layer_count();
  for (int g = 0; g < problem.cluster.group_count(); ++g) {
    std::vector<double>& shares = shares_.emplace_back(static_cast<std::size_t>(ranges.count()), 0.0);
    if (problem.costs.degrees(g).empty()) continue;
    const NodeGroup& node = problem.cluster.node_groups[static_cast<std::size_t>(g)];
    std::vector<Work> kinds(model.kinds.size());
    for (int layer = 0; layer < layers; ++layer) {
      const auto kind = static_cast<std::size_t>(model.layers[static_cast<std::size_t>(layer)]);
      // The gradient of a tied head is layer 0's.
      const bool tied = model.tied_embeddings && layer + 1 == layers;
      kinds[kind].bytes = tied ? 0.0 : tables.layer_gradients()[static_cast<std::size_t>(layer)].value();
      kinds[kind].time = problem.job.global_batch * least_device_time(problem, g, static_cast<int>(kind)).value();
    }
    const double link = inter_node_share(node).value() * node.devices_per_node;
    for (int c = 0; c < ranges.count(); ++c) {
      std::vector<int> counts(kinds.size(), 0);
      double bytes = 0.0;
      for (int layer = ranges.example(c).first; layer < ranges.example(c).last; ++layer) {
        const auto kind = static_cast<std::size_t>(model.layers[static_cast<std::size_t>(layer)]);
        ++counts[kind];
        bytes += kinds[kind].bytes;
      }
      const double away = bytes * kRound - most_bytes(kinds, counts, limit * node.devices_per_node);
      shares[static_cast<std::size_t>(c)] = std::max(0.0, away / link);
    }
  }
}

}  // namespace hpplan
