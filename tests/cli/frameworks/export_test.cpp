#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/command.hpp"

using namespace hpplan;
using test::CommandResult;
using test::run_hpplan;
using test::ScratchFolder;

TEST_CASE("export: unknown targets and unreadable plans leave no folder behind", "[cli]") {
  const ScratchFolder scratch;
  const std::string inputs = " --model gpt3-350m --cluster b2-b4-4 --out " + scratch.path("launch");
  const CommandResult target = run_hpplan("export - --to tourch" + inputs, "{}");
  CHECK(target.code == 2);
  CHECK(target.err.find("did you mean \"torch\"?") != std::string::npos);
  CHECK(run_hpplan("export - --to torch" + inputs, "{}").code == 2);
  CHECK(run_hpplan("export - --to torch" + inputs, "{").code == 2);
  CHECK_FALSE(std::filesystem::exists(scratch.path("launch")));
}

TEST_CASE("export writes into a new or empty folder only", "[cli]") {
  const ScratchFolder scratch;
  scratch.write("file", "");
  const std::string inputs = " --model gpt3-350m --cluster b2-b4-4";
  CHECK(run_hpplan("export - --to torch --out " + scratch.path() + inputs, "{}").err.find("exists and is not empty") !=
        std::string::npos);
  CHECK(run_hpplan("export - --to torch --out " + scratch.path("file") + inputs, "{}")
            .err.find("is a file, not a folder") != std::string::npos);
  CHECK(run_hpplan("export - --to torch --out " + scratch.path("no/where") + inputs, "{}").err.find("does not exist") !=
        std::string::npos);
}

TEST_CASE("export writes a folder, not standard output", "[cli]") {
  const CommandResult result = run_hpplan("export - --to torch --out - --model gpt3-350m --cluster b2-b4-4", "{}");
  CHECK(result.code == 2);
  CHECK(result.err.find("is standard output, but there are several files to write") != std::string::npos);
}

TEST_CASE("the help of export lists every target", "[cli]") {
  const std::string help = run_hpplan("export --help").out;
  for (const char* name : {"torch", "megatron", "flagscale", "hetu", "galvatron", "mindformers", "metis", "slurm"}) {
    CAPTURE(name);
    CHECK(help.find(std::string("\n  ") + name + " ") != std::string::npos);
  }
}

TEST_CASE("a plan that makes no sense is not exported", "[cli]") {
  const ScratchFolder scratch;
  const std::string inputs = " --model gpt3-350m --cluster b2-b4-4";
  const CommandResult found = run_hpplan("plan" + inputs + " --global-batch 16 --quiet --out -");
  REQUIRE(found.code == 0);
  const auto export_changed = [&](const auto& change) {
    nlohmann::ordered_json plan = nlohmann::ordered_json::parse(found.out);
    change(plan);
    return run_hpplan("export - --to torch --out " + scratch.path("launch") + inputs, plan.dump());
  };
  const CommandResult layers = export_changed([](auto& plan) { plan["pipelines"][0]["stages"][0]["layers"][0] = 1; });
  CHECK(layers.code == 2);
  CHECK(layers.err.find("pipelines[0]") != std::string::npos);
  const CommandResult batch = export_changed([](auto& plan) { plan["pipelines"][0]["micro_batches"] = 1000; });
  CHECK(batch.code == 2);
  CHECK(batch.err.find("problem.global_batch") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(scratch.path("launch")));
  CHECK(export_changed([](auto& plan) { plan["pipelines"][0]["stages"][0]["forward_s"] = 9.0; }).code == 0);
}

TEST_CASE("a found plan goes to torch and to slurm, whole", "[cli]") {
  const ScratchFolder scratch;
  const std::string inputs = " --model gpt3-350m --cluster b2-b4-4";
  const CommandResult plan =
      run_hpplan("plan" + inputs + " --global-batch 16 --micro-batch 1,2 --quiet --out " + scratch.path("plan.json"));
  CAPTURE(plan.err);
  REQUIRE(plan.code == 0);
  for (const std::string target : {"torch", "slurm"}) {
    CAPTURE(target);
    const CommandResult result = run_hpplan("export " + scratch.path("plan.json") + inputs + " --to " + target +
                                            " --out " + scratch.path(target));
    CAPTURE(result.err);
    CHECK(result.code == 0);
    CHECK(result.out.find(scratch.path(target) + "/ranks.tsv\n") != std::string::npos);
    CHECK(std::filesystem::exists(scratch.path(target) + "/ranks.tsv"));
  }
  const CommandResult other = run_hpplan("export " + scratch.path("plan.json") +
                                         " --model gpt3-1.3b --cluster b2-b4-4 --to torch --out " + scratch.path("x"));
  CHECK(other.code == 2);
  CHECK(other.err.find("problem.model: the plan was made for gpt3-350m") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(scratch.path("x")));
}
