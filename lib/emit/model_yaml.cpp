#include "emit/model_yaml.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace hpplan {

namespace {

const char* yes_no(bool value) { return value ? "true" : "false"; }

std::string comments(const std::vector<std::string>& notes) {
  std::string text;
  for (std::string note : notes) {
    // A note may quote a file; a line end in it must not end the comment.
    for (char& c : note) c = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    text += concat("# ", note, "\n");
  }
  return text;
}

/// A text in quotes where YAML could take it for something else.
std::string scalar(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

const char* norm_name(NormKind norm) {
  switch (norm) {
    case NormKind::LayerNorm: return "layer_norm";
    case NormKind::RmsNorm: return "rms_norm";
    case NormKind::None: return "none";
  }
  return "none";
}

std::string attention_fields(const AttentionShape& shape) {
  std::string text = concat("heads: ", shape.heads, ", kv_heads: ", shape.kv_heads, ", head_dim: ", shape.head_dim,
                            ", bias: ", yes_no(shape.output_bias), ", qkv_bias: ", yes_no(shape.qkv_bias),
                            ", dropout: ", yes_no(shape.dropout), ", fused_attention: ", yes_no(shape.fused));
  if (shape.qk_norm) text += ", qk_norm: true";
  return text;
}

std::string mlp_fields(const MlpShape& shape) {
  std::string text = concat("ffn: ", shape.ffn, ", gated: ", yes_no(shape.gated), ", bias: ", yes_no(shape.bias));
  if (shape.experts > 0) text += concat(", experts: ", shape.experts, ", top_k: ", shape.top_k);
  if (shape.shared_ffn > 0) text += concat(", shared_ffn: ", shape.shared_ffn);
  return text;
}

std::string kind_text(const LayerKind& kind) {
  std::string text = concat("  ", scalar(kind.name), ":\n");
  if (kind.attention) text += concat("    attention: {", attention_fields(*kind.attention), "}\n");
  if (kind.stated) {
    text += concat("    stated: {parameters: ", fixed(kind.stated->parameters, 0),
                   ", forward: ", fixed(kind.stated->forward.value(), 0), " FLOP, saved: ", kind.stated->saved.count(),
                   " B}\n");
  }
  if (kind.mlp) text += concat("    mlp: {", mlp_fields(*kind.mlp), "}\n");
  return text;
}

/// Runs of equal layers as repeats.
std::string layers_text(const ModelSpec& model) {
  std::string text = "layers:\n";
  const int end = model.layer_count() - 1;
  for (int layer = 1; layer < end;) {
    int last = layer;
    while (last < end && model.layers[static_cast<std::size_t>(last)] == model.layers[static_cast<std::size_t>(layer)])
      ++last;
    text += concat("  - {repeat: ", last - layer, ", layers: [", scalar(model.kind_of(layer).name), "]}\n");
    layer = last;
  }
  return text;
}

/// Whether one of the families gpt, llama and moe states the model: blocks all alike and named "block".
bool is_plain(const ModelSpec& model) {
  if (model.kinds.size() != 3 || model.family == "custom") return false;
  const LayerKind& block = model.kind_of(1);
  return block.name == "block" && block.attention && block.mlp && !block.stated &&
         block.attention->output_bias == block.mlp->bias && (model.family == "moe") == (block.mlp->experts > 0);
}

std::string plain_fields(std::string fields) {
  std::string text;
  for (std::size_t at = fields.find(", "); at != std::string::npos; at = fields.find(", ")) {
    text += fields.substr(0, at) + "\n";
    fields.erase(0, at + 2);
  }
  return text + fields + "\n";
}

std::string link_text(const char* key, const Link& link) {
  return concat("    ", key, ": {bandwidth: ", shortest(link.bandwidth.value()),
                " B/s, latency: ", shortest(link.latency.value()), " s}\n");
}

/// Links between groups where they are not what a reader would take: the slower of both groups' inter-node links.
std::string group_links_text(const ClusterSpec& cluster) {
  std::string text;
  for (std::size_t a = 0; a < cluster.node_groups.size(); ++a) {
    for (std::size_t b = a + 1; b < cluster.node_groups.size(); ++b) {
      const Link& link = cluster.group_links[a][b];
      const Link& here = cluster.node_groups[a].inter_node;
      const Link& there = cluster.node_groups[b].inter_node;
      const Link usual{std::min(here.bandwidth, there.bandwidth), std::max(here.latency, there.latency)};
      if (link == usual) continue;
      text += concat("  - {between: [", scalar(cluster.node_groups[a].name), ", ", scalar(cluster.node_groups[b].name),
                     "], bandwidth: ", shortest(link.bandwidth.value()),
                     " B/s, latency: ", shortest(link.latency.value()), " s}\n");
    }
  }
  return text.empty() ? "" : "links:\n" + text;
}

}  // namespace

std::string model_yaml(const ModelSpec& model, const std::vector<std::string>& notes) {
  const bool plain = is_plain(model);
  std::string text = comments(notes);
  const auto add = [&](const char* key, const auto& value) { text += concat(key, ": ", value, "\n"); };
  add("name", scalar(model.name));
  add("family", plain ? model.family : "custom");
  add("hidden", model.hidden);
  add("sequence", model.sequence);
  add("vocabulary", model.vocabulary);
  add("vocabulary_multiple", model.vocabulary_multiple);
  add("learned_positions", yes_no(model.learned_positions));
  add("tied_embeddings", yes_no(model.tied_embeddings));
  add("norm", norm_name(model.norm));
  add("precision", model.precision);
  add("state_bytes", concat("{parameter: ", model.state.parameter, ", gradient: ", model.state.gradient,
                            ", optimizer: ", model.state.optimizer, "}"));
  add("sequence_parallel", yes_no(model.sequence_parallel));
  if (plain) {
    const LayerKind& block = model.kind_of(1);
    add("layers", model.block_count());
    text += plain_fields(attention_fields(*block.attention));
    // Attention has written the bias of both parts.
    const std::string bias = concat(", bias: ", yes_no(block.mlp->bias));
    std::string fields = mlp_fields(*block.mlp);
    text += plain_fields(fields.erase(fields.find(bias), bias.size()));
    return text;
  }
  text += "kinds:\n";
  for (const LayerKind& kind : model.kinds) {
    if (kind.role == LayerRole::Block) text += kind_text(kind);
  }
  return text + layers_text(model);
}

std::string cluster_yaml(const ClusterSpec& cluster, const std::vector<std::string>& known_types,
                         const std::vector<std::string>& notes) {
  std::string types;
  for (const DeviceType& type : cluster.device_types) {
    if (std::find(known_types.begin(), known_types.end(), type.name) != known_types.end()) continue;
    types += concat("  - {name: ", scalar(type.name), ", memory: ", type.memory.count(),
                    " B, peak: ", shortest(type.peak.value()),
                    " FLOPS, memory_bandwidth: ", shortest(type.memory_bandwidth.value()), " B/s}\n");
  }
  std::string text = concat(comments(notes), "name: ", scalar(cluster.name), "\n");
  if (!types.empty()) text += "device_types:\n" + types;
  text += "node_groups:\n";
  for (int index = 0; index < cluster.group_count(); ++index) {
    const NodeGroup& group = cluster.node_groups[static_cast<std::size_t>(index)];
    std::vector<std::string> names;
    for (const std::string& name : group.node_names) names.push_back(scalar(name));
    text += concat("  - name: ", scalar(group.name), "\n    device: ", scalar(cluster.type_of(index).name),
                   "\n    nodes: ", group.nodes, "\n    devices_per_node: ", group.devices_per_node,
                   "\n    node_names: [", join(names, ", "), "]\n");
    text += link_text("intra_node", group.intra_node) + link_text("inter_node", group.inter_node);
  }
  return text + group_links_text(cluster);
}

}  // namespace hpplan
