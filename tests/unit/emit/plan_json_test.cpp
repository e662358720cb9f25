#include "emit/plan_json.hpp"

#include <limits>

#include "base/check.hpp"
#include "base/diagnostic.hpp"
#include "io/plan_reader.hpp"
#include "predict/plan_stamp.hpp"
#include "support/builders.hpp"
#include "support/catch.hpp"

using namespace hpplan;
using namespace hpplan::testing;

namespace {

std::string mixed_text() {
  const Problem problem = mixed_problem();
  return plan_json(make_plan_file(problem, mixed_plan(problem)));
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string faults_of(const std::string& text) {
  try {
    (void)parse_plan(text, "plan.json");
  } catch (const InputError& error) {
    std::string all;
    for (const Diagnostic& diagnostic : error.diagnostics()) all += to_text(diagnostic) + "\n";
    return all;
  }
  return "";
}

}  // namespace

TEST_CASE("a plan that is written, read and written again is the same bytes", "[plan_json]") {
  const std::string text = mixed_text();
  CHECK(plan_json(parse_plan(text, "plan.json")) == text);
}

TEST_CASE("a time survives the file to the last bit", "[plan_json]") {
  const Problem problem = mixed_problem();
  PlanFile file = make_plan_file(problem, mixed_plan(problem));
  file.plan.pipelines[0].stages[0].forward = Seconds{0.1 + 0.2};
  const PlanFile read = parse_plan(plan_json(file), "plan.json");
  CHECK(read.plan.pipelines[0].stages[0].forward.value() == 0.1 + 0.2);
}

TEST_CASE("a number that JSON cannot hold is refused", "[plan_json]") {
  const Problem problem = mixed_problem();
  PlanFile file = make_plan_file(problem, mixed_plan(problem));
  SECTION("NaN") { file.plan.pipelines[1].time = Seconds{std::numeric_limits<double>::quiet_NaN()}; }
  SECTION("infinity") { file.plan.iteration_time = Seconds{std::numeric_limits<double>::infinity()}; }
  CHECK_THROWS_AS(plan_json(file), InternalError);
}

TEST_CASE("devices of a plan file are found in the cluster by name", "[plan_json]") {
  const Problem problem = mixed_problem();
  const Plan plan = mixed_plan(problem);
  PlanFile file = parse_plan(plan_json(make_plan_file(problem, plan)), "plan.json");
  CHECK(place_on(problem.cluster, file).empty());
  CHECK(file.plan.pipelines[1].stages[1].devices == plan.pipelines[1].stages[1].devices);
  CHECK(file.plan.idle_devices == plan.idle_devices);

  file.placements[1][1].devices[0].node = "slow-7";
  const std::vector<Difference> differences = place_on(problem.cluster, file);
  REQUIRE(differences.size() == 1);
  CHECK(differences[0].field == "pipelines[1].stages[1].devices[0]");
  CHECK(differences[0].found == "slow-7:2");
}

TEST_CASE("the plan reader says where a plan departs from the format", "[plan_reader]") {
  const std::string text = mixed_text();
  REQUIRE(faults_of(text).empty());
  const auto [from, to, message] = GENERATE(table<std::string, std::string, std::string>({
      {"\"hpplan-plan\"", "\"plan\"", "plan.json:2:13: error: format: found \"plan\""},
      {"\"version\": 1", "\"version\": 2", "version"},
      {"\"micro_batches\": 8", "\"micro_batch_count\": 8", "micro_batches"},
      {"\"micro_batches\": 8", "\"micro_batches\": 0", "micro_batches"},
      {"\"micro_batches\": 8", "\"micro_batches\": \"8\"", "micro_batches"},
      {"\"in_flight\": 2", "\"in_flight\": -2", "in_flight"},
      {"\"forward_s\": ", "\"forward_s\": -", "forward_s"},
      {"\"layers\": [0, 5]", "\"layers\": [5, 5]", "layers"},
      {"\"layers\": [0, 5]", "\"layers\": [0, 5, 8]", "layers"},
      {"\"provenance\": \"measured\"", "\"provenance\": \"guessed\"", "provenance"},
      {"\"complete\": true", "\"complete\": 1", "complete"},
      {"\"notes\": [", "\"nodes\": [", "notes"},
      {"\"other\": 0", "\"other\": 1", "total"},
  }));
  CAPTURE(from, to);
  const std::string faults = faults_of(with(text, from, to));
  CHECK_THAT(faults, Contains(message));
  CHECK_THAT(faults, Contains("plan.json:"));
}
