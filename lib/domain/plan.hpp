#pragma once

#include <string>
#include <vector>

#include "base/range.hpp"
#include "base/units.hpp"
#include "domain/cluster.hpp"

namespace hpplan {

/// Where a number came from; the greater, the less it is worth. A sum is worth as much as its worst part.
enum class Provenance { Measured, Interpolated, Modelled };

[[nodiscard]] const char* to_text(Provenance provenance);

/// Memory of one device of a stage, by part.
struct StageMemory {
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer;
  Bytes activations;  // in-flight micro-batches, after recomputation
  Bytes workspace;    // live set of a recomputed layer, logits and loss, communication buffers
  Bytes other;        // framework overhead

  [[nodiscard]] Bytes total() const { return parameters + gradients + optimizer + activations + workspace + other; }
  friend bool operator==(const StageMemory&, const StageMemory&) = default;
};

/// The operators named are recomputed in all layers of `layers`.
struct RecomputeRange {
  LayerRange layers;
  std::vector<std::string> operators;

  friend bool operator==(const RecomputeRange&, const RecomputeRange&) = default;
};

/// A part of the model that a stage's devices hold, where the schedule gives them several: chunks of one pipeline, or
/// stages of several replicas of the model.
struct ChunkPlan {
  LayerRange layers;

  Seconds forward;          // one micro-batch
  Seconds backward;         // one micro-batch, weight gradient and recomputation included
  Seconds weight_gradient;  // the part of `backward` that the schedule runs on its own; 0 if it does not
  Seconds link;             // one micro-batch's transfer to the next part of the model; 0 on the last
};

/// One stage: what was decided (first block) and what was predicted from it (second block).
struct StagePlan {
  int node_group = 0;
  std::vector<DevicePlace> devices;  // tensor_parallel * data_parallel; TP groups are consecutive
  LayerRange layers;                 // with chunks of one pipeline: only how many; with replicas: the first chunk
  int tensor_parallel = 1;
  int data_parallel = 1;
  std::vector<RecomputeRange> recompute;  // disjoint, ascending
  std::vector<ChunkPlan> chunks;          // what the devices really hold; empty: `layers` alone
  double activation_cap = 0.0;            // of octopipe: activations of one layer that the stage may hold; 0: no cap

  Seconds forward;          // one micro-batch
  Seconds backward;         // one micro-batch, recomputation included
  Seconds weight_gradient;  // the part of `backward` that the schedule runs on its own; 0 if it does not
  Seconds link;             // one micro-batch's transfer to the next stage, one way; 0 on the last stage
  int in_flight = 0;        // activations held at once, of chunks where there are any; 1f1b-adaptive: decided
  int weight_copies = 1;    // versions of the weights held at once
  int drift = 0;            // asynchronous: updates between a micro-batch's forward and its backward
  StageMemory memory;
  Bytes capacity;  // device memory minus the job's margin
  Provenance provenance = Provenance::Measured;
};

struct PipelinePlan {
  int micro_batch = 0;    // samples
  int micro_batches = 0;  // per iteration
  std::string schedule = "1f1b";
  std::vector<StagePlan> stages;
  int accumulation = 0;       // asynchronous: micro-batches per update of a stage; 0: synchronous
  double memory_limit = 0.0;  // of zb-auto: activations a stage may hold; 0: as many as stages

  Seconds time;         // of a step; asynchronous: of as many micro-batches in the steady state
  double bubble = 0.0;  // idle share of the pipeline's devices, 0..1
};

/// Samples per second of an asynchronous pipeline that never drains.
[[nodiscard]] double steady_samples_per_second(const PipelinePlan& pipeline);

/// Part [begin, end) of a layer's gradient, as fractions of the layer.
struct GradientBlock {
  int layer = 0;
  double begin = 0.0;
  double end = 0.0;

  friend auto operator<=>(const GradientBlock&, const GradientBlock&) = default;
};

/// Devices that reduce the same blocks together, in one call.
struct GradientGroup {
  std::vector<int> ranks;  // ascending
  Bytes bytes;             // payload on each rank
  std::vector<GradientBlock> blocks;
};

enum class GradientSyncMethod { DeviceWise, TensorWise, BlockWise };

[[nodiscard]] const char* to_text(GradientSyncMethod method);

struct GradientSync {
  GradientSyncMethod method = GradientSyncMethod::BlockWise;
  std::vector<GradientGroup> groups;  // those of the method chosen
  Seconds time;                       // of the method chosen
  Seconds device_wise;                // predicted time of each method
  Seconds tensor_wise;
  Seconds block_wise;
};

/// What a lower bound is proved by, and so for which plans it holds.
///   Search  the search's proof over all plans under 1F1B
///   Work    the work of the batch over the best rates of all devices: any plan, under any schedule
enum class BoundKind { Search, Work };

[[nodiscard]] const char* to_text(BoundKind kind);

struct Plan {
  std::vector<PipelinePlan> pipelines;
  GradientSync gradient_sync;

  Seconds iteration_time;      // pipeline_time + gradient_sync_time + optimizer_time
  Seconds pipeline_time;       // the slowest pipeline
  Seconds gradient_sync_time;  // what is not hidden
  Seconds optimizer_time;
  Seconds lower_bound;  // proved, over the search space
  BoundKind bound_kind = BoundKind::Search;
  bool complete = true;  // false: a time limit ended the search early

  double inter_pipeline_imbalance = 0.0;         // coefficient of variation of pipeline times
  std::vector<double> intra_pipeline_imbalance;  // of F+B inside each pipeline
  std::vector<DevicePlace> idle_devices;
  std::vector<std::string> notes;

  [[nodiscard]] double gap() const { return iteration_time.value() / lower_bound.value() - 1.0; }
};

}  // namespace hpplan
