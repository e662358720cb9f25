#include "profile/profile_table.hpp"
#include "profile/synthesize.hpp"
#include "support/catch.hpp"
#include "support/models.hpp"

using namespace hpplan;
using namespace hpplan::testing;

namespace {

ModelSpec model_of(int variant) {
  switch (variant) {
    case 0: return gpt_model(2, 1024, 16);
    case 1: return llama_model(2, 4096, 32, 8, 14336, 128256);
    case 2: {
      ModelSpec model = llama_model(2, 4096, 32, 8, 14336, 32000);
      model.kinds[1].mlp->experts = 8;
      model.kinds[1].mlp->top_k = 2;
      return model;
    }
    default: {
      ModelSpec model = gpt_model(2, 8192, 64);
      model.sequence_parallel = true;
      return model;
    }
  }
}

DeviceType device_of(int variant) {
  if (variant == 0) return a100();
  return {"slow", Bytes{24'000'000'000LL}, FlopPerSecond{80e12}, BytesPerSecond{936e9}};
}

}  // namespace

TEST_CASE("more samples never take less time and never keep less", "[profile][property]") {
  const int model_variant = GENERATE(range(0, 4));
  const int device_variant = GENERATE(range(0, 2));
  const int degree = GENERATE(1, 2, 4, 8);
  CAPTURE(model_variant, device_variant, degree);
  const ModelSpec model = model_of(model_variant);
  const DeviceType type = device_of(device_variant);
  for (const LayerKind& kind : model.kinds) {
    LayerCost last = ProfileTable{}.layer_cost(model, kind, type, fast_link(), degree, 1);
    for (int samples = 2; samples <= 64; samples += 3) {
      const LayerCost cost = ProfileTable{}.layer_cost(model, kind, type, fast_link(), degree, samples);
      CHECK(cost.forward > last.forward);
      CHECK(cost.backward > last.backward);
      CHECK(cost.saved > last.saved);
      CHECK(cost.workspace >= last.workspace);
      last = cost;
    }
  }
}

TEST_CASE("without communication a larger TP degree never takes longer", "[profile][property]") {
  const int model_variant = GENERATE(range(0, 4));
  const int samples = GENERATE(1, 4, 16);
  CAPTURE(model_variant, samples);
  const ModelSpec model = model_of(model_variant);
  const Link free_link{BytesPerSecond{1e30}, Seconds{0.0}};
  for (const LayerKind& kind : model.kinds) {
    LayerCost last = ProfileTable{}.layer_cost(model, kind, a100(), free_link, 1, samples);
    for (const int degree : {2, 4, 8}) {
      const LayerCost cost = ProfileTable{}.layer_cost(model, kind, a100(), free_link, degree, samples);
      CHECK(cost.forward <= last.forward);
      CHECK(cost.backward <= last.backward);
      CHECK(cost.saved <= last.saved);
      last = cost;
    }
  }
}

TEST_CASE("saved bytes add up over samples", "[profile][property]") {
  const int model_variant = GENERATE(range(0, 4));
  const int degree = GENERATE(1, 2, 8);
  const ModelSpec model = model_of(model_variant);
  for (const LayerKind& kind : model.kinds) {
    const Bytes one = ProfileTable{}.layer_cost(model, kind, a100(), fast_link(), degree, 1).saved;
    const Bytes five = ProfileTable{}.layer_cost(model, kind, a100(), fast_link(), degree, 5).saved;
    CHECK(five == one * 5);
  }
}

TEST_CASE("recompute choices start with nothing and ascend in bytes and time", "[profile][property]") {
  const int model_variant = GENERATE(range(0, 4));
  const int degree = GENERATE(1, 4);
  const int samples = GENERATE(1, 3, 32);
  const ModelSpec model = model_of(model_variant);
  for (const LayerKind& kind : model.kinds) {
    const LayerCost cost = ProfileTable{}.layer_cost(model, kind, a100(), fast_link(), degree, samples);
    REQUIRE_FALSE(cost.recompute.empty());
    CHECK(cost.recompute.front() == RecomputeChoice{});
    for (std::size_t i = 1; i < cost.recompute.size(); ++i) {
      CHECK(cost.recompute[i].freed > cost.recompute[i - 1].freed);
      CHECK(cost.recompute[i].extra > cost.recompute[i - 1].extra);
      CHECK(cost.recompute[i].extra <= cost.forward);
      CHECK(cost.recompute[i].freed < cost.saved);
      CHECK(cost.recompute[i].live <= cost.saved);
    }
    CHECK(cost.weight_gradient <= cost.backward);
  }
}

TEST_CASE("interpolation meets its points and stays between them", "[profile][property]") {
  const ModelSpec model = gpt_model(2, 2048, 16);
  const DeviceType type = a100();
  const Link link = fast_link();
  DeviceProfile profile = synthesize_profile({model, type, link, {1, 2}, {1, 4, 16}});
  profile.basis.reset();
  profile.synthesized = false;  // as if it had been measured
  const ProfileTable table({profile});
  const int degree = GENERATE(1, 2);
  for (const LayerKind& kind : model.kinds) {
    LayerCost last;
    for (int samples = 1; samples <= 24; ++samples) {
      const LayerCost cost = table.layer_cost(model, kind, type, link, degree, samples);
      const bool is_point = samples == 1 || samples == 4 || samples == 16;
      CHECK(cost.forward >= last.forward);
      CHECK(cost.backward >= last.backward);
      CHECK(cost.saved >= last.saved);
      CHECK(cost.provenance == (is_point        ? Provenance::Measured
                                : samples <= 16 ? Provenance::Interpolated
                                                : Provenance::Modelled));
      const LayerCost direct = ProfileTable{}.layer_cost(model, kind, type, link, degree, samples);
      if (is_point) CHECK(cost.forward == direct.forward);
      last = cost;
    }
  }
}
