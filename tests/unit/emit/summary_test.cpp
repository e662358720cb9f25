#include "emit/summary.hpp"

#include <sstream>

#include "predict/plan_stamp.hpp"
#include "support/builders.hpp"
#include "support/catch.hpp"

using namespace hpplan;
using namespace hpplan::testing;

namespace {

std::string mixed_summary(TextStyle style = TextStyle::Plain) {
  const Problem problem = mixed_problem();
  return plan_summary(make_plan_file(problem, mixed_plan(problem)), style);
}

}  // namespace

TEST_CASE("a summary has a line per stage and says what limits the plan", "[summary]") {
  const std::string text = mixed_summary();
  CHECK_THAT(text, Contains("test-model on test-cluster, global batch 24"));
  CHECK_THAT(text, Contains("2.04 % above the optimum"));  // 1 / 0.98 - 1
  CHECK_THAT(text, Contains("8 x 2 = 16 (66.7 %)"));
  CHECK_THAT(text, Contains("2x score+softmax"));
  CHECK_THAT(text, Contains("fast-0:0-1") && Contains("slow-0:2"));
  CHECK_THAT(text, Contains("idle: 1 device: slow-0:3"));
  CHECK_THAT(text, Contains("note: stage times of \"slow\" are stated by a test"));
}

TEST_CASE("a summary fits into 120 columns and has colours only when asked for", "[summary]") {
  std::istringstream lines(mixed_summary());
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(line.size() <= 120);
    CHECK((line.empty() || line.back() != ' '));
  }
  CHECK(mixed_summary().find('\x1b') == std::string::npos);
  CHECK(mixed_summary(TextStyle::Coloured).find('\x1b') != std::string::npos);
}

TEST_CASE("a summary shows pipelines that are alike once where there are many", "[summary]") {
  const Problem problem = mixed_problem();
  PlanFile file = make_plan_file(problem, mixed_plan(problem));
  CHECK_THAT(plan_summary(file), !Contains("alike"));
  const std::size_t last = file.plan.pipelines.size() - 1;
  for (int copy = 0; copy < 40; ++copy) {
    file.plan.pipelines.push_back(file.plan.pipelines[last]);
    file.plan.intra_pipeline_imbalance.push_back(0.0);
    file.placements.push_back(file.placements[last]);
  }
  CHECK_THAT(plan_summary(file), Contains(std::to_string(last) + " and 40 alike") && Contains("the plan file has all"));
}
