#pragma once

#include <string>
#include <utility>
#include <vector>

#include "predict/problem.hpp"

namespace hpplan::testing {

/// Identical nodes with one device type each; a test states only what matters to it.
struct GroupSpec {
  std::string name = "x";
  int nodes = 1;
  int devices_per_node = 4;
  Bytes memory{80LL << 30};
  double intra_GBps = 200.0;
  double inter_GBps = 25.0;  // per node
  double intra_latency_s = 0.0;
  double inter_latency_s = 0.0;
  double peak_tflops = 100.0;
  double memory_GBps = 1000.0;
};

/// One device type and one node group per spec; the type is named as the group. Nodes are called x-0, x-1, ...
[[nodiscard]] ClusterSpec cluster_of(const std::vector<GroupSpec>& specs);

/// Sets the limit between every two groups to the slower of their inter-node links, as a cluster file does that states
/// no links.
void link_groups(ClusterSpec& cluster);

/// A model of `blocks` equal layers whose costs the test states; embedding and head cost as good as nothing unless
/// hidden and vocabulary say otherwise.
struct ModelShape {
  int blocks = 4;
  double block_parameters = 1e6;
  int hidden = 8;
  int sequence = 4;
  int vocabulary = 8;
  bool tied = false;
  int heads = 0;  // 0: blocks have no attention, so that every TP degree is allowed
};
[[nodiscard]] ModelSpec model_of(const ModelShape& shape);

/// Times of one sample on one device at TP 1: b samples take b times as long, TP t a t-th.
struct TableTimes {
  double block_forward = 0.010;
  double block_backward = 0.020;
  double embedding_forward = 1e-9;
  double embedding_backward = 1e-9;
  double head_forward = 1e-9;
  double head_backward = 1e-9;
  Bytes block_saved{1 << 20};
};

/// A measured profile of `type` for `model`: TP 1..16 and 1..64 samples (powers of two), exactly as `times` says.
[[nodiscard]] DeviceProfile profile_of(const std::string& type, const ModelSpec& model, const TableTimes& times);

/// A problem with table-driven times: equal for all device types unless `times` names more, in the order of groups.
struct ProblemSpec {
  std::vector<GroupSpec> groups = {GroupSpec{}};
  ModelShape model;
  std::vector<TableTimes> times = {TableTimes{}};
  Job job = small_job();

  [[nodiscard]] static Job small_job(int global_batch = 8);
};
[[nodiscard]] Problem problem_of(const ProblemSpec& spec);

/// A stage on devices [first, first + tp * dp) of node `node` of group `group`; goes over into the next nodes.
struct StageSpec {
  int group = 0;
  int node = 0;
  int first = 0;
  int tensor_parallel = 1;
  int data_parallel = 1;
  LayerRange layers;
};
[[nodiscard]] StagePlan stage_of(const Problem& problem, const StageSpec& spec);
[[nodiscard]] PipelinePlan pipeline_of(const Problem& problem, int micro_batch, int micro_batches,
                                       const std::vector<StageSpec>& stages);

/// Two unequal pipelines on two device types, with an idle device: a plan that has everything a plan can have.
[[nodiscard]] Problem mixed_problem();
[[nodiscard]] Plan mixed_plan(const Problem& problem);

}  // namespace hpplan::testing
