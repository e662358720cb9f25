// What a shell may expect of every verb: --json and --quiet, "-" for standard input and output, pipes, NO_COLOR.
#include <algorithm>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/command.hpp"

using namespace hpplan;
using test::CommandResult;
using test::run_hpplan;
using test::run_script;
using test::ScratchFolder;
using Json = nlohmann::json;

namespace {

const std::string kPlan = "plan --model gpt3-350m --cluster b2-b4-4 --global-batch 8 --micro-batch 1,2";
const std::string kMegatron =
    "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 "
    "--vocab-size 1000";

/// A profile in the format of Metis.
const char* const kMetis =
    "{\"model\": {\"model_name\": \"tiny\", \"num_layers\": 3, \"parameters\": {\"parameters_per_layer_bytes\": [8, 8, "
    "8]}},\n"
    " \"execution_time\": {\"layer_compute_total_ms\": [1, 3, 2]}, \"execution_memory\": {\"layer_memory_total_mb\": "
    "[1, 1, 1]}}";

void check_has_options(const Json& verb, const std::string& words) {
  for (const Json& below : verb["verbs"]) check_has_options(below, words + " " + below["name"].get<std::string>());
  const bool only_groups = !verb["verbs"].empty() && verb["arguments"].empty();
  if (only_groups) return;
  std::vector<std::string> names;
  for (const Json& option : verb["options"]) names.push_back(option["names"].back());
  CAPTURE(words);
  for (const char* const name : {"--json", "--quiet", "--progress", "--help"}) {
    CAPTURE(name);
    CHECK(std::find(names.begin(), names.end(), name) != names.end());
  }
}

struct Case {
  std::string arguments;
  std::string input;
};

/// One command line of each verb whose result may be JSON.
std::vector<Case> cases(const ScratchFolder& scratch) {
  const std::string plan = scratch.path("plan.json");
  REQUIRE(run_hpplan(kPlan + " --quiet --out " + plan).code == 0);
  const std::string inputs = " --model gpt3-350m --cluster b2-b4-4";
  return {{kPlan, ""},
          {"check " + plan, ""},
          {"simulate -", test::file_text(plan)},
          {"schedule --family 1f1b --stages 2 --micro-batches 2 --forward 1 --backward 2", ""},
          {"profile show gpt3-350m.ascend-910b2", ""},
          {"profile synthesize --device ascend-910b2 --model gpt3-350m --tensor-parallel 1 --samples 1", ""},
          {"profile import " + scratch.write("DeviceType.X_tp1_bs1.json", kMetis) + " --out " +
               scratch.path("profile.json"),
           ""},
          {"show --model gpt3-350m --cluster b2-b4-4", ""},
          {"model import -", kMegatron},
          {"model show gpt3-13b", ""},
          {"cluster import - --device a100-80gb --intra-bandwidth '100 GB/s' --inter-bandwidth '25 GB/s'",
           "n1 slots=2\nn2 slots=2\n"},
          {"cluster show b2-b4-4", ""},
          {"export " + plan + inputs + " --to torch --out " + scratch.path("torch"), ""},
          {"sweep - --out " + scratch.path("r.jsonl"),
           "base: {model: gpt3-350m, cluster: b2-b4-4, global_batch: 8, micro_batch: [1, 2]}\n"},
          {"sweep summarize " + scratch.path("r.jsonl"), ""},
          {"completion bash", ""},
          {"man plan", ""}};
}

}  // namespace

TEST_CASE("every verb has --json, --quiet, --progress and --help", "[cli][manners]") {
  check_has_options(Json::parse(run_hpplan("man --json").out), "hpplan");
}

TEST_CASE("with --json the result of every verb is JSON, and --quiet leaves standard error empty", "[cli][manners]") {
  const ScratchFolder scratch;
  for (const Case& each : cases(scratch)) {
    CAPTURE(each.arguments);
    const CommandResult result = run_hpplan(each.arguments + " --json --quiet", each.input);
    CHECK(result.code == 0);
    CHECK(result.err.empty());
    CHECK_FALSE(Json::parse(result.out, nullptr, false).is_discarded());
  }
}

TEST_CASE("models and clusters as JSON are files that read back as the same", "[cli][manners]") {
  for (const std::string name : {"gpt3-13b", "moe-8x7b", "nemotron-like-8b"}) {
    CAPTURE(name);
    CHECK(run_hpplan("model show -", run_hpplan("model show " + name + " --json").out).out ==
          run_hpplan("model show " + name).out);
  }
  for (const std::string name : {"b2-b4-64", "odd-nodes"}) {
    CAPTURE(name);
    const std::string again = run_hpplan("show --cluster -", run_hpplan("cluster show " + name + " --json").out).out;
    const std::string first = run_hpplan("show --cluster -", run_hpplan("cluster show " + name).out).out;
    CHECK(again == first);
    CHECK_FALSE(again.empty());
  }
}

TEST_CASE("verbs are joined by pipes", "[cli][manners]") {
  const auto piped = [](const std::string& script) { return run_script("bash -o pipefail -c", script); };
  const CommandResult checked = piped("hpplan " + kPlan + " --out - | hpplan check -");
  CHECK(checked.code == 0);
  CHECK(checked.err.find("gpt3-350m on b2-b4-4") == 0);  // the summary of plan goes past the pipe
  CHECK(piped("hpplan " + kPlan + " --quiet --out - | hpplan check - --quiet").err.empty());
  CHECK(piped("hpplan " + kPlan + " --quiet --out - | hpplan simulate - --svg - | head -c 4").out == "<svg");
  CHECK(piped("hpplan cluster show b2-b4-4 | hpplan plan --model gpt3-350m --cluster - --global-batch 8 --micro-batch "
              "1 | head -1")
            .out == "gpt3-350m on b2-b4-4, global batch 8\n");
  CHECK(piped("echo 'base: {model: gpt3-350m, cluster: b2-b4-4, global_batch: 8, micro_batch: 1}' | "
              "hpplan sweep - --out - --quiet | hpplan sweep summarize - --csv - | wc -l")
            .out == "2\n");
}

TEST_CASE("a second - for the same stream is refused", "[cli][manners]") {
  CHECK(run_hpplan("plan --model - --cluster - --global-batch 8").err ==
        "hpplan: error: --cluster: standard input is read by --model already\n  hint: give a file\n");
  CHECK(run_hpplan("simulate plan.json --svg - --trace -").err ==
        "hpplan: error: --svg: standard output is written by --trace already\n  hint: give a file\n");
}

TEST_CASE("what is written to standard output with - is alone there", "[cli][manners]") {
  const CommandResult report = run_hpplan(kPlan + " --report -");
  CHECK_FALSE(Json::parse(report.out, nullptr, false).is_discarded());
  CHECK(report.err.find("gpt3-350m on b2-b4-4") == 0);
  const std::string schedule = "schedule --family 1f1b --stages 2 --micro-batches 2 --forward 1 --backward 2";
  CHECK_FALSE(Json::parse(run_hpplan(schedule + " --trace -").out, nullptr, false).is_discarded());
}

TEST_CASE("colours are for terminals and end with NO_COLOR", "[cli][manners]") {
  if (run_script("bash -c", "script -qec 'echo seen' /dev/null").out.find("seen") == std::string::npos) {
    WARN("skipped: script(1) is missing, or has no terminal to give");
    return;
  }
  const auto on_terminal = [](const std::string& environment, const std::string& arguments) {
    return run_script("bash -c", "env " + environment + " script -qec 'hpplan " + arguments + "' /dev/null").out;
  };
  const std::string colour = "\033[";
  for (const std::string& arguments : {std::string("show"), kPlan}) {
    CAPTURE(arguments);
    CHECK(on_terminal("TERM=xterm NO_COLOR=", arguments + " --progress never").find(colour) != std::string::npos);
    CHECK(on_terminal("TERM=xterm NO_COLOR=1", arguments + " --progress never").find(colour) == std::string::npos);
  }
  CHECK(run_hpplan("show").err.find(colour) == std::string::npos);
  CHECK(run_hpplan(kPlan).out.find(colour) == std::string::npos);
}
