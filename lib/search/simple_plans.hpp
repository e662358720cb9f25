#pragma once

#include <span>
#include <vector>

#include "search/candidate.hpp"

namespace hpplan {

/// Pipelines that together make a plan, in theory.
struct SimplePlan {
  double time = kInfinity;  // 1F1B over the best links, and the sync and optimizer time that the stages need at least
  std::vector<Candidate> pipelines;
};

/// Plans of simple shape that should run well, most promising first: the first incumbents of a search (OSO), and a good
/// plan at once for a large cluster.
///
/// Two shapes, over every micro-batch size, number of pipelines, port and split:
///   alike    P equal pipelines over all node groups; the stages of a group are equal, groups follow one another
///   by type  the pipelines of a node group are equal and stay inside it; the groups share the batch
/// Layers go to the stages by the least bottleneck. Whether the devices can be placed is not looked at.
[[nodiscard]] std::vector<SimplePlan> simple_plans(SearchTables& tables);
/// The same over some of the job's micro-batch sizes.
[[nodiscard]] std::vector<SimplePlan> simple_plans(SearchTables& tables, std::span<const int> micro_batches);

}  // namespace hpplan
