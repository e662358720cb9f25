#include <string>

#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/command.hpp"

using namespace hpplan;
using test::CommandResult;
using test::run_hpplan;

TEST_CASE("schedule: the result alone is on standard output", "[cli][schedule]") {
  const CommandResult result =
      run_hpplan("schedule --family 1f1b --stages 4 --micro-batches 8 --forward 1 --backward 2 --json");
  CHECK(result.code == 0);
  CHECK(result.err.empty());
  const auto json = nlohmann::json::parse(result.out);
  CHECK(json["makespan"] == 33.0);
  CHECK(json["peak_in_flight"] == std::vector<int>{4, 3, 2, 1});
  CHECK(json["busy"] == std::vector<double>{24, 24, 24, 24});
}

TEST_CASE("schedule: lists give one value per stage", "[cli][schedule]") {
  // GPipe: 1+2+1 + 3*2 forward, 2+2+4 + 3*4 backward, two links of 0.5 both ways
  const CommandResult result = run_hpplan(
      "schedule --family gpipe --stages 3 --micro-batches 4 --forward 1,2,1 --backward 2,2,4 --communication 0.5 "
      "--json");
  CHECK(nlohmann::json::parse(result.out)["makespan"] == 32.0);
}

TEST_CASE("schedule: limits of a family take exit code 2", "[cli][schedule]") {
  const CommandResult result =
      run_hpplan("schedule --family interleaved --stages 4 --micro-batches 6 --forward 1 --backward 2");
  CHECK(result.code == 2);
  CHECK(result.out.empty());
  CHECK(result.err ==
        "hpplan: error: micro-batches: 6 micro-batches are not a multiple of 4 stages\n"
        "  hint: interleaved runs micro-batches in groups of the stage count: use 8\n");
}

TEST_CASE("schedule: layers from a file are partitioned by octopipe", "[cli][schedule]") {
  const CommandResult result = run_hpplan("schedule --family octopipe --stages 2 --micro-batches 4 --layers - --json",
                                          "kinds:\n  block: {forward: 1, backward: 1, weight_gradient: 1}\n"
                                          "layers: [{kind: block, count: 5}, {name: head, forward: 2, backward: 2}]\n");
  CHECK(result.code == 0);
  CHECK(result.err.empty());
  const auto json = nlohmann::json::parse(result.out);
  CHECK(json["partition"].front().front() == 0);
  CHECK(json["partition"].back().back() == 6);
  CHECK(json["makespan"].get<double>() >= json["lower_bound"].get<double>());
  CHECK(json["programs"].size() == 2);
}

TEST_CASE("schedule: options that a family does not look at are refused", "[cli][schedule]") {
  const std::string base = "schedule --stages 4 --micro-batches 8 --forward 1 --backward 2 --family ";
  const std::pair<const char*, const char*> unused[] = {
      {"1f1b", "--chunks 2"},         {"1f1b", "--memory-limit 2"},
      {"1f1b", "--in-flight 2"},      {"1f1b", "--max-drift 1"},
      {"gpipe", "--accumulation 4"},  {"1f1b", "--weight-gradient-memory 0.5"},
      {"zb-h1", "--overlap 0.9"},     {"amdp", "--weight-gradient-memory 0.5"},
      {"pipedream", "--max-drift 1"},
  };
  for (const auto& [family, option] : unused) {
    CAPTURE(family, option);
    const CommandResult result = run_hpplan(base + family + " " + option);
    CHECK(result.code == 2);
    CHECK(result.err.find(std::string(family) + " does not take it") != std::string::npos);
  }
  CHECK(run_hpplan(base + "interleaved --chunks 2 --forward 1 --backward 2").code == 2);  // given twice
  CHECK(run_hpplan(base + "interleaved --chunks 2").code == 0);
  CHECK(run_hpplan(base + "zb-auto --memory-limit 4").code == 0);
}
