#include <string>

#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/command.hpp"

using namespace hpplan;
using test::CommandResult;
using test::run_hpplan;
using test::ScratchFolder;

namespace {

nlohmann::json alternative(const nlohmann::json& explanation, const std::string& change) {
  for (const auto& entry : explanation.at("alternatives")) {
    if (entry.at("change") == change) return entry;
  }
  return {};
}

double planned_time(const std::string& arguments) {
  const CommandResult plan = run_hpplan("plan --out - --quiet " + arguments);
  CAPTURE(arguments, plan.err);
  REQUIRE(plan.code == 0);
  return nlohmann::json::parse(plan.out).at("iteration_time_s").get<double>();
}

}  // namespace

TEST_CASE("explain says what binds, and its alternatives are what the search finds", "[cli][explain]") {
  const ScratchFolder scratch;
  const std::string problem = "--model gpt3-350m --cluster b2-b4-4 --global-batch 64 ";
  REQUIRE(run_hpplan("plan " + problem + "--out " + scratch.path("p.json")).code == 0);
  const CommandResult result = run_hpplan("explain --json --quiet " + scratch.path("p.json"));
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json explanation = nlohmann::json::parse(result.out);
  const double time = explanation.at("iteration_time_s").get<double>();
  CHECK(explanation.at("searched_again").at("relative").get<double>() == Approx(0.0).margin(1e-12));

  // The parts of the slowest pipeline add up to its time.
  const nlohmann::json plan = nlohmann::json::parse(test::file_text(scratch.path("p.json")));
  const nlohmann::json& parts = explanation.at("pipeline_time");
  double sum = 0.0;
  for (const char* part : {"work_s", "recompute_s", "imbalance_s", "links_s", "fill_s"})
    sum += parts.at(part).get<double>();
  CHECK(sum == Approx(plan.at("pipeline_time_s").get<double>()));

  const nlohmann::json pure = alternative(explanation, "with one device type per pipeline");
  CHECK(pure.at("iteration_time_s").get<double>() == Approx(planned_time(problem + "--type-pure")));
  CHECK(pure.at("iteration_time_s").get<double>() >= time);
  const nlohmann::json memory = alternative(explanation, "1 GiB more on every ascend-910b4");
  CHECK(memory.at("iteration_time_s").get<double>() <= time);
  CHECK(alternative(explanation, "one more node of b2").at("iteration_time_s").get<double>() <= time);
}

TEST_CASE("explain for people names the bottleneck and the cost of each alternative", "[cli][explain]") {
  const ScratchFolder scratch;
  REQUIRE(
      run_hpplan("plan --model gpt3-350m --cluster b2-b4-4 --global-batch 64 --out " + scratch.path("p.json")).code ==
      0);
  const CommandResult result = run_hpplan("explain --quiet " + scratch.path("p.json"));
  CHECK(result.code == 0);
  CHECK(result.err.empty());
  for (const char* words : {"what binds", "what was rejected", "do not fit in memory", "searched again: no difference",
                            "with one device type per pipeline", "% slower"}) {
    CAPTURE(words, result.out);
    CHECK(result.out.find(words) != std::string::npos);
  }
}

TEST_CASE("explain refuses a plan that does not hold", "[cli][explain]") {
  const ScratchFolder scratch;
  REQUIRE(
      run_hpplan("plan --model gpt3-350m --cluster b2-b4-4 --global-batch 64 --out " + scratch.path("p.json")).code ==
      0);
  std::string text = test::file_text(scratch.path("p.json"));
  const std::size_t place = text.find("\"iteration_time_s\": ");
  text.replace(place, std::string("\"iteration_time_s\": 1").size(), "\"iteration_time_s\": 9");
  const std::string changed = scratch.write("changed.json", text);
  const CommandResult result = run_hpplan("explain " + changed);
  CHECK(result.code == 3);
  CHECK(result.err.find("the plan does not hold") != std::string::npos);
}
