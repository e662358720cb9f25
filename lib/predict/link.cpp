#include "predict/link.hpp"

#include <algorithm>
#include <limits>

#include "predict/stage.hpp"

namespace hpplan {

namespace {

/// Share of `per_node` bandwidth that `devices` devices of nodes with `devices_per_node` own.
BytesPerSecond owned(BytesPerSecond per_node, int devices, int devices_per_node) {
  return per_node * (static_cast<double>(devices) / devices_per_node);
}

bool share_a_node(const StagePlan& from, const StagePlan& to) {
  if (from.node_group != to.node_group) return false;
  return std::any_of(from.devices.begin(), from.devices.end(), [&](const DevicePlace& a) {
    return std::any_of(to.devices.begin(), to.devices.end(), [&](const DevicePlace& b) { return a.node == b.node; });
  });
}

}  // namespace

Link outer_link(const Problem& problem, int group_a, int devices_a, int group_b, int devices_b) {
  const NodeGroup& a = problem.cluster.node_groups[static_cast<std::size_t>(group_a)];
  const NodeGroup& b = problem.cluster.node_groups[static_cast<std::size_t>(group_b)];
  const Link& limit = problem.cluster.group_links[static_cast<std::size_t>(group_a)][static_cast<std::size_t>(group_b)];
  const BytesPerSecond side_a = owned(std::min(a.inter_node.bandwidth, limit.bandwidth), devices_a, a.devices_per_node);
  const BytesPerSecond side_b = owned(std::min(b.inter_node.bandwidth, limit.bandwidth), devices_b, b.devices_per_node);
  return {std::min(side_a, side_b), limit.latency};
}

Link stage_link(const Problem& problem, const StagePlan& from, const StagePlan& to) {
  if (share_a_node(from, to)) {
    return problem.cluster.node_groups[static_cast<std::size_t>(from.node_group)].intra_node;
  }
  return outer_link(problem, from.node_group, static_cast<int>(from.devices.size()), to.node_group,
                    static_cast<int>(to.devices.size()));
}

Link best_link(const Problem& problem, int group_a, int devices_a, int group_b, int devices_b) {
  const Link outer = outer_link(problem, group_a, devices_a, group_b, devices_b);
  const NodeGroup& node = problem.cluster.node_groups[static_cast<std::size_t>(group_a)];
  if (group_a != group_b || devices_a + devices_b > node.devices_per_node) return outer;
  // Both may lie on one node; the better of each figure bounds whatever the placement chooses.
  return {std::max(outer.bandwidth, node.intra_node.bandwidth), std::min(outer.latency, node.intra_node.latency)};
}

RingLinks slowest_links(const Problem& problem, std::span<const int> groups) {
  RingLinks links;
  links.intra = links.inter = {BytesPerSecond{std::numeric_limits<double>::infinity()}, Seconds{0.0}};
  for (const int g : groups) {
    const NodeGroup& group = problem.cluster.node_groups[static_cast<std::size_t>(g)];
    links.intra.bandwidth = std::min(links.intra.bandwidth, group.intra_node.bandwidth);
    links.intra.latency = std::max(links.intra.latency, group.intra_node.latency);
    links.inter.bandwidth = std::min(links.inter.bandwidth, inter_node_share(group));
    links.inter.latency = std::max(links.inter.latency, group.inter_node.latency);
    for (const int other : groups) {
      if (other == g) continue;
      const Link& limit = problem.cluster.group_links[static_cast<std::size_t>(g)][static_cast<std::size_t>(other)];
      links.inter.bandwidth =
          std::min(links.inter.bandwidth, limit.bandwidth / static_cast<double>(group.devices_per_node));
      links.inter.latency = std::max(links.inter.latency, limit.latency);
    }
  }
  return links;
}

Seconds ring_time(double bytes, int ranks, const Link& link) {
  if (ranks < 2) return Seconds{0.0};
  const double steps = ranks - 1;
  return Seconds{2.0 * steps / ranks * bytes / link.bandwidth.value()} + link.latency * (2.0 * steps);
}

Seconds transfer_time(Bytes size, const Link& link) { return size / link.bandwidth + link.latency; }

Seconds link_time(const Problem& problem, const StagePlan& from, const StagePlan& to, int micro_batch) {
  return transfer_time(boundary_bytes(problem.model, micro_batch), stage_link(problem, from, to));
}

}  // namespace hpplan
