#include <random>

#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "domain/operators.hpp"
#include "emit/model_yaml.hpp"
#include "io/digest.hpp"
#include "io/import_model.hpp"
#include "io/model_reader.hpp"
#include "support/catch.hpp"

namespace hpplan {
namespace {

struct KnownModel {
  const char* name;
  const char* config;
  double parameters;
  double tolerance;  // relative; 0: exact
};

// Public hyper-parameters; the counts are those their authors state.
const KnownModel kModels[] = {
    {"gpt2", R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "n_ctx": 1024,
      "vocab_size": 50257, "n_inner": null, "activation_function": "gelu_new", "attn_pdrop": 0.1})",
     124439808.0, 0.0},
    {"llama-7b", R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 11008,
      "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000, "max_position_embeddings": 2048,
      "tie_word_embeddings": false, "torch_dtype": "float16"})",
     6738415616.0, 0.0},
    {"llama-3-8b", R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
      "tie_word_embeddings": false, "torch_dtype": "bfloat16", "rope_theta": 500000.0})",
     8030261248.0, 0.0},
    {"llama-3-70b", R"({"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
      "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
      "tie_word_embeddings": false, "dtype": "bfloat16"})",
     70553706496.0, 0.0},
    {"qwen2-7b", R"({"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
      "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "max_position_embeddings": 131072,
      "tie_word_embeddings": false})",
     7615616512.0, 0.0},
    {"qwen3-8b", R"({"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
      "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
      "max_position_embeddings": 40960, "tie_word_embeddings": false, "attention_bias": false})",
     8190735360.0, 0.0},
    {"mistral-7b",
     R"({"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 32768,
      "sliding_window": 4096, "tie_word_embeddings": false})",
     7241732096.0, 0.0},
    // Case A22: all experts count.
    {"mixtral-8x7b", R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8,
      "num_experts_per_tok": 2, "vocab_size": 32000, "max_position_embeddings": 32768, "tie_word_embeddings": false})",
     46702792704.0, 0.0},
    {"qwen3-30b-a3b", R"({"model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
      "moe_intermediate_size": 768, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
      "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [],
      "vocab_size": 151936, "max_position_embeddings": 40960, "tie_word_embeddings": false})",
     30532122624.0, 0.0},
    {"qwen1.5-moe-a2.7b", R"({"model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632,
      "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_hidden_layers": 24,
      "num_attention_heads": 16, "num_key_value_heads": 16, "num_experts": 60, "num_experts_per_tok": 4,
      "decoder_sparse_step": 1, "vocab_size": 151936, "max_position_embeddings": 8192, "tie_word_embeddings": false})",
     14315784192.0, 1e-5},
    {"deepseek-v3", R"({"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432,
      "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
      "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
      "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
      "moe_layer_freq": 1, "num_nextn_predict_layers": 1, "vocab_size": 129280, "max_position_embeddings": 163840,
      "tie_word_embeddings": false})",
     671026419200.0, 1e-6},
    {"deepseek-v2-lite", R"({"model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944,
      "moe_intermediate_size": 1408, "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16,
      "q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
      "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1,
      "moe_layer_freq": 1, "vocab_size": 102400, "max_position_embeddings": 163840, "tie_word_embeddings": false})",
     15706484224.0, 1e-6},
};

std::string refusal(const std::string& text, ModelImportOptions options = {}) {
  try {
    (void)import_model(text, "config.json", options);
  } catch (const InputError& error) {
    std::string shown;
    for (const Diagnostic& diagnostic : error.diagnostics()) shown += to_text(diagnostic) + "\n";
    return shown;
  }
  return "accepted";
}

TEST_CASE("imported models have the published numbers of parameters", "[import]") {
  for (const KnownModel& known : kModels) {
    CAPTURE(known.name);
    const ImportedModel imported = import_model(known.config, "config.json", {});
    const double parameters = total_parameters(imported.model);
    CHECK(parameters == Approx(known.parameters).epsilon(known.tolerance).margin(0.0));
  }
}

TEST_CASE("an imported model reads back from the file that import writes", "[import]") {
  for (const KnownModel& known : kModels) {
    CAPTURE(known.name);
    const ImportedModel imported = import_model(known.config, "config.json", {});
    const ModelSpec again = parse_model(model_yaml(imported.model, imported.notes), "model.yaml");
    CHECK(again.digest == model_digest(imported.model));
    CHECK(again.name == imported.model.name);
    CHECK(total_parameters(again) == total_parameters(imported.model));
  }
}

TEST_CASE("case A22: all experts count for memory, top_k for compute", "[import]") {
  const ModelSpec model = import_model(kModels[7].config, "config.json", {}).model;
  // Norms: 65 of 4096 parameters.
  CHECK(active_parameters(model) - 65.0 * 4096.0 == Approx(12879659008.0).epsilon(1e-12));
}

TEST_CASE("case A22: with EP 8 a rank holds an eighth of the experts and all of the rest", "[import]") {
  const ModelSpec model = import_model(kModels[7].config, "config.json", {}).model;
  // 32 layers x 8 experts x 3 matrices of 4096 x 14336; the rest without the 65 norms.
  const double experts = 32.0 * 8 * 3 * 4096 * 14336;
  CHECK(experts / 8 == 5637144576.0);
  CHECK(total_parameters(model) - experts - 65.0 * 4096.0 == 1605369856.0);
}

TEST_CASE("what a config does not say is a stated default or asked for by name", "[import]") {
  const ImportedModel imported = import_model(kModels[2].config, "config.json", {});
  CHECK(imported.model.sequence == 4096);
  CHECK(model_yaml(imported.model, imported.notes).find("# sequence: default, the smaller of 4096") !=
        std::string::npos);
  ModelImportOptions options;
  options.sequence = 8192;
  CHECK(import_model(kModels[2].config, "config.json", options).model.sequence == 8192);
  CHECK(refusal(R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2,
                    "num_attention_heads": 2, "vocab_size": 100})")
            .find("--sequence") != std::string::npos);
}

TEST_CASE("tied embeddings are read, and a default is said", "[import]") {
  const ImportedModel gpt2 = import_model(kModels[0].config, "config.json", {});
  CHECK(gpt2.model.tied_embeddings);
  CHECK(join(gpt2.notes, "\n").find("tied_embeddings: the config does not say") != std::string::npos);
}

TEST_CASE("a vision model's text part is read", "[import]") {
  const std::string nested = concat(R"({"model_type": "some_vlm", "text_config": )", kModels[2].config, "}");
  CHECK(total_parameters(import_model(nested, "config.json", {}).model) == 8030261248.0);
}

TEST_CASE("unknown model types and broken fields are refused at their place", "[import]") {
  CHECK(
      refusal(R"({"model_type": "mamba"})").find("config.json:1:16: error: model_type: unknown model type \"mamba\"") ==
      0);
  CHECK(refusal("{}").find("model_type") != std::string::npos);
  CHECK(refusal(R"({"model_type": "llama", "hidden_size": -4})").find("hidden_size") != std::string::npos);
  CHECK(refusal(R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2,
                    "num_attention_heads": 5, "vocab_size": 100, "max_position_embeddings": 128})")
            .find("not a multiple of 5 heads") != std::string::npos);
}

TEST_CASE("no broken config ends in anything but an answer or a diagnostic", "[import]") {
  std::mt19937 random(11);
  for (const KnownModel& known : kModels) {
    for (int round = 0; round < 40; ++round) {
      std::string text = known.config;
      for (int i = 0; i < 3; ++i) text[random() % text.size()] = static_cast<char>(' ' + random() % 95);
      try {
        (void)import_model(text, "config.json", {});
      } catch (const InputError&) {
      }
    }
  }
}

const char* const kMegatron =
    "#!/bin/bash\n"
    "HIDDEN=4096  # width\n"
    "GPT_MODEL_ARGS=(\n"
    "    --num-layers 32 \\\n"
    "    --hidden-size $HIDDEN\n"
    "    --ffn-hidden-size 14336 --num-attention-heads 32\n"
    "    --group-query-attention --num-query-groups 8\n"
    "    --seq-length 8192 --max-position-embeddings 8192\n"
    "    --swiglu --normalization RMSNorm --disable-bias-linear\n"
    "    --untie-embeddings-and-output-weights --position-embedding-type rope\n"
    "    --vocab-size=128256 --bf16\n"
    ")\n";

TEST_CASE("a Megatron launch script gives the same model as its config", "[import]") {
  const ModelSpec model = import_model(kMegatron, "train.sh", {}).model;
  CHECK(total_parameters(model) == 8030261248.0);
  CHECK(model.sequence == 8192);
  const ModelSpec again = parse_model(model_yaml(model, {}), "model.yaml");
  CHECK(again.digest == model_digest(model));
}

TEST_CASE("Megatron arguments that are missing or unreadable are named", "[import]") {
  CHECK(refusal("--num-layers 12\n").find("--hidden-size: missing") != std::string::npos);
  CHECK(refusal("--num-layers twelve --hidden-size 64").find("config.json:1:1: error: --num-layers: \"twelve\"") == 0);
  CHECK(refusal("--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 8").find("--vocabulary N") !=
        std::string::npos);
  CHECK(refusal("--num-layers $N --hidden-size 64").find("replace the variable") != std::string::npos);
  CHECK(refusal("").find("missing") != std::string::npos);
}

}  // namespace
}  // namespace hpplan
