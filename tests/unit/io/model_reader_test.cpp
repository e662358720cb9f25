#include "io/model_reader.hpp"

#include <functional>
#include <string>

#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "domain/operators.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace hpplan;

namespace {

const char* const kSmallGpt =
    "name: small\nfamily: gpt\nlayers: 4\nhidden: 64\nheads: 8\nsequence: 128\nvocabulary: 1000\n";

std::string error_of(const std::string& text) {
  try {
    (void)parse_model(text, "m.yaml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

const LayerKind& block_of(const ModelSpec& model) { return model.kind_of(1); }

}  // namespace

TEST_CASE("a GPT model: embedding, blocks, head, and the family's defaults", "[io][model]") {
  const ModelSpec model = parse_model(kSmallGpt, "m.yaml");
  REQUIRE(model.layer_count() == 6);
  CHECK(model.kind_of(0).role == LayerRole::Embedding);
  CHECK(model.kind_of(5).role == LayerRole::Head);
  CHECK(block_of(model).name == "block");
  const AttentionShape attention = *block_of(model).attention;
  CHECK(attention == AttentionShape{8, 8, 8, false, true, true, true});
  CHECK(block_of(model).mlp->ffn == 256);
  CHECK_FALSE(block_of(model).mlp->gated);
  CHECK(model.tied_embeddings);
  CHECK(model.learned_positions);
  CHECK(model.norm == NormKind::LayerNorm);
  CHECK(model.state == StateBytes{2, 4, 12});
  CHECK(model.activation_bytes == 2);
  CHECK(model.digest.size() == 16);
}

TEST_CASE("a LLaMA model has other defaults, and each field can be set", "[io][model]") {
  const std::string text =
      "name: l\nfamily: llama\nlayers: 2\nhidden: 64\nheads: 8\nkv_heads: 2\nhead_dim: 16\nffn: 100\nsequence: 128\n"
      "vocabulary: 1000\nqkv_bias: true\nfused_attention: true\nprecision: fp32\nsequence_parallel: true\n";
  const ModelSpec model = parse_model(text, "m.yaml");
  CHECK(*block_of(model).attention == AttentionShape{8, 2, 16, true, true, false, false});
  CHECK(*block_of(model).mlp == MlpShape{100, true, false, 0, 0, 0});
  CHECK(model.norm == NormKind::RmsNorm);
  CHECK_FALSE(model.tied_embeddings);
  CHECK(model.precision == "fp32");
  CHECK(model.activation_bytes == 4);
  CHECK(model.state == StateBytes{4, 4, 8});
  CHECK(model.sequence_parallel);
  CHECK(parse_model(text + "state_bytes: {parameter: 2, optimizer: 6}\n", "m").state == StateBytes{2, 4, 6});
}

TEST_CASE("a mixture of experts needs experts and top_k, and top_k is at most experts", "[io][model]") {
  const std::string text =
      "name: m\nfamily: moe\nlayers: 2\nhidden: 64\nheads: 8\nffn: 100\nsequence: 128\nvocabulary: 1000\n";
  CHECK(*block_of(parse_model(text + "experts: 8\ntop_k: 2\nshared_ffn: 32\n", "m")).mlp ==
        MlpShape{100, true, false, 8, 2, 32});
  CHECK(error_of(text) == "m.yaml:1:1: error: experts: missing key\nm.yaml:1:1: error: top_k: missing key");
  CHECK(error_of(text + "experts: 2\ntop_k: 3\n") ==
        "m.yaml:10:8: error: top_k: top_k 3 of 2 experts (m.yaml:9:10)\n  hint: a token visits at most all experts");
}

TEST_CASE("A22: the Mixtral shape has 46.7 billion parameters, of which a token uses 12.9", "[io][model]") {
  // A22, with norms: see the case for the sum.
  const ModelSpec model = parse_model(test::file_text(test::source_path("configs/models/moe-8x7b.yaml")), "m");
  CHECK(total_parameters(model) == 46'702'792'704.0);
}

TEST_CASE("a custom model lists unlike layers, with repeats", "[io][model]") {
  const std::string text =
      "name: c\nfamily: custom\nhidden: 64\nsequence: 128\nvocabulary: 1000\nkinds:\n"
      "  mamba: {stated: {parameters: 1e6, forward: 3 GFLOP, saved: 2 MB}}\n"
      "  both: {attention: {heads: 4}, mlp: {ffn: 128, experts: 4, top_k: 1}}\n"
      "layers: [mamba, {repeat: 2, layers: [both, {repeat: 2, layers: [mamba]}]}]\n";
  const ModelSpec model = parse_model(text, "m.yaml");
  std::string order;
  for (int layer = 0; layer < model.layer_count(); ++layer) order += model.kind_of(layer).name + " ";
  CHECK(order == "embedding mamba both mamba mamba both mamba mamba head ");
  CHECK(*model.kind_of(1).stated == StatedLayer{1e6, Flop{3e9}, Bytes{2'000'000}});
  CHECK(model.kind_of(2).attention->head_dim == 16);
  CHECK(model.kind_of(2).mlp->experts == 4);
}

TEST_CASE("faults of custom models", "[io][model]") {
  const std::string start = "name: c\nfamily: custom\nhidden: 64\nsequence: 128\nvocabulary: 1000\n";
  CHECK(error_of(start + "kinds: {a: {mlp: {ffn: 8}}}\nlayers: [mlp]\n") ==
        "m.yaml:7:10: error: layers[0]: no kind of layer is called \"mlp\"\n  hint: kinds: a");
  CHECK(error_of(start + "kinds: {a: {}}\nlayers: [a]\n") ==
        "m.yaml:6:12: error: kinds.a: a kind has attention, mlp or both, or a stated cost in place of its attention");
  CHECK(error_of(start + "kinds: {head: {mlp: {ffn: 8}}}\nlayers: [head]\n").find("not a name for a kind") !=
        std::string::npos);
  CHECK(error_of(start + "kinds: {a: {mlp: {ffn: 8}}}\nlayers: []\n").find("0 elements in the list") !=
        std::string::npos);
  CHECK(error_of(start + "kinds: {a: {mlp: {ffn: 8}}}\nlayers: [{repeat: 10000, layers: [a, a]}]\n")
            .find("more than 10000 blocks") != std::string::npos);
  CHECK(error_of(start + "kinds: {a: {mlp: {ffn: 8, top_k: 2}}}\nlayers: [a]\n").find("top_k without experts") !=
        std::string::npos);
}

TEST_CASE("heads: A11", "[io][model]") {
  const std::string start = "name: g\nfamily: gpt\nlayers: 4\nhidden: 4096\nsequence: 128\nvocabulary: 1000\n";
  CHECK(error_of(start + "heads: 32\nkv_heads: 5\n") ==
        "m.yaml:8:11: error: kv_heads: 32 heads (m.yaml:7:8) are not a multiple of 5 key/value groups\n"
        "  hint: each key/value group serves the same number of heads");
  CHECK(error_of(start + "heads: 32\nkv_heads: 0\n") ==
        "m.yaml:8:11: error: kv_heads: found the number 0, needed a whole number from 1 to 16384");
  CHECK(error_of(start + "heads: 28\n") ==
        "m.yaml:7:8: error: heads: hidden size 4096 (m.yaml:4:9) is not a multiple of 28 heads\n"
        "  hint: set head_dim if heads do not share the hidden size");
  CHECK(error_of(start + "heads: 28\nhead_dim: 128\n").empty());
}

TEST_CASE("A11: 28 heads allow TP 1, 2, 4 and 7", "[io][model]") {
  // A11 (a); a feed-forward width that 7 divides as well.
  const ModelSpec model =
      parse_model("name: g\nfamily: gpt\nlayers: 4\nhidden: 3584\nheads: 28\nsequence: 128\nvocabulary: 1000\n", "m");
  CHECK(allowed_tensor_parallel(model, 8) == std::vector<int>{1, 2, 4, 7});
  CHECK(tensor_parallel_fault(model, 8) == "28 heads are not a multiple of 8");
}

TEST_CASE("the vocabulary is padded to a multiple of the TP degree: A12", "[io][model]") {
  struct Case {
    int vocabulary, tensor_parallel, minimal, usual;
  };
  for (const Case& c : {Case{49954, 16, 49968, 51200}, Case{151552, 6, 151554, 152064}, Case{50257, 8, 50264, 51200},
                        Case{32000, 8, 32000, 32768}}) {
    CAPTURE(c.vocabulary);
    const std::string start = concat(
        "name: g\nfamily: gpt\nlayers: 4\nhidden: 64\nheads: 8\nsequence: 128\nvocabulary: ", c.vocabulary, "\n");
    CHECK(padded_vocabulary(parse_model(start + "vocabulary_multiple: 1\n", "m"), c.tensor_parallel) == c.minimal);
    CHECK(padded_vocabulary(parse_model(start, "m"), c.tensor_parallel) == c.usual);
  }
}

TEST_CASE("broken and misspelled models: A28", "[io][model]") {
  const std::string text = kSmallGpt;
  CHECK(error_of("") == "m.yaml:1:1: error: the file is empty");
  CHECK(error_of("# nothing\n") == "m.yaml:1:1: error: the file is empty");
  std::string misspelled = text;
  misspelled.replace(misspelled.find("layers"), 6, "num_layer");
  CHECK(error_of(misspelled) ==
        "m.yaml:1:1: error: layers: missing key\n"
        "m.yaml:3:1: error: num_layer: unknown key\n  hint: did you mean \"layers\"?");
  CHECK(error_of("name: a\n\tfamily: gpt\n") ==
        "m.yaml:2:1: error: a tab in the indentation\n  hint: indent with spaces");
  CHECK(error_of("- name: a\n") == "m.yaml:1:1: error: found a list, needed a map of keys and values");
  CHECK(error_of(text + "layers: 5\n") ==
        "m.yaml:8:1: error: layers: duplicate key, first given at line 3, column 1\n  hint: remove one of the two");
  const ModelSpec from_json = parse_model(
      R"({"heads": 8, "name": "small", "family": "gpt", "layers": 4, "hidden": 64, "sequence": 128, "vocabulary": 1000})",
      "m.yml");
  CHECK(from_json.digest == parse_model(text, "m.yaml").digest);
}

TEST_CASE("a model too large for 64 bits is refused", "[io][model]") {
  const std::string text =
      "name: g\nfamily: gpt\nlayers: 4\nhidden: 4096\nheads: 4096\nsequence: 1048576\nvocabulary: 1000\n";
  CHECK(error_of(text).find("would keep more than 4 TiB") != std::string::npos);
  CHECK(error_of(text + "fused_attention: true\n").empty());
}

TEST_CASE("the digest depends on every value and on no spelling", "[io][model]") {
  const std::string digest = parse_model(kSmallGpt, "m").digest;
  const std::string text = kSmallGpt;
  CHECK(parse_model("# remark\n" + text, "other").digest == digest);
  CHECK(parse_model(text + "ffn: 256\nprecision: bf16\n", "m").digest == digest);
  for (const char* const change :
       {"ffn: 257", "precision: fp16", "dropout: false", "bias: false", "qk_norm: true", "qkv_bias: false",
        "kv_heads: 4", "head_dim: 16", "fused_attention: true", "gated: true", "tied_embeddings: false",
        "learned_positions: false", "norm: rms_norm", "vocabulary_multiple: 1", "sequence_parallel: true",
        "state_bytes: {gradient: 2}"}) {
    CAPTURE(change);
    CHECK(parse_model(text + change + "\n", "m").digest != digest);
  }
}
