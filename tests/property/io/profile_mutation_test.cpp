// Profiles, broken in every simple way: accepted and usable, or refused with the place of the fault.
#include <string>

#include "emit/profile_writer.hpp"
#include "io/profile_import.hpp"
#include "io/profile_reader.hpp"
#include "profile/synthesize.hpp"
#include "support/catch.hpp"
#include "support/models.hpp"
#include "support/mutation.hpp"

using namespace hpplan;
using namespace hpplan::test;
using namespace hpplan::testing;

namespace {

ModelSpec small_model() { return gpt_model(2, 256, 4, 128, 1024); }

/// A profile with everything that a profile can have.
std::string full_profile() {
  const ModelSpec model = small_model();
  const DeviceType type = a100();
  const Link link = fast_link();
  DeviceProfile profile = synthesize_profile({model, type, link, {1, 2}, {1, 2}});
  profile.notes = {"a note"};
  profile.optimizer_per_parameter = {{1, Seconds{0.1e-10}}, {2, Seconds{0.0}}};
  profile.links["intra_node"] = {{Bytes{1024}, BytesPerSecond{1e9}}, {Bytes{4096}, BytesPerSecond{3.3e9}}};
  return emit_profile(profile);
}

std::string parse_as_profile(const std::string& text) {
  const DeviceProfile profile = parse_profile(text, "f");
  const ModelSpec model = small_model();
  const ProfileTable table({profile});
  for (const LayerKind& kind : model.kinds) {
    for (const int degree : {1, 2, 4}) {
      for (const int samples : {1, 3, 64}) {
        const LayerCost cost = table.layer_cost(model, kind, a100(), fast_link(), degree, samples);
        const bool fine = cost.forward > Seconds{} && cost.backward > Seconds{} && cost.saved >= Bytes{};
        if (!fine) throw std::logic_error("a layer of " + kind.name + " costs nothing or less");
      }
    }
  }
  return emit_profile(profile);
}

Parse import_as(const std::string& file) {
  return [file](const std::string& text) {
    std::string all;
    for (const DeviceProfile& profile : import_profiles({{file, text}}, {})) all += emit_profile(profile);
    return all;
  };
}

const char* const kMetis = R"({"model": {"model_name": "m", "num_layers": 4,
  "parameters": {"total_parameters_bytes": 400, "parameters_per_layer_bytes": [100, 100, 100, 100],
                 "activation_parameters_bytes": [1, 1, 1, 1]}},
 "execution_time": {"total_time_ms": 50, "forward_backward_time_ms": 40, "batch_generator_time_ms": 1,
  "layernorm_grads_all_reduce_time_ms": 0, "embedding_grads_all_reduce_time_ms": 0, "optimizer_time_ms": 5,
  "layer_compute_total_ms": [1.5, 10, 10, 0.5]},
 "execution_memory": {"total_memory_mb": 28, "layer_memory_total_mb": [5, 9, 9, 5]}})";

const char* const kSailor =
    R"({"2": {"1": {"0": [0.1, 0.0, 0.5], "1": [1, 2, 0.5], "2": [1, 2, 0.5], "3": [0.3, 0.6, 0.5]},
              "2": {"0": [0.1, 0.1, 0.5], "1": [1, 2, 0.5], "2": [1, 2, 0.5], "3": [0.3, 0.6, 0.5]}}})";

}  // namespace

TEST_CASE("every mutation of a profile is handled", "[io][property]") {
  CHECK(mishandled_mutant(as_json(full_profile()), parse_as_profile) == "");
}

TEST_CASE("every mutation of a Metis or Sailor profile is handled", "[io][property]") {
  const std::string metis = "a/DeviceType.X_tp1_bs1.json";
  REQUIRE(mishandled(import_as(metis), kMetis, metis) == "");
  CHECK_NOTHROW(import_as(metis)(kMetis));
  CHECK(mishandled_mutant(as_json(kMetis), import_as(metis), metis) == "");
  const std::string sailor = "a/M/D/profile.json";
  CHECK_NOTHROW(import_as(sailor)(kSailor));
  CHECK(mishandled_mutant(as_json(kSailor), import_as(sailor), sailor) == "");
}
