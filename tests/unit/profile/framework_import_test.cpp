// Profiles of Galvatron and timer logs of Megatron-LM. The sample files are made up; their form is that of the tools.
#include <string>

#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "domain/operators.hpp"
#include "io/profile_import.hpp"
#include "support/catch.hpp"
#include "support/models.hpp"

using namespace hpplan;
using namespace hpplan::testing;

namespace {

const std::string kComputation = R"({
    "layernum[2]_bsz1_seq2048": 9.0,
    "layernum[4]_bsz1_seq2048": 15.0,
    "layernum[2]_bsz4_seq2048": 28.0,
    "layernum[4]_bsz4_seq2048": 48.0,
    "layertype_0_bsz1_seq2048": 3.0,
    "layertype_other_bsz1_seq2048": 3.0,
    "layertype_0_bsz8_seq2048": 2.4,
    "layertype_other_bsz8_seq2048": 1.9
})";

const std::string kMemory = R"({
    "1_1_8": {"layernum[1]_bsz8_seq2048_rank0_ms": 100.0},
    "layertype_0": {"2048": {"parameter_size": 48.0, "tp_activation_per_bsz_dict": {"checkpoint": 16.0, "1": 200.0, "2": 110.0}}},
    "other_memory_pp_off": {"2048": {"model_states": {"1": 1.0}, "activation": {"1": 1.0}}}
})";

const char* const kComputationName = "configs/computation_profiling_bf16_llama-7b_all.json";
const char* const kMemoryName = "configs/memory_profiling_bf16_llama-7b.json";

DeviceProfile galvatron(const std::vector<ImportFile>& files, const ModelSpec* model = nullptr) {
  const auto profiles = import_profiles(files, {"a100", model});
  REQUIRE(profiles.size() == 1);
  return profiles.front();
}

std::string refusal(const std::vector<ImportFile>& files, const ImportOptions& options) {
  try {
    (void)import_profiles(files, options);
  } catch (const InputError& error) {
    std::string text;
    for (const Diagnostic& fault : error.diagnostics()) text += to_text(fault) + "\n";
    return text;
  }
  return "accepted";
}

bool contains(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

std::string notes_of(const DeviceProfile& profile) { return join(profile.notes, "\n"); }

/// A log of three steps of 4 micro-batches each.
std::string megatron_log(const std::string& samples = "2", const std::string& more = "") {
  return "[default0]:using world size: 2, data-parallel size: 2\n"
         "------------------------ arguments ------------------------\n"
         "  data_parallel_size .............................. 2\n"
         "  global_batch_size ............................... 16\n"
         "  hidden_size ..................................... 1024\n"
         "  micro_batch_size ................................ " +
         samples +
         "\n"
         "  num_layers ...................................... 12\n"
         "  pipeline_model_parallel_size .................... 1\n"
         "  recompute_granularity ........................... None\n"
         "  seq_length ...................................... 2048\n"
         "  tensor_model_parallel_size ...................... 1\n"
         "  use_distributed_optimizer ....................... False\n" +
         more +
         "-------------------- end of arguments ---------------------\n"
         "(min, max) time across ranks (ms):\n"
         "    model-and-optimizer-setup ......................: (1020.90, 1022.97)\n"
         "training ...\n"
         " [2026-01-01 00:00:00] iteration        1/      10 | consumed samples:           16 | elapsed time per "
         "iteration (ms): 9000.0 |\n"
         "(min, max) time across ranks (ms):\n"
         "    forward-compute ................................: (4000.00, 5000.00)\n"
         "    backward-compute ...............................: (4000.00, 5000.00)\n"
         "    optimizer ......................................: (90.00, 99.00)\n"
         " [2026-01-01 00:00:09] iteration        2/      10 | consumed samples:           32 |\n"
         "(min, max) time across ranks (ms):\n"
         "    forward-compute ................................: (390.00, 400.00)\n"
         "    backward-compute ...............................: (700.00, 800.00)\n"
         "    optimizer ......................................: (9.00, 10.00)\n"
         " [2026-01-01 00:00:10] iteration        3/      10 | consumed samples:           48 |\n"
         "INFO:megatron.core.timers:(min, max) time across ranks (ms):\n"
         "    forward-compute ................................: (391.00, 404.00)\n"
         "    backward-compute ...............................: (701.00, 804.00)\n"
         "    optimizer ......................................: (9.00, 10.40)\n";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

const ModelSpec& measured_model() {
  static const ModelSpec model = gpt_model(12, 1024, 16);
  return model;
}

}  // namespace

TEST_CASE("Galvatron: the slope over layers is the block, the rest the head", "[profile][galvatron]") {
  const DeviceProfile profile = galvatron({{kComputationName, kComputation}});
  CHECK(profile.device_type == "a100");
  CHECK(profile.model == "llama-7b");
  CHECK(profile.shape.precision == "bf16");
  CHECK(profile.shape.sequence == 2048);
  // (48 - 28) ms / (4 - 2) layers = 10 ms; 28 - 2 x 10 = 8 ms
  CHECK(profile.points.at("block").at(1).at(4).forward.value() == Approx(0.010));
  CHECK(profile.points.at("block").at(1).at(4).backward.value() == Approx(0.020));
  CHECK(profile.points.at("head").at(1).at(4).forward.value() == Approx(0.008));
  // Only per sample: 8 x 2.4 ms and 8 x 1.9 ms
  CHECK(profile.points.at("block").at(1).at(8).forward.value() == Approx(0.0192));
  CHECK(profile.points.at("head").at(1).at(8).forward.value() == Approx(0.0152));
  CHECK(profile.points.count("embedding") == 0);
  CHECK(contains(notes_of(profile), "the backward is taken as twice the forward"));
  CHECK(contains(notes_of(profile), "the embedding is modelled"));
}

TEST_CASE("Galvatron: a memory profile adds saved bytes and parameters", "[profile][galvatron]") {
  const DeviceProfile profile = galvatron({{kComputationName, kComputation}, {kMemoryName, kMemory}});
  const ProfilePoint& point = profile.points.at("block").at(1).at(4);
  CHECK(point.known_saved);
  CHECK(point.saved == Bytes{200LL * 4 * 1048576});  // 200 MiB a sample
  CHECK(point.parameters == Approx(48.0 * 1048576 / 4));
  CHECK(contains(notes_of(profile), "MB are taken as MiB"));
}

TEST_CASE("Galvatron: what the files do not say is asked for", "[profile][galvatron]") {
  CHECK(contains(refusal({{kComputationName, kComputation}}, {}), "hpplan profile import --device NAME"));
  CHECK(contains(refusal({{"profile.json", kComputation}}, {"a100", nullptr}), "add --model MODEL"));
  CHECK(contains(refusal({{kMemoryName, kMemory}}, {"a100", nullptr}),
                 "a memory profile of Galvatron alone holds no times"));
  const std::string two = replaced(replaced(kComputation, "layertype_0_bsz8_seq2048", "layertype_0_bsz8_seq4096"),
                                   "layertype_other_bsz8_seq2048", "layertype_other_bsz8_seq4096");
  CHECK(contains(refusal({{kComputationName, two}}, {"a100", nullptr}), "measured at sequences 2048, 4096"));
  const ModelSpec model = gpt_model(12, 1024, 16);
  CHECK(galvatron({{kComputationName, two}}, &model).points.at("block").at(1).count(8) == 0);
  const ModelSpec other = gpt_model(12, 1024, 16, 512);
  CHECK(contains(refusal({{kComputationName, kComputation}}, {"a100", &other}),
                 "measured at sequence 2048, but gpt has 512"));
}

TEST_CASE("Galvatron: broken files are refused at their place", "[profile][galvatron]") {
  const auto fault = [&](const std::string& from, const std::string& to) {
    return refusal({{"computation_profiling_bf16_m.json", replaced(kComputation, from, to)}}, {"a100", nullptr});
  };
  CHECK(contains(fault("9.0", "-9.0"), "computation_profiling_bf16_m.json:2:33: error: layernum[2]_bsz1_seq2048: "));
  CHECK(contains(fault("9.0", "\"9.0\""), ":2:33: error: "));
  CHECK(contains(fault("layernum[2]_bsz1_seq2048", "layernum[2]_bs1_seq2048"),
                 ":2:32: error: layernum[2]_bs1_seq2048: not a key of Galvatron"));
  CHECK(contains(fault("layernum[2]_bsz1_seq2048", "layernum[2,2]_bsz1_seq2048"),
                 "a model with several kinds of layers"));
  CHECK(contains(fault("layertype_0_bsz8", "layertype_1_bsz8"), "a model with several kinds of layers"));
  CHECK(contains(fault("15.0", "8.0"), "bsz1_seq2048 gives a layer -0.5 ms"));
}

TEST_CASE("Megatron-LM: timers become times of blocks and head", "[profile][megatron]") {
  const auto profiles = import_profiles({{"tp1.log", megatron_log()}}, {"a100", &measured_model()});
  REQUIRE(profiles.size() == 1);
  const DeviceProfile& profile = profiles.front();
  const ProfilePoint& block = profile.points.at("block").at(1).at(2);
  const ProfilePoint& head = profile.points.at("head").at(1).at(2);
  // 404 ms and 804 ms a step (the larger of two values in the middle), 16 / (2 samples x 2 replicas) = 4 micro-batches
  CHECK(12 * block.forward.value() + head.forward.value() == Approx(0.404 / 4));
  CHECK(12 * block.backward.value() + head.backward.value() == Approx(0.804 / 4));
  // Korthikanti et al. 2022: 24 s h^2 + 4 s^2 h for a block, 2 s h V for the head, for each sample
  const double s = 2048, h = 1024, v = padded_vocabulary(measured_model(), 1);
  CHECK(block.forward.value() / head.forward.value() ==
        Approx((24 * s * h * h + 4 * s * s * h) / (2 * s * h * v)).epsilon(0.01));
  CHECK(profile.optimizer_per_parameter.at(1).value() == Approx(0.0104 / total_parameters(measured_model())));
  CHECK(profile.points.count("embedding") == 0);
  CHECK(contains(notes_of(profile), "median over steps"));
}

TEST_CASE("Megatron-LM: one log for each point, values also as one number", "[profile][megatron]") {
  std::string maxima = megatron_log("4");
  for (const char* const value : {"(390.00, 400.00)", "(391.00, 404.00)"}) maxima = replaced(maxima, value, "808.00");
  const auto profiles = import_profiles({{"a.log", megatron_log()}, {"b.log", maxima}}, {"a100", &measured_model()});
  REQUIRE(profiles.size() == 1);
  const auto& points = profiles.front().points.at("block").at(1);
  CHECK(points.at(4).forward.value() ==
        Approx(4.0 * points.at(2).forward.value()));  // twice the time, half the micro-batches
  CHECK(contains(refusal({{"a.log", megatron_log()}, {"b.log", megatron_log()}}, {"a100", &measured_model()}),
                 "b.log:1:1: error: a second log with TP 1 and 2 samples"));
}

TEST_CASE("Megatron-LM: a sharded optimizer is not taken for a whole one", "[profile][megatron]") {
  const std::string log = replaced(megatron_log(), "use_distributed_optimizer ....................... False",
                                   "use_distributed_optimizer ....................... True");
  const auto profiles = import_profiles({{"a.log", log}}, {"a100", &measured_model()});
  CHECK(profiles.front().optimizer_per_parameter.empty());
  CHECK(contains(notes_of(profiles.front()), "the optimizer was sharded"));
}

TEST_CASE("Megatron-LM: logs that do not tell the time of a layer are refused at their place", "[profile][megatron]") {
  const auto fault = [&](const std::string& from, const std::string& to) {
    return refusal({{"run.log", replaced(megatron_log(), from, to)}}, {"a100", &measured_model()});
  };
  CHECK(contains(refusal({{"run.log", megatron_log()}}, {"", nullptr}), "--device NAME"));
  CHECK(contains(refusal({{"run.log", megatron_log()}}, {"a100", nullptr}), "add --model MODEL"));
  CHECK(contains(fault("pipeline_model_parallel_size .................... 1",
                       "pipeline_model_parallel_size .................... 2"),
                 "run.log:8:53: error: pipeline_model_parallel_size: found \"2\", needed 1"));
  CHECK(contains(fault("recompute_granularity ........................... None",
                       "recompute_granularity ........................... full"),
                 "measure without recomputation"));
  CHECK(contains(fault("num_layers ...................................... 12",
                       "num_layers ...................................... 24"),
                 "run.log:7:53: error: num_layers: 24, but gpt has 12"));
  CHECK(contains(fault("  hidden_size ..................................... 1024\n", ""),
                 "run.log:1:1: error: hidden_size: the log does not state it"));
  CHECK(contains(fault("global_batch_size ............................... 16",
                       "global_batch_size ............................... 15"),
                 "15 is not a multiple of 2 samples x 2 replicas"));
  CHECK(contains(fault("(390.00, 400.00)", "(390.00, nan)"),
                 "run.log:24:55: error: forward-compute: found \"(390.00, nan)\", needed a time in ms"));
  CHECK(contains(fault("(390.00, 400.00)", "-4"), "needed a time in ms"));
  std::string without = megatron_log();
  while (contains(without, "backward-compute")) without = replaced(without, "backward-compute", "optimizer-inner-x");
  CHECK(contains(refusal({{"run.log", without}}, {"a100", &measured_model()}),
                 "backward-compute: the log holds no such timer"));
}

TEST_CASE("Megatron-LM: a log that ends in the middle of a line is read up to it", "[profile][megatron]") {
  std::string log = megatron_log();
  log.resize(log.rfind("    optimizer") + 10);
  const auto profiles = import_profiles({{"a.log", log}}, {"a100", &measured_model()});
  CHECK(profiles.front().points.at("block").size() == 1);
}
