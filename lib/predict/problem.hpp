#pragma once

#include <string>
#include <vector>

#include "base/units.hpp"
#include "domain/cluster.hpp"
#include "domain/job.hpp"
#include "domain/model.hpp"
#include "profile/profile_table.hpp"

namespace hpplan {

/// Layer costs of every combination a stage can ask for, computed once: [group][TP degree][samples][kind].
class CostTable {
 public:
  CostTable() = default;
  CostTable(const ModelSpec& model, const ClusterSpec& cluster, const ProfileTable& profiles, const Job& job);

  /// TP degrees usable on `group`, ascending: the model and the job allow them and they fit a node (or the group, where
  /// the job lets TP leave a node).
  [[nodiscard]] const std::vector<int>& degrees(int group) const { return degrees_[static_cast<std::size_t>(group)]; }

  /// Cost of one layer of `kind`; `samples` is a micro-batch size divided by a DP degree.
  [[nodiscard]] const LayerCost& at(int group, int tensor_parallel, int samples, int kind) const;
  [[nodiscard]] bool has(int group, int tensor_parallel, int samples) const;

  /// Parameters (elements) on one device of a layer of `kind`.
  [[nodiscard]] double parameters(int group, int tensor_parallel, int kind) const;

 private:
  [[nodiscard]] std::size_t index(int group, int tensor_parallel, int samples) const;

  std::vector<std::vector<int>> degrees_;
  std::vector<int> samples_;
  std::vector<std::vector<LayerCost>> costs_;                 // [index(group, tp, samples)][kind]
  std::vector<std::vector<std::vector<double>>> parameters_;  // [group][degree index][kind]
};

/// Everything a plan is judged against: built once, checked once, then passed as const&.
struct Problem {
  ModelSpec model;
  ClusterSpec cluster;
  ProfileTable profiles;
  Job job;
  CostTable costs;
  AllowedPlaces places;

  [[nodiscard]] Bytes capacity(int group) const { return cluster.type_of(group).memory - job.memory_margin; }
};

/// Errors (InputError): a job that contradicts itself or the model, such as a forced TP degree that the heads forbid.
[[nodiscard]] Problem make_problem(ModelSpec model, ClusterSpec cluster, ProfileTable profiles, Job job);

/// Every number of samples that a DP replica can get, ascending: a micro-batch size divided by one of its divisors.
[[nodiscard]] std::vector<int> replica_samples(const std::vector<int>& micro_batches);

/// The link that the tensor-parallel collectives of a stage on `group` use: inside a node, or one device's share of
/// the node's outer link where TP leaves the node.
[[nodiscard]] Link tensor_parallel_link(const NodeGroup& group, int tensor_parallel);

/// One device's share of its node's inter-node bandwidth.
[[nodiscard]] BytesPerSecond inter_node_share(const NodeGroup& group);

}  // namespace hpplan
