#include "judged_plan.hpp"
#include "support/catch.hpp"
#include "support/command.hpp"

using namespace hpplan::testing;
using hpplan::test::CommandResult;
using hpplan::test::run_hpplan;

namespace {

const std::string kInputs = " --model gpt3-350m --cluster a100-3090-4";

CommandResult check(const std::string& plan, const std::string& more = kInputs) {
  return run_hpplan("check -" + more, plan);
}

}  // namespace

TEST_CASE("check accepts a right plan, from standard input", "[check]") {
  const CommandResult result = check(hand_made_plan());
  CHECK(result.out.substr(0, 4) == "ok: ");
  CHECK_THAT(result.out, Contains("accepted, not proved again"));
  CHECK(result.err.empty());
  CHECK(result.code == 0);
}

TEST_CASE("check takes the model and the cluster that the plan names", "[check]") {
  CHECK(check(hand_made_plan(), "").code == 0);
}

TEST_CASE("check ends with 3 and says what is wrong", "[check]") {
  const auto [from, to, message] = GENERATE(table<std::string, std::string, std::string>({
      {"\"global_batch\": 32", "\"global_batch\": 33", "problem.global_batch: found 33, expected 32"},
      {"\"in_flight\": 2", "\"in_flight\": 1", "pipelines[0].stages[0].in_flight: found 1, expected 2"},
      {"\"layers\": [19, 26]", "\"layers\": [20, 26]", "every layer exactly once"},
      {"\"version\": 1", "\"version\": 9", "version: found version 9"},
      {"\"schedule\": \"1f1b\"", "\"schedule\": \"1f2b\"", "pipelines[0].schedule: found 1f2b"},
      {"\"bubble\": 0.", "\"bubble\": -0.", "bubble"},
      {"\"notes\": []", "\"notes\": [], \"remark\": 1", "remark"},
  }));
  CAPTURE(from, to);
  const CommandResult result = check(replaced(hand_made_plan(), from, to));
  CHECK_THAT(result.out, Contains(message));
  CHECK(result.code == 3);
}

TEST_CASE("check finds a plan of another model wrong", "[check]") {
  const CommandResult result = check(hand_made_plan(), " --model gpt3-1.3b --cluster a100-3090-4");
  CHECK_THAT(result.out, Contains("problem.model.digest"));
  CHECK(result.code == 3);
}

TEST_CASE("check prints differences for programs", "[check]") {
  const CommandResult good = check(hand_made_plan(), kInputs + " --json");
  CHECK_THAT(good.out,
             Contains("\"ok\": true") && Contains("\"bound\": {\"verdict\": \"accepted\", \"work_bound_s\": 0."));
  const CommandResult bad =
      check(replaced(hand_made_plan(), "\"in_flight\": 2", "\"in_flight\": 1"), kInputs + " --json");
  CHECK_THAT(bad.out,
             Contains("{\"field\": \"pipelines[0].stages[0].in_flight\", \"found\": \"1\", \"expected\": \"2\""));
  CHECK(bad.code == 3);
}

TEST_CASE("what is no document is bad input, not a wrong plan", "[check]") {
  const CommandResult result = check("{\"format\": ");
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Contains("error"));
  CHECK(result.code == 2);
  CHECK(run_hpplan("check missing.json" + kInputs).code == 2);
}

TEST_CASE("simulate reports the times that the plan states", "[simulate]") {
  const CommandResult text = run_hpplan("simulate -", hand_made_plan());
  CHECK_THAT(text.out, Contains("pipeline 0: 1f1b, 16 micro-batches of 2"));
  CHECK(text.code == 0);
  const CommandResult json = run_hpplan("simulate - --json", hand_made_plan());
  CHECK_THAT(json.out, Contains("\"peak_in_flight\": 2"));
  CHECK(json.code == 0);
}

TEST_CASE("simulate writes a trace and a picture", "[simulate]") {
  const hpplan::test::ScratchFolder scratch;
  const CommandResult result =
      run_hpplan("simulate - --trace " + scratch.path("t.json") + " --svg " + scratch.path("t.svg"), hand_made_plan());
  CHECK(result.code == 0);
  CHECK_THAT(hpplan::test::file_text(scratch.path("t.json")), Contains("\"traceEvents\"") && Contains("\"optimizer\""));
  CHECK_THAT(hpplan::test::file_text(scratch.path("t.svg")), Contains("<svg ") && Contains("pipeline 0: 1f1b"));
}

TEST_CASE("simulate refuses a plan that departs from the format, with a position", "[simulate]") {
  const CommandResult result =
      run_hpplan("simulate -", replaced(hand_made_plan(), "\"in_flight\": 2", "\"in_flight\": 0"));
  CHECK_THAT(result.err, Contains("in_flight") && Contains("error"));
  CHECK(result.code == 2);
}
