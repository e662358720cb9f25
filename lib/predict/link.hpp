#pragma once

#include <span>

#include "domain/plan.hpp"
#include "predict/problem.hpp"

namespace hpplan {

/// The link between two consecutive stages as placed. Stages on one node use its intra-node bandwidth; otherwise the
/// smaller of both sides' inter-node bandwidth, where a stage owns of each node's bandwidth the share of that node's
/// devices it holds, and the limit between the two node groups applies per node in the same way.
[[nodiscard]] Link stage_link(const Problem& problem, const StagePlan& from, const StagePlan& to);

/// Time of one micro-batch's boundary tensor over that link, one way.
[[nodiscard]] Seconds link_time(const Problem& problem, const StagePlan& from, const StagePlan& to, int micro_batch);

/// The best link that `devices_a` devices of `group_a` and `devices_b` of `group_b` can have over all placements;
/// never slower than stage_link of any placement.
[[nodiscard]] Link best_link(const Problem& problem, int group_a, int devices_a, int group_b, int devices_b);

/// Link of two stages on different nodes.
[[nodiscard]] Link outer_link(const Problem& problem, int group_a, int devices_a, int group_b, int devices_b);

/// The worst figures of the links of an All-Reduce over devices of these node groups (each named once): within a node,
/// and the share that one device owns of the links between nodes.
struct RingLinks {
  Link intra;
  Link inter;
};
[[nodiscard]] RingLinks slowest_links(const Problem& problem, std::span<const int> groups);

/// A ring of `ranks` ranks moves 2 (ranks - 1) / ranks of `bytes` over its slowest link and pays 2 (ranks - 1)
/// latencies. `bytes` may be a fraction of the payload: one ring of several that share it.
[[nodiscard]] Seconds ring_time(double bytes, int ranks, const Link& link);

[[nodiscard]] Seconds transfer_time(Bytes size, const Link& link);

}  // namespace hpplan
