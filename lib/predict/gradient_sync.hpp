#pragma once

#include <span>
#include <vector>

#include "domain/plan.hpp"
#include "predict/problem.hpp"

namespace hpplan {

/// The asymmetric All-Reduce of a plan's gradients: the groups that hold each layer's blocks, and the predicted time of
/// the three methods (problem.md 6):
///   device-wise  every device reduces its whole gradient buffer in one call, padded to the largest buffer of the plan
///   tensor-wise  block-wise without merging: one call per parameter tensor and block
///   block-wise   the layer's gradient cut at the union of all shard boundaries; blocks with the same group are merged
/// A method's time is the largest, over devices, of the summed cost of the calls that the device takes part in.
/// Layer 0's gradient is also held by the last stage where the model ties its embeddings and p > 1.
/// Every stage must have its devices, layers and degrees set.
[[nodiscard]] GradientSync predict_gradient_sync(const Problem& problem, std::span<const PipelinePlan> pipelines);

/// Cost of one All-Reduce of `bytes` over `ranks`: the better of a flat ring over all ranks, and, where every node
/// holds the same number of ranks, an intra-node reduce-scatter and all-gather around one ring per rank of a node.
/// A ring of n ranks moves 2 (n-1)/n of the payload over its slowest link and pays 2 (n-1) latencies.
/// A device owns an equal share of its node's outer link. Source: Patarasuk & Yuan 2009.
[[nodiscard]] Seconds all_reduce_time(const Problem& problem, std::span<const int> ranks, Bytes bytes);

/// Bytes of a layer's gradient, whole (not sharded).
[[nodiscard]] Bytes layer_gradient_bytes(const ModelSpec& model, int layer);

/// What decides how cheap a stage's own share of the gradient sync can be.
struct SyncShape {
  int group = 0;    // node group of the stage
  int devices = 1;  // of the stage
  int tensor_parallel = 1;
  int replicas = 1;     // of each of its layers, at least, in the whole plan, DP replicas counted
  bool spread = false;  // every layer of the stage has replicas on more than one node
  int taken = 0;        // other devices of its node that hold no replica of any of its layers
};

/// A lower bound of the gradient synchronisation time of any plan that has such a stage. Never above the time of any
/// of the three methods.
///   held_bytes   gradient bytes on one device of the stage: the sum of floor(layer bytes / TP) over its layers
[[nodiscard]] Seconds gradient_sync_lower_bound(const Problem& problem, const SyncShape& shape, Bytes held_bytes);

}  // namespace hpplan
