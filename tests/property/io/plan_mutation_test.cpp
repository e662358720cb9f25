// A plan file, broken in every simple way, as `check` sees it.
#include <set>
#include <string>

#include "emit/plan_json.hpp"
#include "io/plan_reader.hpp"
#include "predict/judge.hpp"
#include "predict/plan_stamp.hpp"
#include "support/builders.hpp"
#include "support/catch.hpp"
#include "support/mutation.hpp"

using namespace hpplan;
using namespace hpplan::test;
using namespace hpplan::testing;

namespace {

std::string good_plan() {
  const Problem problem = mixed_problem();
  return plan_json(make_plan_file(problem, mixed_plan(problem)));
}

/// Whether the plan in `text` is right. Throws InputError if the text is no plan.
bool is_right(const std::string& text) {
  PlanFile file = parse_plan(text, "f");
  const Problem made = mixed_problem();
  return judge_plan(make_problem(made.model, made.cluster, made.profiles, job_to_judge(file)), file).ok();
}

}  // namespace

TEST_CASE("every mutation of a plan is handled, and none is called right but of remarks and of the job",
          "[io][property]") {
  const json good = as_json(good_plan());
  REQUIRE(is_right(good.dump()));
  std::set<std::string> unnoticed;
  for_each_mutant(good, [&](const Mutant& mutant) {
    bool right = false;
    const Parse judge = [&](const std::string& text) {
      right = is_right(text);
      return "";
    };
    const std::string fault = mishandled(judge, mutant.text);
    if (!fault.empty()) FAIL(mutant.field.to_string() + ": " + fault + "\n" + mutant.text.substr(0, 3000));
    const bool is_same = !mutant.is_duplicate && json::parse(mutant.text) == good;  // such as 0 replaced by 0
    if (right && !is_same) unnoticed.insert(mutant.field.to_string());
  });
  for (const std::string& field : unnoticed) {
    // Another job may allow the same plan; whether it is the best one is not what `check` asks.
    CAPTURE(field);
    CHECK((field.rfind("/notes", 0) == 0 || field.rfind("/problem/", 0) == 0));
  }
}
