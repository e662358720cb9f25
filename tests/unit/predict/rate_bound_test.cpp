#include "predict/rate_bound.hpp"

#include "predict/judge.hpp"
#include "predict/plan_stamp.hpp"
#include "support/builders.hpp"
#include "support/catch.hpp"

using namespace hpplan;
using namespace hpplan::testing;

namespace {

/// The judge's view of mixed_plan with another bound. Its work: 24 samples, 6 blocks of 30 ms on one fast device and of
/// 60 ms on one slow device, 4 devices each.
Judgement judged_with(Seconds bound, BoundKind kind) {
  const Problem problem = mixed_problem();
  Plan plan = mixed_plan(problem);
  plan.lower_bound = bound;
  plan.bound_kind = kind;
  PlanFile file = make_plan_file(problem, plan);
  return judge_plan(make_problem(problem.model, problem.cluster, problem.profiles, job_to_judge(file)), file);
}

}  // namespace

TEST_CASE("the work bound of one device type is the batch's work over the devices", "[bound]") {
  // 8 samples, 4 blocks of 10 + 20 ms, 4 devices
  ProblemSpec spec;
  spec.job.constraints.tensor_parallel = {1, 2, 4};  // the degrees whose times the test states
  CHECK(rate_bound(problem_of(spec)).value() == Approx(8 * 4 * 0.030 / 4));
}

TEST_CASE("the work bound of two device types adds their rates", "[bound]") {
  // 24 * 6 * 30 ms of work on fast devices, which 4 do at rate 1 and 4 at rate 1/2
  CHECK(rate_bound(mixed_problem()).value() == Approx(24 * 6 * 0.030 / (4 + 4 * 0.5)));
}

TEST_CASE("the judge proves a bound up to the work bound again, whatever the plan's micro-batches", "[bound][judge]") {
  const double work = rate_bound(mixed_problem()).value();
  for (const BoundKind kind : {BoundKind::Search, BoundKind::Work}) {
    const Judgement judgement = judged_with(Seconds{work}, kind);
    CHECK(judgement.ok());
    CHECK(judgement.bound == BoundVerdict::Derived);
    CHECK(judgement.work_bound == Seconds{work});
  }
}

TEST_CASE("the judge accepts the search's bound above the work bound, and refuses one that only work should prove",
          "[bound][judge]") {
  const Seconds above{rate_bound(mixed_problem()).value() * 1.01};
  CHECK(judged_with(above, BoundKind::Search).bound == BoundVerdict::Accepted);
  const Judgement refused = judged_with(above, BoundKind::Work);
  CHECK(refused.bound == BoundVerdict::Wrong);
  REQUIRE(refused.differences.size() == 1);
  CHECK(refused.differences[0].field == "lower_bound_s");
}

TEST_CASE("the judge takes no bound above the plan's time", "[bound][judge]") {
  const Judgement judgement = judged_with(Seconds{1e3}, BoundKind::Search);
  CHECK(judgement.bound == BoundVerdict::Wrong);
  CHECK_FALSE(judgement.ok());
}
