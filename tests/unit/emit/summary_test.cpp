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
