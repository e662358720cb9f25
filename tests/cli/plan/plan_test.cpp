#include <filesystem>

#include <nlohmann/json.hpp>

#include "judged_plan.hpp"
#include "support/catch.hpp"
#include "support/command.hpp"

using hpplan::test::CommandResult;
using hpplan::test::file_text;
using hpplan::test::run_hpplan;
using hpplan::test::ScratchFolder;

namespace {

const std::string kSmall =
    "plan --model gpt3-350m --cluster a100-3090-4 --global-batch 32 --micro-batch 1,2,4 --threads 1";

/// Iteration time of the plan of a problem, in seconds.
double planned_time(const std::string& problem) {
  const CommandResult result = run_hpplan("plan --json " + problem);
  REQUIRE(result.code == 0);
  return nlohmann::json::parse(result.out)["iteration_time_s"].get<double>();
}

}  // namespace

TEST_CASE("plan prints a summary, and with --out writes the plan instead", "[plan]") {
  const CommandResult summary = run_hpplan(kSmall);
  CHECK(summary.code == 0);
  CHECK_THAT(summary.out, Contains("gpt3-350m on a100-3090-4, global batch 32") && Contains("tightest memory"));
  CHECK(summary.err.empty());

  const ScratchFolder scratch;
  const CommandResult written = run_hpplan(kSmall + " --out " + scratch.path("plan.json"));
  CHECK(written.code == 0);
  CHECK(written.out.empty());
  CHECK_THAT(written.err, Contains("gpt3-350m on a100-3090-4"));
  CHECK_THAT(file_text(scratch.path("plan.json")), Contains("\"format\": \"hpplan-plan\""));

  const CommandResult quiet = run_hpplan(kSmall + " --out - --quiet");
  CHECK(quiet.out == file_text(scratch.path("plan.json")));
  CHECK(quiet.err.empty());
}

TEST_CASE("check finds nothing wrong with what plan writes", "[plan]") {
  const std::string more = GENERATE(
      std::string(""), " --type-pure", " --whole-nodes", " --pipelines 2", " --stages 2..3", " --tensor-parallel 2",
      " --optimizer-sharding stage-data-parallel", " --memory-margin '8 GB' --framework-overhead '2 GiB'",
      " --no-recompute", " --forbid 'type=rtx-3090 stage=first' --force 'layers=3-9 group=a100'",
      " --forbid device=a100-0:0", " --forbid node=rtx3090-0 --schedule 1f1b,interleaved");
  CAPTURE(more);
  const CommandResult plan = run_hpplan(kSmall + more + " --json");
  REQUIRE(plan.code == 0);
  const CommandResult check = run_hpplan("check - --model gpt3-350m --cluster a100-3090-4", plan.out);
  CHECK_THAT(check.out, Contains("ok: "));
  CHECK(check.code == 0);
}

TEST_CASE("a placement rule is kept, stands in the plan, and check holds a plan against it", "[plan]") {
  const CommandResult plan =
      run_hpplan(kSmall + " --pipelines 1 --stages 2 --forbid 'type=a100-80gb stage=first' --json");
  REQUIRE(plan.code == 0);
  auto json = nlohmann::json::parse(plan.out);
  CHECK(json["pipelines"][0]["stages"][0]["node_group"] == "rtx3090");
  CHECK(json["problem"]["constraints"]["forbid"] == nlohmann::json::array({"type=a100-80gb stage=first"}));
  json["problem"]["constraints"]["forbid"] = {"type=rtx-3090 layers=1-1", "device=a100-0:0"};
  const CommandResult check = run_hpplan("check -", json.dump());
  CHECK(check.code == 3);
  CHECK_THAT(check.out, Contains("pipelines[0].stages[0].layers") && Contains("layers that the job lets rtx3090 hold"));
  CHECK_THAT(check.out, Contains("pipelines[0].stages[1].devices") && Contains("devices that the job allows"));
}

TEST_CASE("a placement rule that makes no sense is refused with what is known", "[plan]") {
  const auto [wrong, message, hint] = GENERATE(table<std::string, std::string, std::string>({
      {"--forbid node=a100-1", "--forbid: \"node=a100-1\": the cluster has no node \"a100-1\"",
       "did you mean \"a100-0\"?"},
      {"--force 'layers=1-3'", "names no devices", "add type=, group=, node= or device="},
      {"--forbid 'typ=a100'", "unknown word \"typ\" in \"typ=a100\"", "did you mean \"type\"?"},
      {"--forbid type=a100-80gb --forbid type=rtx-3090", "no device may hold layer 0 (embedding)",
       "leave out one of the rules"},
      {"--forbid type=a100-80gb,rtx-3090", "rtx-3090\": no device may hold layer 0 (embedding)",
       "leave it out, or name fewer devices"},
      {"--forbid 'group=a100 type=rtx-3090'", "no device is all of this", "what a rule names holds together"},
  }));
  CAPTURE(wrong);
  const CommandResult result = run_hpplan(kSmall + " " + wrong);
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains(message) && Contains("hint: " + hint));
}

TEST_CASE("plans under other schedules are judged right", "[plan]") {
  const std::string more =
      GENERATE(std::string(" --schedule 1f1b,gpipe,zb-h1,zb-h2,interleaved,zb-v,v-half,v-min"),
               " --schedule dualpipe,dualpipe-v,chimera", " --schedule zb-auto",
               " --schedule paci,pipedream,pipedream-2bw --max-drift 1", " --schedule amdp --max-drift 1",
               " --in-flight adaptive --micro-batch 1", " --schedule 1f1b,zb-h1 --pipelines 2");
  CAPTURE(more);
  const CommandResult plan = run_hpplan(kSmall + more + " --json");
  REQUIRE(plan.code == 0);
  const CommandResult check = run_hpplan("check - --model gpt3-350m --cluster a100-3090-4", plan.out);
  CHECK_THAT(check.out, Contains("ok: "));
  CHECK(check.code == 0);
  const CommandResult run = run_hpplan("simulate - --json", plan.out);
  CHECK(run.code == 0);
  const auto planned = nlohmann::json::parse(plan.out);
  const auto simulated = nlohmann::json::parse(run.out);
  CHECK(simulated["iteration_time_s"].get<double>() == Approx(planned["iteration_time_s"].get<double>()));
  for (std::size_t p = 0; p < planned["pipelines"].size(); ++p) {
    for (std::size_t s = 0; s < planned["pipelines"][p]["stages"].size(); ++s) {
      const auto& stage = planned["pipelines"][p]["stages"][s];
      const auto& found = simulated["pipelines"][p]["stages"][s];
      CHECK(found["peak_in_flight"] == stage["in_flight"]);
      CHECK(found["peak_memory_bytes"] == stage["memory_bytes"]["total"]);
    }
  }
}

TEST_CASE("more schedules never give a slower plan, and say what their bound is", "[plan]") {
  const auto time_of = [](const std::string& more) {
    return nlohmann::json::parse(run_hpplan(kSmall + more + " --json").out);
  };
  const auto standard = time_of("");
  const auto more = time_of(" --schedule 1f1b,zb-h1,zb-v");
  CHECK(more["iteration_time_s"].get<double>() <= standard["iteration_time_s"].get<double>());
  CHECK(more["bound_kind"] == "work");
  CHECK(more["lower_bound_s"].get<double>() <= more["iteration_time_s"].get<double>());
  CHECK_FALSE(standard.contains("bound_kind"));
}

TEST_CASE("a plan with an asynchronous schedule states drift, accumulation and steady rate", "[plan]") {
  const CommandResult refused = run_hpplan(kSmall + " --schedule paci");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Contains("--max-drift 1"));
  const auto plan =
      nlohmann::json::parse(run_hpplan(kSmall + " --schedule paci --max-drift 1 --stages 2..4 --json").out);
  const auto& pipeline = plan["pipelines"][0];
  CHECK(pipeline["accumulation"] == pipeline["micro_batches"]);
  CHECK(pipeline["stages"][0]["drift"] == 1);
  CHECK(pipeline["steady_samples_per_s"].get<double>() ==
        Approx(pipeline["micro_batch"].get<double>() * pipeline["micro_batches"].get<double>() /
               pipeline["time_s"].get<double>()));
}

TEST_CASE("each search optimisation may be off and gives the same plan", "[plan]") {
  const std::string switched = GENERATE(std::string("--no-cpc"), "--no-ses", "--no-oso", "--no-dpo",
                                        "--no-dpo --no-oso", "--no-cpc --no-ses --no-oso");
  CAPTURE(switched);
  CHECK(run_hpplan(kSmall + " --json " + switched).out == run_hpplan(kSmall + " --json").out);
}

TEST_CASE("without any optimisation a time limit ends the search with a plan and a bound that holds", "[plan]") {
  const std::string job =
      "plan --model gpt3-1.3b --cluster a100-3090-8 --global-batch 128 --micro-batch 4 --threads 1 --json";
  const auto best = nlohmann::json::parse(run_hpplan(job).out);
  const auto stopped =
      nlohmann::json::parse(run_hpplan(job + " --no-cpc --no-ses --no-oso --no-dpo --time-limit 0.3").out);
  CHECK(stopped["complete"] == false);
  CHECK(stopped["iteration_time_s"].get<double>() >= best["iteration_time_s"].get<double>());
  CHECK(stopped["lower_bound_s"].get<double>() <= best["iteration_time_s"].get<double>());
}

TEST_CASE("a signal ends a search with the best plan so far, whatever is switched off", "[plan]") {
  const std::string switched = GENERATE(std::string(""), " --no-dpo --no-ses", " --no-cpc --no-ses --no-oso");
  const std::string signal = switched.empty() ? GENERATE(std::string("INT"), "TERM") : std::string("INT");
  CAPTURE(switched, signal);
  const CommandResult ended =
      run_hpplan("plan --model gpt3-13b --cluster b2-b4-64 --global-batch 1024 --threads 1 --json" + switched, "",
                 "timeout --preserve-status -s " + signal + " 1");
  CAPTURE(ended.err);
  CHECK(ended.code == 0);
  const auto plan = nlohmann::json::parse(ended.out);
  CHECK(plan["complete"] == false);
  CHECK(plan["gap"].get<double>() > 0.0);
}

TEST_CASE("further plans say what is proved of each, and that there are no more", "[plan]") {
  const CommandResult three = run_hpplan(kSmall + " --top 3");
  CHECK(three.code == 0);
  CHECK_THAT(three.out, Contains("next best 2: ") && Contains("next best 3: ") && Contains(", proved\n"));
  const CommandResult all = run_hpplan(kSmall + " --micro-batch 1 --pipelines 1 --stages 1 --whole-nodes --top 9");
  CHECK_THAT(all.out, Contains("there is no other plan"));
}

TEST_CASE("the report says how the search went", "[plan]") {
  const ScratchFolder scratch;
  CHECK(run_hpplan(kSmall + " --report " + scratch.path("report.json")).code == 0);
  CHECK_THAT(file_text(scratch.path("report.json")),
             Contains("\"feasible\": true") && Contains("\"wall_s\"") && Contains("\"candidates\""));
}

TEST_CASE("a model that nothing can hold ends with 3, says why and leaves no file", "[plan]") {
  const ScratchFolder scratch;
  const CommandResult result =
      run_hpplan("plan --model gpt3-70b --cluster a100-3090-4 --global-batch 32 --out " + scratch.path("plan.json"));
  CHECK(result.code == 3);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Contains("no feasible plan") && Contains("memory"));
  CHECK_FALSE(std::filesystem::exists(scratch.path("plan.json")));
}

TEST_CASE("limits that leave plans on a large cluster find one", "[plan]") {
  const CommandResult result = run_hpplan(
      "plan --model gpt3-350m --cluster b2-b4-512 --global-batch 128 --pipelines 1 --stages 8..12 --micro-batch 1,2 "
      "--json");
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains("\"hpplan-plan\""));
}

TEST_CASE("where stages of whole nodes leave no plan, smaller ones are tried", "[plan]") {
  const ScratchFolder folder;
  std::string cluster = "name: eight\nnode_groups:\n";
  for (int group = 0; group < 8; ++group) {
    const std::string number = std::to_string(group);
    cluster += "  - {name: g" + number +
               ", device: a100-80gb, nodes: 1, devices_per_node: 8,\n     intra_node: {bandwidth: 10" + number +
               " GB/s, latency: 3 us}, inter_node: {bandwidth: 200 Gbps, latency: 5 us}}\n";
  }
  const CommandResult result = run_hpplan("plan --model gpt3-350m --global-batch 64 --pipelines 16 --json --cluster " +
                                          folder.write("eight.yaml", cluster));
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains("stages take multiples of 4 devices"));
}

TEST_CASE("over slow networks the search finds what a wanted number of pipelines finds", "[plan]") {
  const ScratchFolder folder;
  const std::string cluster = folder.write(
      "slow.yaml",
      "name: slow\n"
      "device_types:\n"
      "  - {name: ascend-910b2, memory: 64 GB, peak: 376 TFLOPS, memory_bandwidth: 1.6 TB/s}\n"
      "  - {name: nvidia-a100-40gb, memory: 40 GB, peak: 312 TFLOPS, memory_bandwidth: 1.55 TB/s}\n"
      "node_groups:\n"
      "  - {name: b2, device: ascend-910b2, nodes: 5, devices_per_node: 2,\n"
      "     intra_node: {bandwidth: 1536 Gbps, latency: 3 us}, inter_node: {bandwidth: 25 Gbps, latency: 5 us}}\n"
      "  - {name: a100, device: nvidia-a100-40gb, nodes: 4, devices_per_node: 4,\n"
      "     intra_node: {bandwidth: 2400 Gbps, latency: 3 us}, inter_node: {bandwidth: 100 Gbps, latency: 5 us}}\n");
  const std::string problem = "--model gpt3-6.7b --global-batch 500 --cluster " + cluster;
  const double free = planned_time(problem);
  for (const int pipelines : {1, 2}) {
    CAPTURE(pipelines);
    CHECK(free <= planned_time(problem + " --pipelines " + std::to_string(pipelines)) * (1.0 + 1e-9));
  }
}

TEST_CASE("where the tables' budget ends early, the search finds what it finds for one pipeline", "[plan]") {
  const std::string problem = "--model gpt3-6.7b --cluster b2-b4-32 --global-batch 128";
  CHECK(planned_time(problem) <= planned_time(problem + " --pipelines 1"));
}

TEST_CASE("with overlap, pipelines that fit no batch split are passed over", "[plan]") {
  const CommandResult result = run_hpplan(
      "plan --model gpt3-1.3b --cluster a100-3090-4 --global-batch 2 --overlap --no-recompute --micro-batch 1 --stages "
      "2..4 "
      "--no-dpo --no-ses --json");
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains("\"hpplan-plan\""));
}

namespace {

std::string cluster_of_groups(int groups) {
  std::string cluster =
      "name: many\ndevice_types:\n  - {name: x, memory: 64 GB, peak: 300 TFLOPS, memory_bandwidth: 1 "
      "TB/s}\nnode_groups:\n";
  for (int g = 0; g < groups; ++g) {
    cluster += "  - {name: g" + std::to_string(g) +
               ", device: x, nodes: 1, devices_per_node: 8, intra_node: {bandwidth: 100 GB/s, latency: 3 us}, "
               "inter_node: {bandwidth: 10 GB/s, latency: 5 us}}\n";
  }
  return cluster;
}

}  // namespace

TEST_CASE("parts of nodes that can be combined in too many ways leave whole nodes", "[plan]") {
  const CommandResult result =
      run_hpplan("plan --model gpt3-350m --cluster - --global-batch 64 --json", cluster_of_groups(9));
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("stages take whole nodes") && Contains("\"bound_kind\": \"work\""));
}

TEST_CASE("nodes so large that no stage fills one are used in parts", "[plan]") {
  // 384 devices are 3 * 128: no TP degree of the model and no number of replicas that divides a micro-batch make it.
  const std::string cluster =
      "name: super\n"
      "device_types: [{name: x, memory: 64 GB, peak: 300 TFLOPS, memory_bandwidth: 1 TB/s},\n"
      "  {name: y, memory: 32 GB, peak: 200 TFLOPS, memory_bandwidth: 1 TB/s}]\n"
      "node_groups:\n"
      "  - {name: a, device: x, nodes: 16, devices_per_node: 384, intra_node: {bandwidth: 100 GB/s, latency: 3 us}, "
      "inter_node: {bandwidth: 10 GB/s, latency: 5 us}}\n"
      "  - {name: b, device: y, nodes: 16, devices_per_node: 384, intra_node: {bandwidth: 100 GB/s, latency: 3 us}, "
      "inter_node: {bandwidth: 10 GB/s, latency: 5 us}}\n";
  const CommandResult result =
      run_hpplan("plan --model gpt3-350m --cluster - --global-batch 1024 --time-limit 1 --json", cluster);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("stages take multiples of 16 devices") && Contains("\"bound_kind\": \"work\""));
}

TEST_CASE("more node groups than can be combined are a reason, not a crash", "[plan]") {
  const CommandResult result =
      run_hpplan("plan --model gpt3-350m --cluster - --global-batch 64", cluster_of_groups(20));
  CHECK(result.code == 3);
  CHECK_THAT(result.err, Contains("20 node groups") && Contains("join groups"));
}

TEST_CASE("the plan verb refuses options that make no sense", "[plan]") {
  const std::string wrong = GENERATE(
      std::string("--pipelines 0"), "--pipelines 4..2", "--stages x", "--micro-batch 0", "--tensor-parallel 3",
      "--memory-margin 5", "--optimizer-sharding zero", "--schedule 1f2b", "--schedule paci", "--in-flight some",
      "--schedule gpipe --in-flight adaptive", "--max-drift -1", "--tolerance -1", "--threads 0");
  CAPTURE(wrong);
  const CommandResult result = run_hpplan(kSmall + " " + wrong);
  CHECK(result.code == 2);
  CHECK(result.out.empty());
  CHECK_FALSE(result.err.empty());
}

TEST_CASE("what no search could resolve is bad input: A09, A10, A11", "[plan]") {
  const auto [wrong, message] = GENERATE(table<std::string, std::string>({
      {"--global-batch 8 --micro-batch 3",
       "--global-batch: global batch 8 / (micro-batch 3 x data parallelism 1) = 2.67 micro-batches, needed a whole "
       "number "
       "of at least 1\n  hint: use micro-batch 2 (4 micro-batches), or micro-batch 4 (2 micro-batches), or global "
       "batch 9"},
      {"--global-batch 7 --micro-batch 2,4",
       "--global-batch: 7 samples are no sum of micro-batches of 2, 4 samples\n"
       "  hint: allow a micro-batch of 1 sample, or change the global batch"},
      {"--global-batch 8 --stages 4 --tensor-parallel 2",
       "--stages: 4 stages x TP 2 needs 8 devices, have 4\n  hint: lower one of the degrees"},
      {"--global-batch 8 --pipelines 3.. --stages 2 --tensor-parallel 2,1",
       "--stages: 3 pipelines x 2 stages x TP 1 needs 6 devices, have 4\n  hint: lower one of the degrees"},
      {"--global-batch 8 --tensor-parallel 3",
       "--tensor-parallel: 16 heads are not a multiple of 3\n"
       "  hint: this model allows 1, 2, 4, 8; the number of stages has no such limit"},
      {"--global-batch 8 --tensor-parallel 4",
       "--tensor-parallel: degree 4 needs 4 devices in one node, the largest has 2\n"
       "  hint: use a smaller degree, or --tensor-parallel-across-nodes"},
      {"--global-batch 8 --stages x",
       "--stages: found \"x\", needed a whole number of at least 1\n  hint: write N, MIN..MAX, MIN.. or ..MAX"},
      {"--global-batch 8 --memory-margin '1 TB'",
       "--memory-margin: a margin of 931.32 GiB and a framework overhead of 1.00 GiB leave nothing of 74.51 GiB on the "
       "largest device\n  hint: lower one of them"},
      {"--global-batch 8 --framework-overhead '1 TB'",
       "--framework-overhead: a margin of 0 B and a framework overhead of 931.32 GiB leave nothing of 74.51 GiB on the "
       "largest device\n  hint: lower one of them"},
      {"--global-batch 8 --schedule 1f1c", "--schedule: unknown schedule \"1f1c\"\n  hint: did you mean \"1f1b\"?"},
  }));
  CAPTURE(wrong);
  const CommandResult result = run_hpplan("plan --model gpt3-350m --cluster a100-3090-4 " + wrong);
  CHECK(result.code == 2);
  CHECK(result.err == "hpplan: error: " + message + "\n");
  CHECK(result.out.empty());
}

TEST_CASE("every option of the job with every kind of value: a plan, bad input or no plan", "[plan]") {
  const std::string option = GENERATE("--global-batch", "--micro-batch", "--schedule", "--memory-margin", "--tolerance",
                                      "--framework-overhead", "--optimizer-sharding", "--pipelines", "--stages",
                                      "--tensor-parallel", "--time-limit", "--threads", "--effort", "--top");
  const std::string base = option == "--global-batch" ? "plan --model gpt3-350m --cluster a100-3090-4 " : kSmall + " ";
  for (const char* const value : {"''",
                                  "' '",
                                  "0",
                                  "-0",
                                  "-1",
                                  "1",
                                  "3",
                                  "1.5",
                                  "1e3",
                                  "1e999",
                                  "nan",
                                  "inf",
                                  "0x10",
                                  "007",
                                  "2147483647",
                                  "2147483648",
                                  "99999999999999999999",
                                  "1,2",
                                  "1,,2",
                                  ",",
                                  "1..2",
                                  "2..1",
                                  "..",
                                  "1..",
                                  "..2",
                                  "1...2",
                                  "'1 GB'",
                                  "'-1 GB'",
                                  "'70 GB'",
                                  "'1e30 GB'",
                                  "'1 Gb'",
                                  "none",
                                  "1f1b",
                                  "1f1b,1f1b",
                                  "$'\\xff'",
                                  "--quiet"}) {
    CAPTURE(option, value);
    const CommandResult result = run_hpplan(base + option + " " + value);
    CAPTURE(result.err);
    CHECK((result.code == 0 || result.code == 2 || result.code == 3));
    CHECK(result.out.empty() == (result.code != 0));
    if (result.code == 2) CHECK_THAT(result.err, Contains("hpplan: error: " + option + ": "));
    if (result.code == 3) CHECK_THAT(result.err, Contains("no feasible plan"));
  }
}

TEST_CASE("the help of plan groups its options and shows an example", "[plan]") {
  const CommandResult help = run_hpplan("plan --help");
  CHECK(help.code == 0);
  CHECK_THAT(help.out, Contains("Input") && Contains("Job") && Contains("Constraints") && Contains("Search") &&
                           Contains("hpplan plan --model"));
}

TEST_CASE("a time limit ends the choice of schedules too, with a plan", "[cli]") {
  const CommandResult result = run_hpplan(
      "plan --model gpt3-350m --cluster a100-3090-4 --global-batch 32 --schedule octopipe --time-limit 0.2 --out -");
  REQUIRE(result.code == 0);
  const nlohmann::json plan = nlohmann::json::parse(result.out);
  CHECK(plan["complete"] == false);
  CHECK(plan["pipelines"][0]["schedule"] == "octopipe");
}

TEST_CASE("no plan within limits: the limits are named, and those that alone are in the way", "[cli]") {
  const std::string job = "plan --model gpt3-350m --cluster a100-3090-4 --global-batch ";
  const auto reasons = [&](const std::string& limits) {
    const CommandResult result = run_hpplan(job + limits);
    CHECK(result.code == 3);
    return result.err;
  };
  CHECK_THAT(reasons("32 --stages 4 --type-pure"),
             Contains("--stages 4, --type-pure together leave no plan; without --stages 4, or without --type-pure"));
  CHECK_THAT(reasons("3 --pipelines 4"), Contains("4 pipelines run at least 4 samples, the global batch has 3"));
  CHECK_THAT(reasons("7 --schedule chimera --stages 2"), Contains("chimera") && Contains("use 8"));
  CHECK_THAT(reasons("32 --schedule amdp --max-drift 0"), Contains("amdp"));
}
