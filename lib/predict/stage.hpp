#pragma once

#include <span>
#include <variant>
#include <vector>

#include "domain/plan.hpp"
#include "predict/problem.hpp"
#include "predict/recompute.hpp"
#include "predict/rejection.hpp"

namespace hpplan {

/// Everything that the time and memory of a stage depend on, except where its devices lie.
struct StageQuery {
  int group = 0;
  int tensor_parallel = 1;
  int data_parallel = 1;
  int micro_batch = 1;  // samples of the pipeline's micro-batch; each DP replica gets an equal part
  LayerRange layers;
  int in_flight = 1;  // micro-batches held at the peak

  [[nodiscard]] int samples() const { return micro_batch / data_parallel; }
};

/// Predicted numbers of one stage, one micro-batch, one device.
struct StageEstimate {
  Seconds forward;
  Seconds backward;         // recomputation included
  Seconds weight_gradient;  // the part of backward that a split schedule may delay
  StageMemory memory;
  std::vector<RecomputeCount> recompute;
  Provenance provenance = Provenance::Measured;
};

/// Numbers of a stage with nothing recomputed: sums over its layers.
struct StageBase {
  Seconds forward;
  Seconds backward;
  Seconds weight_gradient;
  double parameters = 0.0;  // elements on one device
  Bytes saved;              // per micro-batch
  StageMemory memory;       // activations of `in_flight` micro-batches; workspace without a recomputed layer
  Provenance provenance = Provenance::Measured;
};

[[nodiscard]] StageBase stage_base(const Problem& problem, const StageQuery& query);

/// A stage that takes on one layer after the other: its numbers at every length in the time of the last one. A problem
/// has far more ranges of layers than layers.
class GrowingStage {
 public:
  /// A stage like `query` that holds none of its layers yet. The problem must outlive it.
  GrowingStage(const Problem& problem, const StageQuery& query);

  [[nodiscard]] int first() const { return query_.layers.first; }
  /// Adds the layers before `last`, which only rises.
  void grow(int last);
  /// What stage_base() and recompute_items() tell of the layers so far.
  [[nodiscard]] StageBase base() const;
  [[nodiscard]] std::vector<RecomputeItem> items() const;

 private:
  const Problem* problem_;
  StageQuery query_;
  StageBase sums_;
  int kind_ = -1;  // of the last layer: neighbours are mostly alike
  const LayerCost* cost_ = nullptr;
  double parameters_each_ = 0.0;
  std::size_t item_ = 0;              // of the last layer
  std::vector<RecomputeItem> items_;  // of all kinds, in the order of their first layers
};

/// Elements on one device of a stage that holds all of `parts`; a tied matrix is held once. `query.layers` is not used.
[[nodiscard]] double parameters_of(const Problem& problem, const StageQuery& query, std::span<const LayerRange> parts);

/// Parameters, gradients and optimizer states of one device that holds `parameters` elements; the rest is 0.
[[nodiscard]] StageMemory state_memory(const Problem& problem, int data_parallel, double parameters);

/// Receive and send buffers of a part: an activation and its gradient for each neighbour.
[[nodiscard]] Bytes communication_buffers(const ModelSpec& model, const StageQuery& query);

/// Ways to save memory in the stage, one item per layer kind that has any.
[[nodiscard]] std::vector<RecomputeItem> recompute_items(const Problem& problem, const StageQuery& query);

/// Numbers of a stage that recomputes `counts` layers, whether it fits or not.
[[nodiscard]] StageEstimate estimate_stage(const Problem& problem, const StageQuery& query,
                                           std::span<const RecomputeCount> counts);

/// Numbers of a stage with the cheapest recomputation that fits the device memory, or how much it misses by.
[[nodiscard]] std::variant<StageEstimate, Rejection> predict_stage(const Problem& problem, const StageQuery& query);

/// Optimizer update of one device that holds `parameters` elements. Measured if a profile has it, else bytes moved
/// over memory bandwidth: each parameter's gradient and parameter are read or written once, its optimizer state is
/// read and written (predictors.md 5: 30 bytes at 2 + 4 + 12).
///   optimizer states sharded over `data_parallel` replicas update only their share.
[[nodiscard]] Seconds optimizer_time(const Problem& problem, int group, int tensor_parallel, int data_parallel,
                                     double parameters);

/// Layer ranges and operator sets of `counts`, laid over the layers of `layers` in order: the largest choice first.
[[nodiscard]] std::vector<RecomputeRange> recompute_ranges(const Problem& problem, const StageQuery& query,
                                                           std::span<const RecomputeCount> counts);

/// The inverse: counts per kind and choice of the ranges of a plan. Errors: InputError when a range names an operator
/// set that the layer's kind does not offer.
[[nodiscard]] std::vector<RecomputeCount> recompute_counts(const Problem& problem, const StageQuery& query,
                                                           std::span<const RecomputeRange> ranges);

/// Bytes of the tensor that crosses a stage boundary, one micro-batch of `samples` samples.
[[nodiscard]] Bytes boundary_bytes(const ModelSpec& model, int samples);

}  // namespace hpplan
