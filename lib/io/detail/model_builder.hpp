#pragma once

#include <string>
#include <utility>
#include <vector>

#include "domain/model.hpp"
#include "io/import_model.hpp"

namespace hpplan::detail {

/// Attention with compressed queries, keys and values (multi-head latent attention).
struct LatentAttention {
  int heads = 0;
  int query_rank = 0;  // 0: queries are not compressed
  int key_value_rank = 0;
  int plain_dim = 0;   // of a head's query and key, without position
  int rotary_dim = 0;  // with position; the key part is shared by all heads
  int value_dim = 0;
};

/// A block part of stated cost with the exact number of parameters, its input norm included. Fused kernels are assumed:
/// kept are inputs and outputs of the projections, no s x s tensor.
[[nodiscard]] StatedLayer stated_attention(const LatentAttention& shape, int hidden, int sequence, int element_bytes);

/// Precision "bf16", "fp16" or "fp32" and the bytes that follow from it.
void set_precision(ModelSpec& model, const std::string& precision);

/// Puts embedding and head around `blocks` (one kind per block, by index into `kinds`).
void set_layers(ModelSpec& model, std::vector<LayerKind> kinds, const std::vector<int>& blocks);

}  // namespace hpplan::detail
