#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace hpplan {

enum class LayerRole { Embedding, Block, Head };

enum class NormKind { LayerNorm, RmsNorm, None };

/// Attention part of a block. `heads` query heads, `kv_heads` key/value groups, each `head_dim` wide.
struct AttentionShape {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  bool fused = false;        // fused (flash) attention: no s x s tensor is stored
  bool qkv_bias = false;     // bias of the query, key and value projections
  bool output_bias = false;  // bias of the output projection
  bool dropout = false;      // attention dropout and the two residual dropouts store masks
  bool qk_norm = false;      // a norm of every query and key head, one scale of width head_dim each

  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

/// Feed-forward part of a block. Dense: experts == 0. Mixture of experts: `experts` of width `ffn`, `top_k` per token.
struct MlpShape {
  int ffn = 0;
  bool gated = false;  // SwiGLU: three matrices instead of two
  bool bias = false;
  int experts = 0;
  int top_k = 0;
  int shared_ffn = 0;  // width of experts that every token visits; 0 when there are none

  friend bool operator==(const MlpShape&, const MlpShape&) = default;
};

/// A layer whose cost is stated instead of derived from a shape (state-space layers, adapters, ...).
struct StatedLayer {
  double parameters = 0.0;  // elements, before tensor parallelism
  Flop forward;             // one sample
  Bytes saved;              // one sample, kept from forward to backward
  friend bool operator==(const StatedLayer&, const StatedLayer&) = default;
};

/// One kind of layer; a model is a sequence of kinds. A block has attention, an MLP, both, or a stated cost. A stated
/// cost may also stand in for the attention beside an MLP (attention with compressed keys and values).
struct LayerKind {
  std::string name;
  LayerRole role = LayerRole::Block;
  std::optional<AttentionShape> attention;
  std::optional<MlpShape> mlp;
  std::optional<StatedLayer> stated;

  friend bool operator==(const LayerKind&, const LayerKind&) = default;
};

/// Bytes per parameter of the training state, by what they are for.
struct StateBytes {
  int parameter = 2;
  int gradient = 4;
  int optimizer = 12;  // master weights and moments; the part that optimizer sharding divides

  friend bool operator==(const StateBytes&, const StateBytes&) = default;
};

/// The model to train. Layers are numbered 0 (embedding), 1..L (blocks), L+1 (head).
struct ModelSpec {
  std::string name;
  std::string family;  // gpt, llama, moe, custom
  std::vector<LayerKind> kinds;
  std::vector<int> layers;  // for each layer the index of its kind; front is the embedding, back the head
  int hidden = 0;
  int sequence = 0;
  int vocabulary = 0;
  int vocabulary_multiple = 128;  // the vocabulary is padded to a multiple of this times the TP degree
  bool learned_positions = false;
  bool tied_embeddings = false;
  NormKind norm = NormKind::LayerNorm;
  std::string precision = "bf16";  // bf16, fp16 or fp32
  int activation_bytes = 2;        // bytes of one activation element
  StateBytes state;
  bool sequence_parallel = false;  // Megatron sequence parallelism: activations outside TP regions are split too
  std::string digest;              // fingerprint of everything above that a result depends on

  [[nodiscard]] int layer_count() const { return static_cast<int>(layers.size()); }
  [[nodiscard]] int block_count() const { return layer_count() - 2; }
  [[nodiscard]] const LayerKind& kind_of(int layer) const {
    return kinds[static_cast<std::size_t>(layers[static_cast<std::size_t>(layer)])];
  }
};

/// Vocabulary rows after padding to a multiple of `vocabulary_multiple * tensor_parallel`.
[[nodiscard]] int padded_vocabulary(const ModelSpec& model, int tensor_parallel);

/// Why `tensor_parallel` cannot be used with this model ("28 heads are not a multiple of 8"), or "" if it can.
[[nodiscard]] std::string tensor_parallel_fault(const ModelSpec& model, int tensor_parallel);

/// The TP degrees up to `limit` that the model allows.
[[nodiscard]] std::vector<int> allowed_tensor_parallel(const ModelSpec& model, int limit);

}  // namespace hpplan
