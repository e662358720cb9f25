#pragma once

#include <string>
#include <vector>

#include "base/units.hpp"
#include "domain/model.hpp"

namespace hpplan {

/// `count` matrix products of (rows x inner) by (inner x columns) that one operator starts together.
/// Sizes are real numbers: the tokens of one expert are an average.
struct Matmul {
  double count = 1.0;
  double rows = 0.0;
  double columns = 0.0;
  double inner = 0.0;

  [[nodiscard]] Flop flop() const { return Flop{2.0 * count * rows * columns * inner}; }
  friend bool operator==(const Matmul&, const Matmul&) = default;
};

/// One operator of a layer on one device of a tensor-parallel group, for a micro-batch of `samples` samples.
struct OperatorCost {
  std::string name;             // glossary name: qkv, score, softmax, dropout, context, attention_output, ...
  Flop forward;                 // matrix multiply-adds counted as 2; backward is twice this
  std::vector<Matmul> matmuls;  // the shapes behind `forward`; empty for a stated layer
  bool weighted = false;        // has weights: half of its matrix work in backward is the weight gradient
  Bytes moved;                  // bytes read and written by the forward when it is limited by memory
  Bytes moved_backward;         // the same for the backward
  Bytes saved;                  // bytes this operator keeps from forward to backward
  Bytes all_reduce_forward;     // payload of the tensor-parallel all-reduce that ends it; 0 if none
  Bytes all_reduce_backward;
  bool recomputable = false;  // may be recomputed on its own
  Bytes freed;                // the part of `saved` that recomputing it frees; inputs stay
};

/// Operators of layer kind `kind` at TP degree `tensor_parallel`, in execution order.
/// Source: Korthikanti et al. 2022 (activation bytes) and the FLOP table of predictors.md 3 and 5; the score output is
/// not kept (the 5as/h convention).
[[nodiscard]] std::vector<OperatorCost> layer_operators(const ModelSpec& model, const LayerKind& kind,
                                                        int tensor_parallel, int samples);

/// Names of all operators of the kind that a plan may list as recomputed, in execution order. Recomputing all of them
/// is full recomputation: only the layer's input is kept. The feed-forward part is one name, "mlp".
[[nodiscard]] std::vector<std::string> recomputable_operators(const LayerKind& kind);

/// Bytes of the layer's input (or output) on one device: what full recomputation still keeps.
[[nodiscard]] Bytes boundary_bytes(const ModelSpec& model, int tensor_parallel, int samples);

/// Bytes of the logits and of their 4-byte copy that the loss works on; both exist while the head runs.
[[nodiscard]] Bytes head_workspace(const ModelSpec& model, int tensor_parallel, int samples);

/// Parameters (elements) that one device of a TP group of `tensor_parallel` holds of layer kind `kind`.
/// The head of a model with tied embeddings counts its own copy of the matrix here.
[[nodiscard]] double device_parameters(const ModelSpec& model, const LayerKind& kind, int tensor_parallel);

/// Parameters of the whole model, a tied matrix counted once, vocabulary not padded.
[[nodiscard]] double total_parameters(const ModelSpec& model);

/// Parameters that one token uses: experts counted top_k times.
[[nodiscard]] double active_parameters(const ModelSpec& model);

/// Floating-point operations of one sample's forward and backward without recomputation ("model FLOPs", for MFU).
[[nodiscard]] Flop model_flop_per_sample(const ModelSpec& model);

}  // namespace hpplan
