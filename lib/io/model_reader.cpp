#include "io/model_reader.hpp"

#include <map>
#include <utility>

#include "base/text.hpp"
#include "io/detail/limits.hpp"
#include "io/digest.hpp"
#include "io/document.hpp"
#include "io/file_kind.hpp"

namespace hpplan {

using detail::kMaxBlocks;
using detail::kMaxWidth;

namespace {

// Far above any model that exists, and low enough that sizes of a whole iteration fit 64 bits.
constexpr int kMaxHeads = 1 << 14;
constexpr int kMaxExperts = 1 << 14;
constexpr int kMaxSequence = 1 << 24;
constexpr int kMaxVocabulary = 1 << 26;
constexpr double kMaxSavedBytes = 0x1p42;  // one layer, one sample

enum class Family { Gpt, Llama, Moe, Custom };

/// What a family takes for fields that the file leaves out.
struct FamilyDefaults {
  bool gated = false;
  bool bias = false;
  bool dropout = false;
  bool learned_positions = false;
  bool tied_embeddings = false;
  NormKind norm = NormKind::RmsNorm;
};

FamilyDefaults defaults_of(Family family) {
  switch (family) {
    case Family::Gpt: return {false, true, true, true, true, NormKind::LayerNorm};
    case Family::Llama:
    case Family::Moe:
    case Family::Custom: return {true, false, false, false, false, NormKind::RmsNorm};
  }
  return {};
}

/// Names that other tools use for our fields: a file written from memory gets the right hint.
void name_variants(const Reader& root) {
  root.also_called("layers", {"num_layers", "n_layer", "n_layers", "num_hidden_layers"});
  root.also_called("hidden", {"hidden_size", "n_embd", "d_model"});
  root.also_called("heads", {"num_attention_heads", "n_head", "n_heads", "num_heads"});
  root.also_called("kv_heads", {"num_key_value_heads", "num_query_groups"});
  root.also_called("head_dim", {"kv_channels"});
  root.also_called("sequence", {"sequence_length", "seq_length", "seq_len", "max_position_embeddings"});
  root.also_called("vocabulary", {"vocab_size", "padded_vocab_size"});
  root.also_called("vocabulary_multiple", {"make_vocab_size_divisible_by"});
  root.also_called("ffn", {"ffn_hidden_size", "intermediate_size"});
  root.also_called("experts", {"num_experts", "num_local_experts"});
  root.also_called("top_k", {"moe_router_topk", "num_experts_per_tok"});
  root.also_called("tied_embeddings", {"tie_word_embeddings", "tied"});
  root.also_called("fused_attention", {"flash_attention", "use_flash_attn"});
}

std::string at(const Reader& field) { return concat("(", field.position(), ")"); }

/// Attention shape from the keys of `map`: the model itself, or one kind of a custom model.
AttentionShape read_attention(const Reader& map, int hidden, const Reader& hidden_field,
                              const FamilyDefaults& defaults) {
  AttentionShape shape;
  const Reader heads = map.required("heads");
  const Reader kv_heads = map.optional("kv_heads");
  const Reader head_dim = map.optional("head_dim");
  shape.heads = heads.count(1, kMaxHeads);
  shape.kv_heads = kv_heads.count_or(shape.heads, 1, kMaxHeads);
  shape.head_dim = head_dim.count_or(0, 1, kMaxWidth);
  const bool bias = map.optional("bias").boolean_or(defaults.bias);
  shape.qkv_bias = map.optional("qkv_bias").boolean_or(bias);
  shape.output_bias = bias;
  shape.fused = map.optional("fused_attention").boolean_or(false);
  shape.dropout = map.optional("dropout").boolean_or(defaults.dropout);
  shape.qk_norm = map.optional("qk_norm").boolean_or(false);
  if (!map.document_ok()) return shape;

  if (shape.heads % shape.kv_heads != 0) {
    kv_heads.fault(
        concat(shape.heads, " heads ", at(heads), " are not a multiple of ", shape.kv_heads, " key/value groups"),
        "each key/value group serves the same number of heads");
  }
  if (!head_dim.exists()) {
    if (hidden % shape.heads != 0) {
      heads.fault(
          concat("hidden size ", hidden, " ", at(hidden_field), " is not a multiple of ", shape.heads, " heads"),
          "set head_dim if heads do not share the hidden size");
    }
    shape.head_dim = hidden / shape.heads;
  } else if (static_cast<std::int64_t>(shape.heads) * shape.head_dim > kMaxWidth) {
    head_dim.fault(
        concat(shape.heads, " heads ", at(heads), " of width ", shape.head_dim, " are wider than ", kMaxWidth), "");
  }
  return shape;
}

/// Feed-forward shape. `default_ffn` is 0 where the width must be stated.
MlpShape read_mlp(const Reader& map, int default_ffn, bool may_have_experts, bool must_have_experts,
                  const FamilyDefaults& defaults) {
  MlpShape shape;
  const Reader ffn = default_ffn > 0 ? map.optional("ffn") : map.required("ffn");
  shape.ffn = ffn.count_or(default_ffn, 1, kMaxWidth);
  shape.gated = map.optional("gated").boolean_or(defaults.gated);
  shape.bias = map.optional("bias").boolean_or(defaults.bias);
  if (!may_have_experts) return shape;

  const Reader experts = must_have_experts ? map.required("experts") : map.optional("experts");
  shape.experts = experts.count_or(0, 1, kMaxExperts);
  const bool is_mixture = must_have_experts || experts.exists();
  const Reader top_k = is_mixture ? map.required("top_k") : map.optional("top_k");
  const Reader shared = map.optional("shared_ffn");
  shape.top_k = top_k.count_or(0, 1, kMaxExperts);
  shape.shared_ffn = shared.count_or(0, 0, kMaxWidth);
  if (!map.document_ok()) return shape;
  if (!is_mixture && top_k.exists()) top_k.fault("top_k without experts", "set experts, or remove top_k");
  if (!is_mixture && shared.exists()) shared.fault("shared_ffn without experts", "set experts, or remove shared_ffn");
  if (is_mixture && shape.top_k > shape.experts) {
    top_k.fault(concat("top_k ", shape.top_k, " of ", shape.experts, " experts ", at(experts)),
                "a token visits at most all experts");
  }
  return shape;
}

StatedLayer read_stated(const Reader& map) {
  StatedLayer stated;
  stated.parameters = map.required("parameters").number(0.0, 1e15);
  stated.forward = map.required("forward").quantity<Flop>(ZeroRule::Allowed);
  const Reader saved = map.required("saved");
  stated.saved = saved.quantity<Bytes>(ZeroRule::Allowed);
  if (stated.saved.value() > kMaxSavedBytes) saved.fault("more than 4 TiB for one sample", "");
  return stated;
}

/// Bytes that one layer keeps for one sample, roughly: only to refuse what would not fit 64 bits later.
void check_saved_bytes(const Reader& root, const ModelSpec& model, const LayerKind& kind) {
  const double sequence = model.sequence;
  double width = 20.0 * model.hidden;
  if (kind.attention) {
    width += 4.0 * kind.attention->heads * kind.attention->head_dim;
    if (!kind.attention->fused) width += 2.5 * kind.attention->heads * sequence;
  }
  if (kind.mlp)
    width += 3.0 * (kind.mlp->ffn * static_cast<double>(std::max(1, kind.mlp->top_k)) + kind.mlp->shared_ffn);
  if (sequence * width * model.activation_bytes > kMaxSavedBytes) {
    root.required("sequence")
        .fault(concat("one layer would keep more than 4 TiB for one sample of ", model.sequence, " tokens"),
               "use a shorter sequence, or fused_attention: true");
  }
  if (sequence * model.vocabulary * 4.0 > kMaxSavedBytes) {
    root.required("vocabulary")
        .fault(concat("the logits of one sample of ", model.sequence, " tokens would take more than 4 TiB"), "");
  }
}

/// The kinds of a custom model, by name, appended to model.kinds.
std::map<std::string, int> read_kinds(const Reader& root, ModelSpec& model) {
  const FamilyDefaults defaults = defaults_of(Family::Custom);
  std::map<std::string, int> index;
  for (const auto& [name, map] : root.required("kinds").entries(1)) {
    LayerKind kind;
    kind.name = name;
    if (name.empty() || name == "embedding" || name == "head") {
      map.fault("not a name for a kind of block", "\"embedding\" and \"head\" are the ends of the model");
    }
    const Reader attention = map.optional("attention");
    const Reader mlp = map.optional("mlp");
    const Reader stated = map.optional("stated");
    if (attention.exists()) kind.attention = read_attention(attention, model.hidden, root.required("hidden"), defaults);
    if (mlp.exists()) kind.mlp = read_mlp(mlp, 0, true, false, defaults);
    if (stated.exists()) kind.stated = read_stated(stated);
    const bool shaped = attention.exists() || mlp.exists();
    if (stated.exists() ? attention.exists() : !shaped) {
      map.fault("a kind has attention, mlp or both, or a stated cost in place of its attention", "");
    }
    index[name] = static_cast<int>(model.kinds.size());
    model.kinds.push_back(std::move(kind));
  }
  return index;
}

std::vector<std::string> names_of(const std::map<std::string, int>& kinds) {
  std::vector<std::string> names;
  for (const auto& kind : kinds) names.push_back(kind.first);
  return names;
}

/// Kinds of the blocks that a list stands for. An element is the name of a kind, or a list of elements with a repeat
/// count.
std::vector<int> read_sequence(const Reader& list, const std::map<std::string, int>& kinds) {
  std::vector<int> blocks;
  for (const Reader& item : list.items(1)) {
    std::vector<int> part;
    int repeat = 1;
    if (item.kind() == ValueKind::Map) {
      repeat = item.required("repeat").count(1, kMaxBlocks);
      part = read_sequence(item.required("layers"), kinds);
    } else {
      const std::string name = item.text();
      const auto found = kinds.find(name);
      if (found != kinds.end()) {
        part.push_back(found->second);
      } else if (item.kind() == ValueKind::Text) {
        const std::string nearest = nearest_name(name.substr(0, 64), names_of(kinds));
        item.fault(concat("no kind of layer is called \"", name, "\""),
                   nearest.empty() ? concat("kinds: ", join(names_of(kinds), ", "))
                                   : concat("did you mean \"", nearest, "\"?"));
      }
    }
    if (blocks.size() + part.size() * static_cast<std::size_t>(repeat) > static_cast<std::size_t>(kMaxBlocks)) {
      item.fault(concat("more than ", kMaxBlocks, " blocks"), "");
      return blocks;
    }
    for (int i = 0; i < repeat; ++i) blocks.insert(blocks.end(), part.begin(), part.end());
  }
  return blocks;
}

/// Blocks of a model whose blocks are all alike.
std::vector<int> read_uniform_blocks(const Reader& root, Family family, ModelSpec& model) {
  const FamilyDefaults defaults = defaults_of(family);
  LayerKind block;
  block.name = "block";
  block.attention = read_attention(root, model.hidden, root.required("hidden"), defaults);
  // GPT's feed-forward part is four times as wide as the model; the other families have no such rule.
  const int default_ffn = family == Family::Gpt ? 4 * model.hidden : 0;
  block.mlp = read_mlp(root, default_ffn, family == Family::Moe, family == Family::Moe, defaults);
  const int block_index = static_cast<int>(model.kinds.size());
  model.kinds.push_back(std::move(block));
  const int count = root.required("layers").count(1, kMaxBlocks);
  return std::vector<int>(static_cast<std::size_t>(count), block_index);
}

void read_precision(const Reader& root, ModelSpec& model) {
  const std::string names[] = {"bf16", "fp16", "fp32"};
  const Reader precision = root.optional("precision");
  const int chosen = precision.exists() ? precision.one_of<int>({{"bf16", 0}, {"fp16", 1}, {"fp32", 2}}) : 0;
  model.precision = names[chosen];
  const bool is_fp32 = chosen == 2;
  model.activation_bytes = is_fp32 ? 4 : 2;
  // fp32 needs no second copy of the weights: Adam keeps its two moments only.
  model.state = is_fp32 ? StateBytes{4, 4, 8} : StateBytes{2, 4, 12};
  if (const Reader state = root.optional("state_bytes"); state.exists()) {
    model.state.parameter = state.optional("parameter").count_or(model.state.parameter, 1, 64);
    model.state.gradient = state.optional("gradient").count_or(model.state.gradient, 0, 64);
    model.state.optimizer = state.optional("optimizer").count_or(model.state.optimizer, 0, 64);
  }
}

void read_common(const Reader& root, Family family, ModelSpec& model) {
  const FamilyDefaults defaults = defaults_of(family);
  model.name = root.required("name").name();
  model.hidden = root.required("hidden").count(1, kMaxWidth);
  model.sequence = root.required("sequence").count(1, kMaxSequence);
  model.vocabulary = root.required("vocabulary").count(1, kMaxVocabulary);
  model.vocabulary_multiple = root.optional("vocabulary_multiple").count_or(128, 1, 1 << 16);
  model.learned_positions = root.optional("learned_positions").boolean_or(defaults.learned_positions);
  model.tied_embeddings = root.optional("tied_embeddings").boolean_or(defaults.tied_embeddings);
  model.sequence_parallel = root.optional("sequence_parallel").boolean_or(false);
  const Reader norm = root.optional("norm");
  model.norm =
      norm.exists()
          ? norm.one_of<NormKind>(
                {{"layer_norm", NormKind::LayerNorm}, {"rms_norm", NormKind::RmsNorm}, {"none", NormKind::None}})
          : defaults.norm;
  read_precision(root, model);
}

LayerKind end_kind(const char* name, LayerRole role) {
  LayerKind kind;
  kind.name = name;
  kind.role = role;
  return kind;
}

}  // namespace

ModelSpec parse_model(std::string text, std::string file) {
  const Document document = Document::parse(std::move(text), std::move(file));
  check_kind(document, FileKind::Model);
  const Reader root = document.root();
  name_variants(root);
  const std::pair<const char*, Family> families[] = {
      {"gpt", Family::Gpt}, {"llama", Family::Llama}, {"moe", Family::Moe}, {"custom", Family::Custom}};
  const Family family = root.required("family").one_of<Family>({families[0], families[1], families[2], families[3]});

  ModelSpec model;
  for (const auto& [name, value] : families) {
    if (value == family) model.family = name;
  }
  read_common(root, family, model);
  model.kinds.push_back(end_kind("embedding", LayerRole::Embedding));
  std::vector<int> blocks;
  if (family == Family::Custom) {
    const std::map<std::string, int> kinds = read_kinds(root, model);
    blocks = read_sequence(root.required("layers"), kinds);
  } else {
    blocks = read_uniform_blocks(root, family, model);
  }
  const int head = static_cast<int>(model.kinds.size());
  model.kinds.push_back(end_kind("head", LayerRole::Head));
  model.layers.push_back(0);
  model.layers.insert(model.layers.end(), blocks.begin(), blocks.end());
  model.layers.push_back(head);

  if (document.ok()) {
    for (const LayerKind& kind : model.kinds) {
      if (document.ok()) check_saved_bytes(root, model, kind);
    }
  }
  document.finish();
  model.digest = model_digest(model);
  return model;
}

}  // namespace hpplan
