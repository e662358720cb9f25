#include "profile/device_model.hpp"
#include "profile/profile_table.hpp"
#include "support/catch.hpp"
#include "support/models.hpp"

using namespace hpplan;
using namespace hpplan::literals;
using namespace hpplan::testing;

namespace {

using Names = std::vector<std::string>;

LayerCost modelled(const ModelSpec& model, int tensor_parallel = 1, int samples = 1, std::size_t kind = 1) {
  return ProfileTable{}.layer_cost(model, model.kinds[kind], a100(), fast_link(), tensor_parallel, samples);
}

const RecomputeChoice* choice(const LayerCost& cost, const Names& operators) {
  for (const RecomputeChoice& candidate : cost.recompute) {
    if (candidate.operators == operators) return &candidate;
  }
  return nullptr;
}

const Names kCore = {"score", "softmax", "dropout"};

}  // namespace

TEST_CASE("A24: recomputation changes what is kept: 912, 272 and 16 MiB", "[recompute]") {
  const LayerCost cost = modelled(gpt_model(1, 4096, 32));
  CHECK(cost.saved == 912_MiB);
  CHECK(cost.recompute.front().operators.empty());
  CHECK(cost.recompute.front().freed == 0_B);
  REQUIRE(choice(cost, kCore) != nullptr);
  CHECK(cost.saved - choice(cost, kCore)->freed == 272_MiB);
  CHECK(choice(cost, kCore)->live == 640_MiB);
  CHECK(cost.saved - cost.recompute.back().freed == 16_MiB);
  CHECK(cost.recompute.back().live == cost.saved);
}

TEST_CASE("A24: with fused attention selective recomputation has nothing left to save", "[recompute]") {
  ModelSpec model = gpt_model(1, 4096, 32);
  model.kinds[1].attention->fused = true;
  const LayerCost cost = modelled(model);
  CHECK(cost.saved == 272_MiB);
  for (const RecomputeChoice& each : cost.recompute) {
    for (const std::string& name : each.operators) CHECK((name != "score" && name != "softmax" && name != "dropout"));
  }
}

TEST_CASE("A25: full recomputation of 32 layers peaks at 784 MiB and costs one more forward", "[recompute]") {
  // s b h = 8 MiB, fused: 32 stored inputs of 2 units and one working set of 34: 98 * 8 MiB
  ModelSpec model = gpt_model(32, 4096, 32);
  model.kinds[1].attention->fused = true;
  const LayerCost cost = modelled(model);
  const RecomputeChoice& full = cost.recompute.back();
  CHECK((cost.saved - full.freed) * 32 + full.live == 784_MiB);
  CHECK(full.extra == cost.forward);
}

TEST_CASE("freed bytes of each set follow its operators", "[recompute]") {
  // s b h = 8 MiB; a s^2 b = 128 MiB: dropout 3 of 5; qkv 6 sbh = 48 MiB; mlp 16 sbh = 128 MiB
  const LayerCost cost = modelled(gpt_model(1, 4096, 32));
  REQUIRE(choice(cost, {"dropout"}) != nullptr);
  CHECK(choice(cost, {"dropout"})->freed == 384_MiB);
  REQUIRE(choice(cost, {"qkv", "score", "softmax", "dropout"}) != nullptr);
  CHECK(choice(cost, {"qkv", "score", "softmax", "dropout"})->freed == 688_MiB);
  REQUIRE(choice(cost, {"score", "softmax", "dropout", "mlp"}) != nullptr);
  CHECK(choice(cost, {"score", "softmax", "dropout", "mlp"})->freed == 768_MiB);
  // mlp alone frees less than the core and takes longer: no use.
  CHECK(choice(cost, {"mlp"}) == nullptr);
}

TEST_CASE("a large square product runs at the calibrated share of the peak", "[model]") {
  // 2 * 8224^3 / (0.8 * 312e12) with 8192 + 32 = 8224
  const Seconds time = matmul_time({1, 8192, 8192, 8192}, 312_TFLOPS);
  CHECK(time.value() == Approx(2.0 * 8224.0 * 8224.0 * 8224.0 / 249.6e12));
}

TEST_CASE("a TP all-reduce moves 2 (t-1)/t of the payload", "[model]") {
  // 2 * 7/8 * 32 MiB / 192 GB/s + 14 * 3 us = 305.8 us + 42 us
  CHECK(tensor_all_reduce_time(32_MiB, 8, fast_link()).value() == Approx(1.75 * 33554432 / 192e9 + 42e-6));
  CHECK(tensor_all_reduce_time(32_MiB, 1, fast_link()).value() == 0.0);
}

TEST_CASE("modelled times add the TP all-reduces of the link they are given", "[model]") {
  const ModelSpec model = gpt_model(1, 4096, 32);
  const ProfileTable table;
  const Link slow{fast_link().bandwidth * 0.5, fast_link().latency};
  const LayerCost fast = table.layer_cost(model, model.kinds[1], a100(), fast_link(), 4, 1);
  const LayerCost slower = table.layer_cost(model, model.kinds[1], a100(), slow, 4, 1);
  // two all-reduces of 16 MiB: 2 * 1.5 * 16 MiB at 96 instead of 192 GB/s
  CHECK((slower.forward - fast.forward).value() == Approx(2 * 1.5 * 16777216 / 192e9));
  CHECK((slower.backward - fast.backward).value() == Approx(2 * 1.5 * 16777216 / 192e9));
}

TEST_CASE("the weight gradient is half of the linear backward and nothing of the attention", "[model]") {
  const ModelSpec model = gpt_model(1, 4096, 32);
  const LayerCost cost = modelled(model);
  double linear = 0.0;
  const DeviceType type = a100();
  const Link link = fast_link();
  for (const OperatorCost& each : layer_operators(model, model.kinds[1], 1, 1)) {
    if (each.weighted) linear += operator_time(each, {model, type, link, 1}).backward.value();
  }
  CHECK(cost.weight_gradient.value() == Approx(linear / 2));
  CHECK(cost.weight_gradient < cost.backward * 0.5);
}

TEST_CASE("4-byte training runs at half the matrix rate", "[model]") {
  ModelSpec model = gpt_model(1, 1024, 16);
  CHECK(matrix_peak(model, a100()).value() == 312e12);
  model.precision = "fp32";
  CHECK(matrix_peak(model, a100()).value() == 156e12);
}

TEST_CASE("the head holds logits, the other layers no workspace", "[model]") {
  const ModelSpec model = gpt_model(1, 1024, 16);
  CHECK(modelled(model, 1, 2, 2).workspace.count() == 6LL * 2 * 2048 * 51200);
  CHECK(modelled(model, 1, 2, 1).workspace == 0_B);
  CHECK(modelled(model, 1, 2, 0).workspace == 0_B);
  CHECK(modelled(model, 1, 2, 2).recompute.size() == 1);
}
