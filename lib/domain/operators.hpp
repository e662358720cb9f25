#pragma once

#include <string>
#include <vector>

#include "base/units.hpp"
#include "domain/model.hpp"

namespace hpplan {

/// One operator of a layer on one device of a tensor-parallel group, for a micro-batch of `samples` samples.
struct OperatorCost {
  std::string name;             // glossary name: qkv, score, softmax, dropout, context, attention_output, ...
  Flop forward;                 // matrix multiply-adds counted as 2; backward is twice this
  Bytes moved;                  // bytes read and written by the forward when it is limited by memory
  Bytes saved;                  // bytes this operator keeps from forward to backward
  Bytes all_reduce_forward;     // payload of the tensor-parallel all-reduce that ends it; 0 if none
  Bytes all_reduce_backward;
  bool recomputable = false;    // may be recomputed on its own
};

/// Operators of layer kind `kind` at TP degree `tensor_parallel`, in execution order.
/// Source: Korthikanti et al. 2022 (activation bytes) and the FLOP table of predictors.md 3 and 5; the score output is
/// not kept (the 5as/h convention).
[[nodiscard]] std::vector<OperatorCost> layer_operators(const ModelSpec& model, const LayerKind& kind, int tensor_parallel,
                                                        int samples);

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
