#pragma once

#include <string>
#include <utility>

#include "domain/cluster.hpp"
#include "domain/model.hpp"

namespace hpplan::testing {

/// A GPT model with biases, LayerNorm, dropout and unfused attention: the block of Korthikanti et al. 2022.
inline ModelSpec gpt_model(int blocks, int hidden, int heads, int sequence = 2048, int vocabulary = 51200) {
  ModelSpec model;
  model.name = "gpt";
  model.family = "gpt";
  model.hidden = hidden;
  model.sequence = sequence;
  model.vocabulary = vocabulary;
  model.learned_positions = true;
  model.tied_embeddings = true;
  LayerKind embedding;
  embedding.name = "embedding";
  embedding.role = LayerRole::Embedding;
  LayerKind block;
  block.name = "block";
  block.attention = AttentionShape{heads, heads, hidden / heads, false, true, true, true};
  block.mlp = MlpShape{4 * hidden, false, true, 0, 0, 0};
  LayerKind head;
  head.name = "head";
  head.role = LayerRole::Head;
  model.kinds = {std::move(embedding), std::move(block), std::move(head)};
  model.layers.push_back(0);
  for (int i = 0; i < blocks; ++i) model.layers.push_back(1);
  model.layers.push_back(2);
  return model;
}

/// A LLaMA-like model: grouped queries, gated feed-forward, RMSNorm, no biases, no dropout, untied.
inline ModelSpec llama_model(int blocks, int hidden, int heads, int kv_heads, int ffn, int vocabulary) {
  ModelSpec model = gpt_model(blocks, hidden, heads, 2048, vocabulary);
  model.name = "llama";
  model.family = "llama";
  model.norm = NormKind::RmsNorm;
  model.learned_positions = false;
  model.tied_embeddings = false;
  model.kinds[1].attention = AttentionShape{heads, kv_heads, hidden / heads, true, false, false, false};
  model.kinds[1].mlp = MlpShape{ffn, true, false, 0, 0, 0};
  return model;
}

inline DeviceType a100() {
  return {"nvidia-a100-80gb", Bytes{80'000'000'000LL}, FlopPerSecond{312e12}, BytesPerSecond{2.039e12}};
}

inline Link fast_link() { return {BytesPerSecond{192e9}, Seconds{3e-6}}; }

}  // namespace hpplan::testing
