#include "io/digest.hpp"

#include <cstdint>

#include "base/text.hpp"

namespace hpplan {

namespace {

/// Collects the fields of a value as unambiguous text: every text carries its length, every part its name.
class Canonical {
 public:
  void add(std::string_view name, const std::string& value) {
    text_ += concat(name, ":", value.size(), ":", value, "\n");
  }
  void add(std::string_view name, double value) { add(name, shortest(value)); }
  void add(std::string_view name, int value) { add(name, std::to_string(value)); }
  void add(std::string_view name, bool value) { add(name, value ? 1 : 0); }
  void add(std::string_view name, Bytes value) { add(name, std::to_string(value.count())); }
  void add(std::string_view name, const Link& link) {
    add(name, shortest(link.bandwidth.value()) + " " + shortest(link.latency.value()));
  }

  [[nodiscard]] std::string digest() const { return fingerprint(text_); }

 private:
  std::string text_;
};

void add_kind(Canonical& canonical, const LayerKind& kind) {
  canonical.add("kind", kind.name);
  canonical.add("role", static_cast<int>(kind.role));
  canonical.add("has_attention", kind.attention.has_value());
  if (kind.attention) {
    canonical.add("heads", kind.attention->heads);
    canonical.add("kv_heads", kind.attention->kv_heads);
    canonical.add("head_dim", kind.attention->head_dim);
    canonical.add("fused", kind.attention->fused);
    canonical.add("qkv_bias", kind.attention->qkv_bias);
    canonical.add("output_bias", kind.attention->output_bias);
    canonical.add("dropout", kind.attention->dropout);
    if (kind.attention->qk_norm) canonical.add("qk_norm", true);
  }
  canonical.add("has_mlp", kind.mlp.has_value());
  if (kind.mlp) {
    canonical.add("ffn", kind.mlp->ffn);
    canonical.add("gated", kind.mlp->gated);
    canonical.add("bias", kind.mlp->bias);
    canonical.add("experts", kind.mlp->experts);
    canonical.add("top_k", kind.mlp->top_k);
    canonical.add("shared_ffn", kind.mlp->shared_ffn);
  }
  canonical.add("has_stated", kind.stated.has_value());
  if (kind.stated) {
    canonical.add("parameters", kind.stated->parameters);
    canonical.add("forward", kind.stated->forward.value());
    canonical.add("saved", kind.stated->saved);
  }
}

}  // namespace

std::string fingerprint(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  std::string digits(16, '0');
  for (std::size_t i = 0; i < digits.size(); ++i) {
    digits[digits.size() - 1 - i] = "0123456789abcdef"[hash & 15U];
    hash >>= 4U;
  }
  return digits;
}

std::string model_digest(const ModelSpec& model) {
  Canonical canonical;
  // Layer by layer, so that the order in which kinds were declared does not matter.
  for (int layer = 0; layer < model.layer_count(); ++layer) add_kind(canonical, model.kind_of(layer));
  canonical.add("hidden", model.hidden);
  canonical.add("sequence", model.sequence);
  canonical.add("vocabulary", model.vocabulary);
  canonical.add("vocabulary_multiple", model.vocabulary_multiple);
  canonical.add("learned_positions", model.learned_positions);
  canonical.add("tied_embeddings", model.tied_embeddings);
  canonical.add("norm", static_cast<int>(model.norm));
  canonical.add("precision", model.precision);
  canonical.add("activation_bytes", model.activation_bytes);
  canonical.add("parameter_bytes", model.state.parameter);
  canonical.add("gradient_bytes", model.state.gradient);
  canonical.add("optimizer_bytes", model.state.optimizer);
  canonical.add("sequence_parallel", model.sequence_parallel);
  return canonical.digest();
}

std::string cluster_digest(const ClusterSpec& cluster) {
  Canonical canonical;
  for (int group = 0; group < cluster.group_count(); ++group) {
    const NodeGroup& nodes = cluster.node_groups[static_cast<std::size_t>(group)];
    const DeviceType& type = cluster.type_of(group);
    canonical.add("group", nodes.name);
    canonical.add("device", type.name);
    canonical.add("memory", type.memory);
    canonical.add("peak", type.peak.value());
    canonical.add("memory_bandwidth", type.memory_bandwidth.value());
    canonical.add("devices_per_node", nodes.devices_per_node);
    canonical.add("intra_node", nodes.intra_node);
    canonical.add("inter_node", nodes.inter_node);
    for (const std::string& name : nodes.node_names) canonical.add("node", name);
    for (const Link& link : cluster.group_links[static_cast<std::size_t>(group)]) canonical.add("link", link);
  }
  return canonical.digest();
}

}  // namespace hpplan
