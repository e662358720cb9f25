#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "base/text.hpp"
#include "io/detail/limits.hpp"
#include "io/detail/model_builder.hpp"
#include "io/document.hpp"
#include "io/import_model.hpp"

namespace hpplan {

using detail::kMaxBlocks;
using detail::kMaxWidth;
using detail::LatentAttention;

namespace {

enum class HfType { Gpt2, Llama, Mistral, Qwen2, Qwen3, Mixtral, Qwen2Moe, Qwen3Moe, DeepSeekV2, DeepSeekV3 };

struct HfTypeName {
  const char* model_type;
  const char* architecture;  // what `architectures` starts with
  HfType type;
};

constexpr std::array<HfTypeName, 10> kTypes{{{"gpt2", "GPT2", HfType::Gpt2},
                                             {"llama", "Llama", HfType::Llama},
                                             {"mistral", "Mistral", HfType::Mistral},
                                             {"qwen2", "Qwen2For", HfType::Qwen2},
                                             {"qwen3", "Qwen3For", HfType::Qwen3},
                                             {"mixtral", "Mixtral", HfType::Mixtral},
                                             {"qwen2_moe", "Qwen2Moe", HfType::Qwen2Moe},
                                             {"qwen3_moe", "Qwen3Moe", HfType::Qwen3Moe},
                                             {"deepseek_v2", "DeepseekV2", HfType::DeepSeekV2},
                                             {"deepseek_v3", "DeepseekV3", HfType::DeepSeekV3}}};

/// A config with everything read from it so far.
struct HfConfig {
  Reader map;
  HfType type = HfType::Llama;
  const ModelImportOptions& options;
  ImportedModel result;

  /// The value of `key`; absent also when the file says null.
  [[nodiscard]] Reader given(const char* key) const {
    const Reader value = map.optional(key);
    return value.kind() == ValueKind::Null ? map.optional(std::string("(no ") + key + ")") : value;
  }
  [[nodiscard]] int required(const char* key, int max = kMaxWidth) const { return map.required(key).count(1, max); }
  void note(std::string_view text) { result.notes.emplace_back(text); }
};

std::string known_types() {
  std::vector<std::string> names;
  for (const HfTypeName& known : kTypes) names.emplace_back(known.model_type);
  return join(names, ", ");
}

HfType read_type(const Reader& map) {
  const Reader stated = map.optional("model_type");
  const Reader architectures = map.optional("architectures");
  const std::string name = stated.kind() == ValueKind::Text ? stated.text() : "";
  for (const HfTypeName& known : kTypes) {
    if (name == known.model_type) return known.type;
  }
  if (name.empty() && architectures.kind() == ValueKind::List) {
    for (const Reader& item : architectures.items()) {
      const std::string architecture = item.text();
      for (const HfTypeName& known : kTypes) {
        if (architecture.compare(0, std::string(known.architecture).size(), known.architecture) == 0) return known.type;
      }
    }
  }
  (stated.exists() ? stated : map.required("model_type"))
      .fault(name.empty() ? "no known model type" : concat("unknown model type \"", name.substr(0, 60), "\""),
             concat("known: ", known_types(), "; other models: write a model file with family: custom"));
  return HfType::Llama;
}

bool is_deepseek(HfType type) { return type == HfType::DeepSeekV2 || type == HfType::DeepSeekV3; }

/// Longer than any sequence trained on in one piece by default; configs state what a model can read, not what it is
/// trained with.
constexpr int kDefaultSequence = 4096;

void read_sequence(HfConfig& config) {
  ModelSpec& model = config.result.model;
  const bool learned = config.type == HfType::Gpt2;
  const Reader limit =
      learned ? (config.given("n_positions").exists() ? config.given("n_positions") : config.given("n_ctx"))
              : config.given("max_position_embeddings");
  const int longest = limit.count_or(0, 1, 1 << 24);
  model.sequence = config.options.sequence;
  if (model.sequence > 0) return;
  if (longest == 0) {
    config.map.required(learned ? "n_positions" : "max_position_embeddings")
        .fault("the file does not say how long a sequence is", "add --sequence N");
    return;
  }
  model.sequence = learned ? longest : std::min(longest, kDefaultSequence);
  config.note(
      concat("sequence: ",
             learned ? "all positions of the config" : "default, the smaller of 4096 and max_position_embeddings ",
             learned ? "" : concat(longest), "; change with --sequence"));
}

void read_precision(HfConfig& config) {
  const Reader old_name = config.given("torch_dtype");
  const Reader dtype = old_name.exists() ? old_name : config.given("dtype");
  const std::string name = dtype.kind() == ValueKind::Text ? dtype.text() : "";
  detail::set_precision(config.result.model, name == "float16" ? "fp16" : "bf16");
  if (name != "float16" && name != "bfloat16") {
    config.note(concat("precision: default bf16", name.empty() ? "" : concat("; the weights are stored as ", name)));
  }
}

void read_tied(HfConfig& config) {
  const Reader tied = config.given("tie_word_embeddings");
  const bool fallback = config.type == HfType::Gpt2;
  config.result.model.tied_embeddings = tied.boolean_or(fallback);
  if (!tied.exists()) {
    config.note(
        concat("tied_embeddings: the config does not say; default of the model type is ", fallback ? "true" : "false"));
  }
}

AttentionShape read_attention(HfConfig& config) {
  const ModelSpec& model = config.result.model;
  AttentionShape shape;
  const Reader heads = config.map.required("num_attention_heads");
  const Reader groups = config.given("num_key_value_heads");
  shape.heads = heads.count(1, 1 << 14);
  shape.kv_heads = groups.count_or(shape.heads, 1, 1 << 14);
  const Reader head_dim = config.given("head_dim");
  const bool is_qwen3 = config.type == HfType::Qwen3 || config.type == HfType::Qwen3Moe;
  shape.head_dim = head_dim.count_or(is_qwen3 ? 128 : 0, 1, kMaxWidth);
  if (!head_dim.exists() && is_qwen3) config.note("head_dim: default of Qwen3, 128");
  const bool bias = config.given("attention_bias").boolean_or(false);
  // Qwen2 has biases of Q, K and V without a field that says so.
  shape.qkv_bias = bias || config.type == HfType::Qwen2 || config.type == HfType::Qwen2Moe;
  shape.output_bias = bias;
  shape.qk_norm = is_qwen3;
  shape.fused = !config.options.unfused_attention;
  if (!config.map.document_ok()) return shape;
  if (shape.heads % shape.kv_heads != 0) {
    groups.fault(concat(shape.heads, " heads are not a multiple of ", shape.kv_heads, " key/value groups"), "");
  }
  if (shape.head_dim == 0) {
    if (model.hidden % shape.heads != 0) {
      heads.fault(concat("hidden_size ", model.hidden, " is not a multiple of ", shape.heads, " heads"),
                  "add head_dim");
    }
    shape.head_dim = model.hidden / shape.heads;
  }
  return shape;
}

LatentAttention read_latent(HfConfig& config) {
  LatentAttention shape;
  shape.heads = config.required("num_attention_heads", 1 << 14);
  shape.query_rank = config.given("q_lora_rank").count_or(0, 1, kMaxWidth);
  shape.key_value_rank = config.required("kv_lora_rank");
  shape.plain_dim = config.required("qk_nope_head_dim");
  shape.rotary_dim = config.required("qk_rope_head_dim");
  shape.value_dim = config.required("v_head_dim");
  return shape;
}

/// Feed-forward part of layers without experts.
MlpShape read_dense(HfConfig& config) {
  MlpShape shape;
  shape.ffn = config.required("intermediate_size");
  shape.gated = true;
  shape.bias = config.given("mlp_bias").boolean_or(false);
  return shape;
}

MlpShape read_experts(HfConfig& config) {
  MlpShape shape;
  shape.gated = true;
  const bool mixtral = config.type == HfType::Mixtral;
  const char* const experts = mixtral                    ? "num_local_experts"
                              : is_deepseek(config.type) ? "n_routed_experts"
                                                         : "num_experts";
  shape.experts = config.required(experts, 1 << 14);
  const Reader top_k = config.map.required("num_experts_per_tok");
  shape.top_k = top_k.count(1, 1 << 14);
  shape.ffn = config.required(mixtral ? "intermediate_size" : "moe_intermediate_size");
  if (config.type == HfType::Qwen2Moe) {
    shape.shared_ffn = config.required("shared_expert_intermediate_size");
    config.note("the gate of the shared expert (hidden parameters per layer) is not counted");
  }
  if (is_deepseek(config.type)) {
    shape.shared_ffn = shape.ffn * config.given("n_shared_experts").count_or(0, 0, 1 << 10);
  }
  if (config.map.document_ok() && shape.top_k > shape.experts) {
    top_k.fault(concat("top_k ", shape.top_k, " of ", shape.experts, " experts"), "a token visits at most all experts");
  }
  return shape;
}

/// For each layer whether it has experts.
std::vector<bool> expert_layers(HfConfig& config, int layers) {
  std::vector<bool> experts(static_cast<std::size_t>(layers), true);
  if (is_deepseek(config.type)) {
    const int dense = config.given("first_k_dense_replace").count_or(0, 0, kMaxBlocks);
    const int every = config.given("moe_layer_freq").count_or(1, 1, kMaxBlocks);
    for (int i = 0; i < layers; ++i) experts[static_cast<std::size_t>(i)] = i >= dense && i % every == 0;
  } else if (config.type != HfType::Mixtral) {
    const int every = config.given("decoder_sparse_step").count_or(1, 1, kMaxBlocks);
    for (int i = 0; i < layers; ++i) experts[static_cast<std::size_t>(i)] = (i + 1) % every == 0;
    const Reader dense = config.given("mlp_only_layers");
    if (dense.exists()) {
      for (const Reader& item : dense.items()) {
        const int layer = item.count(0, kMaxBlocks);
        if (layer < layers) experts[static_cast<std::size_t>(layer)] = false;
      }
    }
  }
  return experts;
}

void read_gpt2(HfConfig& config) {
  ModelSpec& model = config.result.model;
  model.family = "gpt";
  model.norm = NormKind::LayerNorm;
  model.learned_positions = true;
  model.hidden = config.required("n_embd");
  const Reader heads = config.map.required("n_head");
  LayerKind block;
  block.name = "block";
  block.attention = AttentionShape{heads.count(1, 1 << 14), 0, 0, !config.options.unfused_attention, true, true, true};
  block.mlp = MlpShape{config.given("n_inner").count_or(4 * model.hidden, 1, kMaxWidth), false, true};
  const int layers = config.required("n_layer", kMaxBlocks);
  if (!config.map.document_ok()) return;
  AttentionShape& attention = *block.attention;
  attention.kv_heads = attention.heads;
  attention.head_dim = model.hidden / attention.heads;
  if (model.hidden % attention.heads != 0) {
    heads.fault(concat("n_embd ", model.hidden, " is not a multiple of ", attention.heads, " heads"), "");
  }
  const double dropped =
      config.given("attn_pdrop").number_or(0.1, 0.0, 1.0) + config.given("resid_pdrop").number_or(0.1, 0.0, 1.0);
  attention.dropout = dropped > 0.0;
  detail::set_layers(model, {block}, std::vector<int>(static_cast<std::size_t>(layers), 0));
}

void read_rotary(HfConfig& config) {
  ModelSpec& model = config.result.model;
  model.norm = NormKind::RmsNorm;
  model.hidden = config.required("hidden_size");
  const int layers = config.required("num_hidden_layers", kMaxBlocks);
  const bool has_experts = config.type != HfType::Llama && config.type != HfType::Mistral &&
                           config.type != HfType::Qwen2 && config.type != HfType::Qwen3;
  LayerKind dense;
  dense.name = "dense";
  if (is_deepseek(config.type)) {
    const LatentAttention latent = read_latent(config);
    if (config.map.document_ok()) {
      dense.stated = detail::stated_attention(latent, model.hidden, model.sequence, model.activation_bytes);
    }
    config.note("attention with compressed keys and values is a stated cost, with its exact number of parameters");
  } else {
    dense.attention = read_attention(config);
  }
  LayerKind sparse = dense;
  sparse.name = "moe";
  std::vector<bool> with_experts(static_cast<std::size_t>(layers), false);
  if (has_experts) {
    with_experts = expert_layers(config, layers);
    sparse.mlp = read_experts(config);
  }
  const bool any_dense = std::find(with_experts.begin(), with_experts.end(), false) != with_experts.end();
  if (any_dense) dense.mlp = read_dense(config);
  const bool any_sparse = std::find(with_experts.begin(), with_experts.end(), true) != with_experts.end();
  std::vector<LayerKind> kinds;
  if (any_dense) kinds.push_back(dense);
  if (any_sparse) kinds.push_back(sparse);
  std::vector<int> blocks;
  for (const bool experts : with_experts) blocks.push_back(experts && any_dense ? 1 : 0);
  model.family = kinds.size() > 1 || dense.stated ? "custom" : any_sparse ? "moe" : "llama";
  if (kinds.size() == 1) kinds.front().name = "block";
  detail::set_layers(model, std::move(kinds), blocks);
  if (const Reader extra = config.given("num_nextn_predict_layers"); extra.exists() && extra.count(0, 100) > 0) {
    config.note("layers that predict further tokens (num_nextn_predict_layers) are left out");
  }
  if (config.given("sliding_window").exists())
    config.note("sliding windows of attention are not modelled: full attention");
}

/// A name that our reader takes, from the path or repository the config names.
std::string default_name(const HfConfig& config) {
  const Reader path = config.map.optional("_name_or_path");
  std::string name = path.kind() == ValueKind::Text ? path.text() : "";
  while (!name.empty() && name.back() == '/') name.pop_back();
  name = name.substr(name.find_last_of('/') + 1);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  });
  if (!name.empty() && plain && name.size() <= 100) return name;
  for (const HfTypeName& known : kTypes) {
    if (known.type == config.type) return known.model_type;
  }
  return "model";
}

Reader text_part(const Reader& root) {
  for (const char* key : {"text_config", "llm_config"}) {
    const Reader nested = root.optional(key);
    if (nested.kind() == ValueKind::Map) return nested;
  }
  return root;
}

}  // namespace

ImportedModel import_hugging_face(const std::string& text, const std::string& file, const ModelImportOptions& options) {
  const Document document = Document::parse(text, file);
  document.root().allow_other_keys();
  HfConfig config{text_part(document.root()), HfType::Llama, options, {}};
  config.map.allow_other_keys();
  config.type = read_type(config.map);
  if (!document.ok()) document.finish();
  ModelSpec& model = config.result.model;
  read_precision(config);
  read_sequence(config);
  read_tied(config);
  model.vocabulary = options.vocabulary > 0 ? options.vocabulary : config.required("vocab_size", 1 << 26);
  if (config.type == HfType::Gpt2) {
    read_gpt2(config);
  } else {
    read_rotary(config);
  }
  model.name = options.name.empty() ? default_name(config) : options.name;
  document.finish();
  config.note(options.unfused_attention ? "attention: stored scores (--unfused-attention)"
                                        : "fused_attention: default true; --unfused-attention for stored scores");
  return std::move(config.result);
}

}  // namespace hpplan
