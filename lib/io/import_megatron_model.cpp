#include <algorithm>

#include "base/text.hpp"
#include "io/detail/argument_list.hpp"
#include "io/detail/limits.hpp"
#include "io/detail/model_builder.hpp"
#include "io/detail/text_lines.hpp"
#include "io/import_model.hpp"

namespace hpplan {

using detail::Argument;
using detail::kMaxWidth;
using detail::quoted_text;
using detail::TextFaults;

namespace {

/// Options of a Megatron argument list by name; the last one given counts, as in Megatron.
class MegatronArguments {
 public:
  MegatronArguments(const std::string& text, const std::string& file)
      : arguments_(detail::read_argument_list(text)), faults_(file) {}

  [[nodiscard]] const Argument* find(const std::string& flag) const {
    const auto found =
        std::find_if(arguments_.rbegin(), arguments_.rend(), [&](const Argument& a) { return a.flag == flag; });
    return found == arguments_.rend() ? nullptr : &*found;
  }
  [[nodiscard]] bool has(const std::string& flag) const { return find(flag) != nullptr; }

  /// The number after `flag`, or `fallback` when it is not given.
  [[nodiscard]] int count(const std::string& flag, int fallback, int max = kMaxWidth) {
    const Argument* const argument = find(flag);
    if (argument == nullptr) return fallback;
    const std::string value = argument->values.empty() ? "" : argument->values.front();
    const std::optional<int> number = detail::whole_number(value);
    if (number && *number >= 1 && *number <= max) return *number;
    faults_.add(argument->line, argument->column, flag,
                concat(quoted_text(value), " is not a whole number from 1 to ", max),
                value.find('$') == 0 ? "replace the variable by its value" : "");
    return fallback;
  }
  [[nodiscard]] int required(const std::string& flag, const std::string& hint, int max = kMaxWidth) {
    if (!has(flag)) faults_.add(0, 0, flag, "missing", hint);
    return count(flag, 1, max);
  }
  [[nodiscard]] std::string word(const std::string& flag, const std::string& fallback) const {
    const Argument* const argument = find(flag);
    return argument == nullptr || argument->values.empty() ? fallback : argument->values.front();
  }
  void refuse(const std::string& flag, const std::string& message, const std::string& hint) {
    const Argument* const argument = find(flag);
    faults_.add(argument == nullptr ? 0 : argument->line, argument == nullptr ? 0 : argument->column, flag, message,
                hint);
  }
  [[nodiscard]] TextFaults& faults() { return faults_; }

 private:
  std::vector<Argument> arguments_;
  TextFaults faults_;
};

AttentionShape attention_of(MegatronArguments& arguments, const ModelSpec& model, const ModelImportOptions& options) {
  AttentionShape shape;
  shape.heads = arguments.required("--num-attention-heads", "give the whole argument list", 1 << 14);
  shape.kv_heads = shape.heads;
  if (arguments.has("--group-query-attention")) shape.kv_heads = arguments.count("--num-query-groups", 1, 1 << 14);
  shape.head_dim = arguments.count("--kv-channels", std::max(1, model.hidden / shape.heads));
  const bool bias = !arguments.has("--disable-bias-linear");
  shape.qkv_bias = bias || arguments.has("--add-qkv-bias");
  shape.output_bias = bias;
  shape.qk_norm = arguments.has("--qk-layernorm");
  shape.fused = !options.unfused_attention;
  shape.dropout =
      arguments.word("--attention-dropout", "0.1") != "0" && arguments.word("--attention-dropout", "0.1") != "0.0";
  if (shape.heads % shape.kv_heads != 0) {
    arguments.refuse("--num-query-groups",
                     concat(shape.heads, " heads are not a multiple of ", shape.kv_heads, " groups"), "");
  }
  if (!arguments.has("--kv-channels") && model.hidden % shape.heads != 0) {
    arguments.refuse("--num-attention-heads",
                     concat("hidden size ", model.hidden, " is not a multiple of ", shape.heads), "add --kv-channels");
  }
  return shape;
}

MlpShape mlp_of(MegatronArguments& arguments, ImportedModel& result) {
  MlpShape shape;
  shape.gated = arguments.has("--swiglu");
  shape.bias = !arguments.has("--disable-bias-linear");
  int fallback = 4 * result.model.hidden;
  if (shape.gated) fallback = std::max(64, fallback * 2 / 3 / 64 * 64);
  shape.ffn = arguments.count("--ffn-hidden-size", fallback);
  if (!arguments.has("--ffn-hidden-size")) result.notes.push_back(concat("ffn: Megatron's default, ", shape.ffn));
  if (!arguments.has("--num-experts")) return shape;
  shape.experts = arguments.count("--num-experts", 1, 1 << 14);
  shape.top_k = arguments.count("--moe-router-topk", 2, 1 << 14);
  shape.ffn = arguments.count("--moe-ffn-hidden-size", shape.ffn);
  shape.shared_ffn = arguments.count("--moe-shared-expert-intermediate-size", 0);
  if (shape.top_k > shape.experts) {
    arguments.refuse("--moe-router-topk", concat("top_k ", shape.top_k, " of ", shape.experts, " experts"), "");
  }
  return shape;
}

int vocabulary_of(MegatronArguments& arguments, const ModelImportOptions& options) {
  if (options.vocabulary > 0) return options.vocabulary;
  const char* const flag = arguments.has("--vocab-size") ? "--vocab-size" : "--padded-vocab-size";
  // Usually the tokenizer knows, which is not part of the arguments.
  return arguments.required(flag, "add --vocabulary N, the size of the tokenizer's vocabulary", 1 << 26);
}

void check_supported(MegatronArguments& arguments) {
  const auto refuse = [&](const char* flag, const char* hint) {
    if (arguments.has(flag)) arguments.refuse(flag, "not modelled", hint);
  };
  refuse("--multi-latent-attention", "import the Hugging Face config of the model instead");
  refuse("--heterogeneous-layers-config-path", "write a model file with family: custom");
  refuse("--hybrid-layer-pattern", "write a model file with family: custom");
  if (arguments.word("--moe-layer-freq", "1") != "1") {
    arguments.refuse("--moe-layer-freq", "layers with and without experts", "write a model file with family: custom");
  }
}

}  // namespace

ImportedModel import_megatron_model(const std::string& text, const std::string& file,
                                    const ModelImportOptions& options) {
  MegatronArguments arguments(text, file);
  ImportedModel result;
  ModelSpec& model = result.model;
  model.name = options.name.empty() ? "megatron" : options.name;
  model.hidden = arguments.required("--hidden-size", "give the whole argument list");
  const int layers = arguments.required("--num-layers", "give the whole argument list", 10'000);
  model.sequence =
      options.sequence > 0 ? options.sequence : arguments.required("--seq-length", "add --sequence N", 1 << 24);
  model.vocabulary = vocabulary_of(arguments, options);
  model.vocabulary_multiple = arguments.count("--make-vocab-size-divisible-by", 128, 1 << 16);
  model.norm = arguments.word("--normalization", "LayerNorm") == "RMSNorm" ? NormKind::RmsNorm : NormKind::LayerNorm;
  model.learned_positions = arguments.word("--position-embedding-type", "learned_absolute") == "learned_absolute" &&
                            !arguments.has("--use-rotary-position-embeddings");
  model.tied_embeddings = !arguments.has("--untie-embeddings-and-output-weights");
  model.sequence_parallel = arguments.has("--sequence-parallel");
  detail::set_precision(model, arguments.has("--bf16") ? "bf16" : arguments.has("--fp16") ? "fp16" : "fp32");
  check_supported(arguments);

  LayerKind block;
  block.name = "block";
  block.attention = attention_of(arguments, model, options);
  block.mlp = mlp_of(arguments, result);
  model.family = block.mlp->experts > 0 ? "moe" : block.mlp->gated ? "llama" : "gpt";
  detail::set_layers(model, {block}, std::vector<int>(static_cast<std::size_t>(layers), 0));
  arguments.faults().finish();
  result.notes.emplace_back(options.unfused_attention
                                ? "attention: stored scores (--unfused-attention)"
                                : "fused_attention: default true; --unfused-attention for stored scores");
  return result;
}

}  // namespace hpplan
