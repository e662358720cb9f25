#include "io/detail/model_builder.hpp"

#include <cstdint>

namespace hpplan::detail {

StatedLayer stated_attention(const LatentAttention& shape, int hidden, int sequence, int element_bytes) {
  const double h = hidden;
  const double a = shape.heads;
  const double key_width = a * (shape.plain_dim + shape.rotary_dim);
  const double value_width = a * shape.value_dim;
  const double q = shape.query_rank;
  const double kv = shape.key_value_rank;

  double matrices = q > 0.0 ? h * q + q * key_width : h * key_width;
  matrices += h * (kv + shape.rotary_dim) + kv * a * (shape.plain_dim + shape.value_dim) + value_width * h;
  StatedLayer layer;
  layer.parameters = matrices + q + kv + h;  // norms of both latents and of the input

  const double s = sequence;
  const double scores = 2.0 * s * s * (key_width + value_width);  // Q K^T and scores times V, as full products
  layer.forward = Flop{2.0 * s * matrices + scores};

  // Input and its norm; both latents before and after their norms; Q and K, V and the output.
  const double kept = 2.0 * h + 2.0 * q + 2.0 * kv + shape.rotary_dim + 2.0 * key_width + 2.0 * value_width;
  layer.saved = Bytes{static_cast<std::int64_t>(kept * s * element_bytes)};
  return layer;
}

void set_precision(ModelSpec& model, const std::string& precision) {
  model.precision = precision;
  const bool full = precision == "fp32";
  model.activation_bytes = full ? 4 : 2;
  model.state = full ? StateBytes{4, 4, 8} : StateBytes{2, 4, 12};
}

void set_layers(ModelSpec& model, std::vector<LayerKind> kinds, const std::vector<int>& blocks) {
  LayerKind embedding;
  embedding.name = "embedding";
  embedding.role = LayerRole::Embedding;
  LayerKind head;
  head.name = "head";
  head.role = LayerRole::Head;
  model.kinds.clear();
  model.kinds.push_back(std::move(embedding));
  for (LayerKind& kind : kinds) model.kinds.push_back(std::move(kind));
  model.kinds.push_back(std::move(head));
  model.layers.assign(1, 0);
  for (const int kind : blocks) model.layers.push_back(kind + 1);
  model.layers.push_back(static_cast<int>(model.kinds.size()) - 1);
}

}  // namespace hpplan::detail
