#pragma once

#include <random>
#include <utility>
#include <vector>

#include "domain/operators.hpp"
#include "domain/plan.hpp"
#include "support/models.hpp"

namespace hpplan::testing {

/// What a random plan may hold. Degrees in ranges are powers of two.
struct PlanShape {
  int pipelines = 1;
  bool equal_pipelines = true;
  bool equal_degrees = true;          // one TP and DP degree for all stages
  bool equal_devices = false;         // TP may differ, devices per stage may not
  bool equal_micro_batch = true;      // per replica
  bool whole_layer_recompute = true;  // otherwise attention core and feed-forward part too
  bool recompute = true;
};

/// A cluster with nodes of 8 devices.
inline ClusterSpec flat_cluster(int nodes) {
  ClusterSpec cluster;
  cluster.name = "flat";
  cluster.device_types = {a100()};
  NodeGroup group;
  group.name = "a100";
  group.nodes = nodes;
  group.devices_per_node = 8;
  group.intra_node = fast_link();
  group.inter_node = fast_link();
  for (int i = 0; i < nodes; ++i) group.node_names.push_back("node" + std::to_string(i));
  cluster.node_groups = {group};
  cluster.group_links = {{fast_link()}};
  return cluster;
}

/// Random decisions over `cluster`, whose devices are taken in rank order, each stage starting on a fresh node.
class PlanMaker {
 public:
  PlanMaker(const ModelSpec& model, const ClusterSpec& cluster, unsigned seed)
      : model_(model), cluster_(cluster), random_(seed) {}

  [[nodiscard]] Plan make(const PlanShape& shape) {
    Plan plan;
    next_node_ = 0;
    const int micro_batch = 8 * pick(1, 3);
    for (int p = 0; p < shape.pipelines; ++p) {
      if (p > 0 && shape.equal_pipelines) {
        PipelinePlan copy = plan.pipelines.front();
        for (StagePlan& stage : copy.stages) place(stage);
        plan.pipelines.push_back(std::move(copy));
      } else {
        plan.pipelines.push_back(pipeline(shape, shape.equal_micro_batch ? micro_batch : 8 * pick(1, 3)));
      }
    }
    for (int rank = next_node_ * 8; rank < cluster_.device_count(); ++rank)
      plan.idle_devices.push_back(place_of_rank(cluster_, rank));
    plan.iteration_time = plan.pipeline_time = Seconds{1.0};
    plan.lower_bound = Seconds{1.0};
    return plan;
  }

 private:
  [[nodiscard]] int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  void place(StagePlan& stage) {
    stage.devices.clear();
    for (int i = 0; i < stage.tensor_parallel * stage.data_parallel; ++i) stage.devices.push_back({0, next_node_, i});
    ++next_node_;
  }

  [[nodiscard]] PipelinePlan pipeline(const PlanShape& shape, int micro_batch) {
    PipelinePlan pipeline;
    const int blocks = model_.block_count();
    const int stages = pick(1, std::min(4, blocks));
    pipeline.micro_batch = micro_batch;
    pipeline.micro_batches = pick(1, 6);
    const int tensor = 1 << pick(0, 1);
    const int data = 1 << pick(0, 2);
    int first = 0;
    for (int s = 0; s < stages; ++s) {
      StagePlan stage;
      const int left = stages - s - 1;
      const int taken = std::max(first - 1, 0);
      const int count = left == 0 ? blocks - taken : pick(1, blocks - taken - left);
      stage.layers = {first, left == 0 ? blocks + 2 : std::max(first, 1) + count};
      first = stage.layers.last;
      stage.tensor_parallel = shape.equal_degrees ? tensor : 1 << pick(0, 1);
      stage.data_parallel = shape.equal_degrees   ? data
                            : shape.equal_devices ? 4 / stage.tensor_parallel
                                                  : 1 << pick(0, 2);
      stage.forward = Seconds{0.01 * pick(1, 9)};
      stage.backward = Seconds{0.02 * pick(1, 9)};
      stage.capacity = Bytes{1'000'000};
      if (shape.recompute) recompute(stage, shape);
      place(stage);
      pipeline.stages.push_back(std::move(stage));
    }
    return pipeline;
  }

  void recompute(StagePlan& stage, const PlanShape& shape) {
    const int first = std::max(stage.layers.first, 1);
    const int last = std::min(stage.layers.last, model_.layer_count() - 1);
    const int count = pick(0, last - first);
    if (count == 0) return;
    std::vector<std::string> operators = recomputable_operators(model_.kind_of(1));
    if (!shape.whole_layer_recompute && pick(0, 1) == 1) operators = {"mlp"};
    stage.recompute.push_back({{first, first + count}, operators});
  }

  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  std::mt19937 random_;
  int next_node_ = 0;
};

}  // namespace hpplan::testing
