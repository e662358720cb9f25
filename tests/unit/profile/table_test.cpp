#include "profile/profile_table.hpp"
#include "profile/synthesize.hpp"
#include "support/catch.hpp"
#include "support/models.hpp"

using namespace hpplan;
using namespace hpplan::literals;
using namespace hpplan::testing;

namespace {

ProfilePoint point(double forward, double backward) {
  ProfilePoint measured;
  measured.forward = Seconds{forward};
  measured.backward = Seconds{backward};
  return measured;
}

/// Blocks measured at TP 1 for 2 and 6 samples.
DeviceProfile small_profile() {
  DeviceProfile profile;
  profile.device_type = "nvidia-a100-80gb";
  profile.model = "gpt";
  profile.points["block"][1][2] = point(0.010, 0.022);
  profile.points["block"][1][6] = point(0.030, 0.062);
  return profile;
}

const ModelSpec kModel = gpt_model(4, 2048, 16);

LayerCost cost(const DeviceProfile& profile, int tensor_parallel, int samples, const ModelSpec& model = kModel) {
  return ProfileTable({profile}).layer_cost(model, model.kinds[1], a100(), fast_link(), tensor_parallel, samples);
}

LayerCost modelled(int tensor_parallel, int samples) {
  return ProfileTable{}.layer_cost(kModel, kModel.kinds[1], a100(), fast_link(), tensor_parallel, samples);
}

}  // namespace

TEST_CASE("a measured point is returned as it is", "[table]") {
  const LayerCost measured = cost(small_profile(), 1, 2);
  CHECK(measured.forward == 0.010_s);
  CHECK(measured.backward == 0.022_s);
  CHECK(measured.provenance == Provenance::Measured);
  CHECK(measured.recompute.back().extra == 0.010_s);
}

TEST_CASE("between measured numbers of samples the time is linear", "[table]") {
  // 2 + (6 - 2) / 4: a quarter of the way from 10 to 30 ms and from 22 to 62 ms
  const LayerCost between = cost(small_profile(), 1, 3);
  CHECK(between.forward.value() == Approx(0.015));
  CHECK(between.backward.value() == Approx(0.032));
  CHECK(between.provenance == Provenance::Interpolated);
}

TEST_CASE("outside the measured numbers the model is scaled to the nearest point", "[table]") {
  // 30 ms at 6 samples, times model(12) / model(6)
  const LayerCost outside = cost(small_profile(), 1, 12);
  CHECK(outside.forward.value() == Approx(0.030 * (modelled(1, 12).forward / modelled(1, 6).forward)));
  CHECK(outside.provenance == Provenance::Modelled);
  CHECK(cost(small_profile(), 1, 1).forward.value() ==
        Approx(0.010 * (modelled(1, 1).forward / modelled(1, 2).forward)));
}

TEST_CASE("a TP degree that was not measured is carried over from the nearest and marked modelled", "[table]") {
  const LayerCost other = cost(small_profile(), 2, 2);
  CHECK(other.forward.value() == Approx(0.010 * (modelled(2, 2).forward / modelled(1, 2).forward)));
  CHECK(other.provenance == Provenance::Modelled);
}

TEST_CASE("what a point does not state comes from the model", "[table]") {
  const LayerCost measured = cost(small_profile(), 1, 2);
  CHECK(measured.saved == modelled(1, 2).saved);
  CHECK(measured.weight_gradient.value() == Approx(0.022 * (modelled(1, 2).weight_gradient / modelled(1, 2).backward)));
}

TEST_CASE("measured operators price recomputation", "[table]") {
  DeviceProfile profile = small_profile();
  ProfilePoint& measured = profile.points["block"][1][2];
  measured.known_saved = true;
  measured.saved = 800_MiB;
  measured.operators = {{"score", 0.1_ms, 0_B}, {"softmax", 0.2_ms, 100_MiB}, {"dropout", 0.3_ms, 200_MiB}};
  const LayerCost priced = cost(profile, 1, 2);
  REQUIRE(priced.recompute.size() > 2);
  CHECK(priced.recompute[1].operators == std::vector<std::string>{"dropout"});
  CHECK(priced.recompute[1].freed == 200_MiB);
  CHECK(priced.recompute[2].operators == std::vector<std::string>{"score", "softmax", "dropout"});
  CHECK(priced.recompute[2].freed == 300_MiB);
  CHECK(priced.recompute[2].extra.value() == Approx(0.6e-3));
}

TEST_CASE("a profile of another shape is not used and says why", "[table]") {
  DeviceProfile profile = small_profile();
  profile.shape.hidden = 1024;
  CHECK(profile_fault(profile, kModel) == "hidden is 1024, but the model's is 2048");
  CHECK(cost(profile, 1, 2).forward == modelled(1, 2).forward);
  profile.shape.hidden = 2048;
  CHECK(profile_fault(profile, kModel).empty());
  profile.shape.layers = 6;
  profile.shape.parameters = 1.0e9;
  CHECK(profile_fault(profile, kModel).find("it has 1e+09 parameters") == 0);
}

TEST_CASE("A15: more layers than were profiled cost what the repeated layers cost", "[table]") {
  // one layer of the profile stands for each of 38: 1.5 + 38 * 10 + 0.5 = 382 ms
  DeviceProfile profile = small_profile();
  profile.shape.layers = 10;
  profile.points["embedding"][1][1] = point(0.0005, 0.001);
  profile.points["block"][1][1] = point(0.004, 0.006);
  profile.points["head"][1][1] = point(0.0002, 0.0003);
  const ModelSpec model = gpt_model(38, 2048, 16);
  const ProfileTable table({profile});
  double total = 0.0;
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    const LayerCost each = table.layer_cost(model, model.kind_of(layer), a100(), fast_link(), 1, 1);
    total += (each.forward + each.backward).value();
  }
  CHECK(total == Approx(0.382));
}

TEST_CASE("A13: each missing point is named once", "[table]") {
  // TP 1: 2 and 6 samples measured for blocks alone; embedding and head have none at all
  DeviceProfile profile = small_profile();
  profile.points["embedding"] = profile.points["head"] = profile.points["block"];
  const ProfileTable table({profile});
  const std::vector<ProfileGap> gaps = table.gaps(kModel, a100(), {1, 8}, {2, 4, 8});
  REQUIRE(gaps.size() == 5);
  CHECK(to_text(gaps[0]) == "nvidia-a100-80gb tp1 bs4 (interpolated)");
  CHECK(to_text(gaps[1]) == "nvidia-a100-80gb tp1 bs8 (modelled)");
  CHECK(to_text(gaps[2]) == "nvidia-a100-80gb tp8 bs2 (modelled)");
}

TEST_CASE("the optimizer's time is that of the nearest measured TP degree below", "[table]") {
  DeviceProfile profile = small_profile();
  profile.optimizer_per_parameter = {{2, Seconds{1e-11}}, {4, Seconds{2e-11}}};
  const ProfileTable table({profile});
  CHECK(table.optimizer_time(kModel, a100(), 4, 1e9)->value() == Approx(0.02));
  CHECK(table.optimizer_time(kModel, a100(), 3, 1e9)->value() == Approx(0.01));
  CHECK(table.optimizer_time(kModel, a100(), 1, 1e9)->value() == Approx(0.01));
  CHECK_FALSE(ProfileTable{}.optimizer_time(kModel, a100(), 1, 1e9).has_value());
}

TEST_CASE("a synthesized profile gives exactly what modelling gives", "[table]") {
  const DeviceType type = a100();
  const Link link = fast_link();
  const DeviceProfile profile = synthesize_profile({kModel, type, link, {1, 2, 4}, {1, 2, 4, 8}});
  const ProfileTable table({profile});
  for (const LayerKind& kind : kModel.kinds) {
    for (const int degree : {1, 2, 4}) {
      for (const int samples : {1, 2, 4, 8}) {
        const LayerCost looked_up = table.layer_cost(kModel, kind, type, link, degree, samples);
        const LayerCost direct = ProfileTable{}.layer_cost(kModel, kind, type, link, degree, samples);
        CHECK(looked_up.forward == direct.forward);
        CHECK(looked_up.backward == direct.backward);
        CHECK(looked_up.weight_gradient == direct.weight_gradient);
        CHECK(looked_up.saved == direct.saved);
        CHECK(looked_up.recompute == direct.recompute);
        CHECK(looked_up.provenance == Provenance::Modelled);
      }
    }
  }
}

TEST_CASE("a synthesized profile is not used for figures that differ from its own", "[table]") {
  const DeviceType type = a100();
  const Link link = fast_link();
  const ProfileTable table({synthesize_profile({kModel, type, link, {1, 2}, {1}})});
  DeviceType half = type;
  half.peak = type.peak * 0.5;
  CHECK(table.layer_cost(kModel, kModel.kinds[1], half, link, 1, 1).forward ==
        ProfileTable{}.layer_cost(kModel, kModel.kinds[1], half, link, 1, 1).forward);
  const Link slow{link.bandwidth * 0.1, link.latency};
  CHECK(table.layer_cost(kModel, kModel.kinds[1], type, slow, 2, 1).forward ==
        ProfileTable{}.layer_cost(kModel, kModel.kinds[1], type, slow, 2, 1).forward);
}
