#include "domain/operators.hpp"

#include <algorithm>

#include "support/catch.hpp"
#include "support/models.hpp"

using namespace hpplan;
using namespace hpplan::literals;
using namespace hpplan::testing;

namespace {

Bytes saved(const ModelSpec& model, int tensor_parallel, int samples, std::size_t kind = 1) {
  Bytes total;
  for (const OperatorCost& cost : layer_operators(model, model.kinds[kind], tensor_parallel, samples))
    total += cost.saved;
  return total;
}

Flop forward(const ModelSpec& model, int tensor_parallel, int samples, std::size_t kind = 1) {
  Flop total;
  for (const OperatorCost& cost : layer_operators(model, model.kinds[kind], tensor_parallel, samples)) {
    total += cost.forward;
  }
  return total;
}

ModelSpec mixtral() {
  ModelSpec model = llama_model(32, 4096, 32, 8, 14336, 32000);
  model.kinds[1].mlp->experts = 8;
  model.kinds[1].mlp->top_k = 2;
  return model;
}

}  // namespace

TEST_CASE("a GPT block has 12 h^2 + 13 h parameters", "[operators]") {
  const double h = 1024;
  const ModelSpec model = gpt_model(1, 1024, 16);
  CHECK(device_parameters(model, model.kinds[1], 1) == 12 * h * h + 13 * h);
}

TEST_CASE("TP divides matrices and column biases, and copies norms and row biases", "[operators]") {
  // 12 h^2 / 4 + (qkv bias 3h + up bias 4h) / 4 + two norms 4h + output bias h + down bias h
  const double h = 1024;
  const ModelSpec model = gpt_model(1, 1024, 16);
  CHECK(device_parameters(model, model.kinds[1], 4) == 3 * h * h + 7 * h / 4 + 6 * h);
}

TEST_CASE("a tied matrix counts once in the model and once on each end", "[operators]") {
  ModelSpec model = gpt_model(12, 2048, 16, 2048, 131072);
  model.learned_positions = false;
  model.norm = NormKind::None;
  model.kinds[1].attention->qkv_bias = model.kinds[1].attention->output_bias = false;
  model.kinds[1].mlp->bias = false;
  CHECK(device_parameters(model, model.kinds[1], 1) == 50'331'648.0);
  CHECK(device_parameters(model, model.kinds[0], 1) == 268'435'456.0);
  CHECK(device_parameters(model, model.kinds[2], 1) == 268'435'456.0);
  CHECK(total_parameters(model) == 872'415'232.0);
  model.tied_embeddings = false;
  CHECK(total_parameters(model) == 1'140'850'688.0);
}

TEST_CASE("A22: a mixture of experts counts all experts for memory and top-k for use", "[operators]") {
  ModelSpec model = mixtral();
  CHECK(total_parameters(model) == 46'702'792'704.0);
  model.norm = NormKind::None;
  CHECK(total_parameters(model) == 46'702'526'464.0);
  CHECK(active_parameters(model) == 12'879'659'008.0);
}

TEST_CASE("a block keeps sbh (34 + 5 as/h) bytes", "[operators]") {
  // s b h = 2048 * 4096 = 8 MiB; 34 * 8 = 272 MiB; a s^2 b = 32 * 2048^2 = 128 MiB, times 5
  const ModelSpec model = gpt_model(1, 4096, 32);
  CHECK(saved(model, 1, 1) == 912_MiB);
  CHECK(saved(model, 1, 3) == 912_MiB * 3);
}

TEST_CASE("TP divides 24 of the 34 bytes, with sequence parallelism all of them", "[operators]") {
  // sbh (10 + 24/8) + 5 a s^2 b / 8 = 8 * 13 + 80 MiB
  ModelSpec model = gpt_model(1, 4096, 32);
  CHECK(saved(model, 8, 1) == 184_MiB);
  model.sequence_parallel = true;
  CHECK(saved(model, 8, 1) == 114_MiB);
}

TEST_CASE("fused attention keeps no s x s tensor", "[operators]") {
  ModelSpec model = gpt_model(1, 4096, 32);
  model.kinds[1].attention->fused = true;
  CHECK(saved(model, 1, 1) == 272_MiB);
}

TEST_CASE("a block's forward is 24 s b h^2 (1 + s / 6h) operations", "[operators]") {
  const ModelSpec model = gpt_model(1, 4096, 32);
  const double s = 2048;
  const double h = 4096;
  const double expected = 24 * s * h * h * (1 + s / (6 * h));
  CHECK(forward(model, 1, 1).value() == Approx(expected));
  CHECK(forward(model, 4, 2).value() == Approx(expected / 2));
}

TEST_CASE("grouped queries and a gated feed-forward follow their shapes", "[operators]") {
  // per token: qkv 2h(h + 2gd) = 2*4096*(4096+2048), output 2h^2, attention 4sh, three matrices 6hf
  const ModelSpec model = llama_model(1, 4096, 32, 8, 14336, 32000);
  const double h = 4096;
  const double per_token = 2 * h * 6144 + 2 * h * h + 4 * 2048 * h + 6 * h * 14336;
  CHECK(forward(model, 1, 1).value() == Approx(2048 * per_token));
  // bytes per token: norm 2h, qkv input 2h and Q,K,V 2*6144, context 2h, norm 2h, up input 2h, gate, up, product 6f
  CHECK(saved(model, 1, 1).count() == 2048LL * (10 * 4096 + 2 * 6144 + 6 * 14336));
}

TEST_CASE("experts see top-k copies of every token", "[operators]") {
  const ModelSpec model = mixtral();
  const double h = 4096;
  // router 2hE, experts 2 * 6hf
  const double per_token = 2 * h * 6144 + 2 * h * h + 4 * 2048 * h + 2 * h * 8 + 2 * 6 * h * 14336;
  CHECK(forward(model, 1, 1).value() == Approx(2048 * per_token));
  // attention 2h + 2h + 2*6144 + 2h; norm 2h; router input 2h and 8 bytes per expert; two copies of: input 2h,
  // gate, up, product 6f, output 2h
  CHECK(saved(model, 1, 1).count() == 2048LL * (10 * 4096 + 2 * 6144 + 8 * 8 + 2 * (4 * 4096 + 6 * 14336)));
}

TEST_CASE("every layer's TP traffic is two all-reduces of 2sbh each way", "[operators]") {
  const ModelSpec model = gpt_model(1, 4096, 32);
  Bytes forward_bytes;
  Bytes backward_bytes;
  for (const OperatorCost& cost : layer_operators(model, model.kinds[1], 2, 1)) {
    forward_bytes += cost.all_reduce_forward;
    backward_bytes += cost.all_reduce_backward;
  }
  CHECK(forward_bytes == 32_MiB);
  CHECK(backward_bytes == 32_MiB);
  for (const OperatorCost& cost : layer_operators(model, model.kinds[1], 1, 1)) {
    CHECK(cost.all_reduce_forward == 0_B);
    CHECK(cost.all_reduce_backward == 0_B);
  }
}

TEST_CASE("score and context have no weights", "[operators]") {
  const ModelSpec model = gpt_model(1, 1024, 16);
  for (const OperatorCost& cost : layer_operators(model, model.kinds[1], 1, 1)) {
    if (cost.name == "score" || cost.name == "context") CHECK_FALSE(cost.weighted);
    if (cost.name == "qkv" || cost.name == "mlp_up") CHECK(cost.weighted);
  }
}

TEST_CASE("the head's workspace is 2 + 4 bytes per logit", "[operators]") {
  // 6 * 2048 * 51200 / 8
  CHECK(head_workspace(gpt_model(1, 1024, 16), 8, 1).count() == 6LL * 2048 * 51200 / 8);
}

TEST_CASE("model operations follow 72 BLsh^2 (1 + s/6h + V/12Lh)", "[operators]") {
  // GPT-3 175B: 96 layers, h 12288, s 2048, V 51200: 72 * 96 * 2048 * 12288^2 * (1 + 2048/73728 + 51200/14155776)
  const double expected =
      72.0 * 96 * 2048 * 12288.0 * 12288.0 * (1 + 2048.0 / (6 * 12288) + 51200.0 / (12.0 * 96 * 12288));
  CHECK(model_flop_per_sample(gpt_model(96, 12288, 96)).value() == Approx(expected));
}

TEST_CASE("a stated layer splits its figures over the TP group", "[operators]") {
  ModelSpec model = gpt_model(1, 1024, 16);
  LayerKind& kind = model.kinds[1];
  kind.attention.reset();
  kind.mlp.reset();
  kind.stated = StatedLayer{8e6, Flop{4e9}, 64_MiB};
  CHECK(device_parameters(model, kind, 4) == 2e6);
  CHECK(forward(model, 4, 2).value() == 2e9);
  CHECK(saved(model, 4, 2) == 32_MiB);
}
