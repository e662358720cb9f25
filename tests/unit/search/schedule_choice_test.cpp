#include "search/schedule_choice.hpp"

#include <algorithm>
#include <string>

#include "predict/evaluate.hpp"
#include "search/schedule_fit.hpp"
#include "support/builders.hpp"
#include "support/catch.hpp"

using namespace hpplan;
using namespace hpplan::testing;

namespace {

/// Four devices on one node; eight blocks of 10 + 20 ms, which nothing recomputes.
ProblemSpec four_devices(std::vector<std::string> schedules) {
  ProblemSpec spec;
  spec.model.blocks = 8;
  spec.job.global_batch = 16;
  spec.job.micro_batches = {1};
  spec.job.schedules = std::move(schedules);
  return spec;
}

PipelinePlan four_stages(const Problem& problem, int micro_batches) {
  return pipeline_of(
      problem, 1, micro_batches,
      {{0, 0, 0, 1, 1, {0, 3}}, {0, 0, 1, 1, 1, {3, 5}}, {0, 0, 2, 1, 1, {5, 7}}, {0, 0, 3, 1, 1, {7, 10}}});
}

/// The best plan for one pipeline of four stages.
Plan best_of(const Problem& problem) {
  std::int64_t fits = 0;
  const std::vector<Plan> plans =
      with_best_schedules(problem, evaluate(problem, {four_stages(problem, problem.job.global_batch)}), fits);
  REQUIRE_FALSE(plans.empty());
  return plans.front();
}

}  // namespace

TEST_CASE("of the families allowed, the one with the least bubble is chosen", "[schedule-choice]") {
  // Equal stages of F 20 and Bf 40 ms without links, no split in the profile: W is modelled. ZB-H1 loses (P-1)(F+B-W),
  // less than 1F1B's (P-1)(F+Bf) and interleaved's half of that.
  CHECK(best_of(problem_of(four_devices({"gpipe", "1f1b"}))).pipelines[0].schedule == "gpipe");  // equal: the first
  const Plan plan = best_of(problem_of(four_devices({"gpipe", "1f1b", "interleaved"})));
  CHECK(plan.pipelines[0].schedule == "interleaved");
  // Two blocks a stage make two chunks: 16 * 60 + 3 * 60 / 2 ms
  CHECK(plan.pipelines[0].time.value() == Approx(0.960 + 0.090).epsilon(1e-6));
}

TEST_CASE("a family whose counts do not fit is left out", "[schedule-choice]") {
  ProblemSpec spec = four_devices({"1f1b", "interleaved"});
  spec.job.global_batch = 18;  // no multiple of 4
  CHECK(best_of(problem_of(spec)).pipelines[0].schedule == "1f1b");
}

TEST_CASE("adaptive holds more where links stall 1F1B", "[schedule-choice]") {
  ProblemSpec spec = four_devices({"1f1b", "1f1b-adaptive"});
  spec.groups[0].intra_latency_s = 0.010;  // half a forward
  const Problem problem = problem_of(spec);
  const Plan plan = best_of(problem);
  CHECK(plan.pipelines[0].schedule == "1f1b-adaptive");
  CHECK(plan.pipelines[0].stages[0].in_flight > 4);
  PipelinePlan standard = four_stages(problem, 16);
  evaluate_pipeline(problem, standard);
  CHECK(plan.pipelines[0].time < standard.time);
}

TEST_CASE("adaptive holds fewer where memory is short, and 1F1B does not fit", "[schedule-choice]") {
  ProblemSpec spec = four_devices({"1f1b", "1f1b-adaptive"});
  spec.times[0].block_saved = Bytes{1LL << 30};
  spec.job.constraints.allow_recompute = false;
  spec.groups[0].memory = Bytes{7LL << 30};  // stage 0 holds 3 of 2 GiB each, 1F1B wants 4
  const Problem problem = problem_of(spec);
  const Plan plan = best_of(problem);
  CHECK(plan.pipelines[0].schedule == "1f1b-adaptive");
  for (const StagePlan& stage : plan.pipelines[0].stages) {
    CHECK(stage.in_flight <= 3);
    CHECK(stage.memory.total() <= stage.capacity);
  }
  spec.job.schedules = {"1f1b"};
  std::int64_t fits = 0;
  CHECK(with_best_schedules(problem_of(spec), plan, fits).empty());
}

TEST_CASE("where 1F1B fits no plan, plans for more memory are tried", "[schedule-choice]") {
  ProblemSpec spec = four_devices({"1f1b", "1f1b-adaptive"});
  spec.times[0].block_saved = Bytes{1LL << 30};
  spec.job.constraints.allow_recompute = false;
  spec.job.constraints.stages = {4, 4};
  // Each device has room for a quarter of the model's states and two micro-batches of its blocks, not for 1F1B's four.
  spec.model.block_parameters = 5e7;  // 18 bytes each: 1.8 GB for two blocks
  spec.groups[0].memory = Bytes{6LL << 30};
  const Problem problem = problem_of(spec);
  SearchOptions options;
  CHECK(find_plan(problem, options).plans.empty());
  const ScheduledSearch found = find_scheduled_plan(problem, options);
  REQUIRE_FALSE(found.search.plans.empty());
  CHECK(found.search.plans.front().pipelines[0].schedule == "1f1b-adaptive");
}

TEST_CASE("micro-batches move between unlike pipelines and still make the batch", "[schedule-choice]") {
  ProblemSpec spec = four_devices({"1f1b", "zb-h1"});
  spec.job.global_batch = 24;
  GroupSpec slow;
  slow.name = "slow";
  spec.groups.push_back(slow);
  TableTimes slower;
  slower.block_forward = 0.020;
  slower.block_backward = 0.040;
  spec.times = {TableTimes{}, slower};
  const Problem problem = problem_of(spec);
  PipelinePlan fast = four_stages(problem, 14);
  PipelinePlan other = pipeline_of(
      problem, 1, 10,
      {{1, 0, 0, 1, 1, {0, 3}}, {1, 0, 1, 1, 1, {3, 5}}, {1, 0, 2, 1, 1, {5, 7}}, {1, 0, 3, 1, 1, {7, 10}}});
  std::int64_t fits = 0;
  const std::vector<Plan> plans = with_best_schedules(problem, evaluate(problem, {fast, other}), fits);
  REQUIRE_FALSE(plans.empty());
  const auto& pipelines = plans.front().pipelines;
  CHECK(pipelines[0].micro_batches + pipelines[1].micro_batches == 24);
  CHECK(pipelines[0].micro_batches > 14);  // twice as fast
}

TEST_CASE("an asynchronous family keeps to the drift allowed", "[schedule-choice]") {
  ProblemSpec spec = four_devices({"paci"});
  spec.job.max_drift = 0;
  const Problem strict = problem_of(spec);
  std::int64_t fits = 0;
  CHECK(with_best_schedules(strict, evaluate(strict, {four_stages(strict, 16)}), fits).empty());
  spec.job.max_drift = 1;
  CHECK(best_of(problem_of(spec)).pipelines[0].accumulation == 16);
}

TEST_CASE("the answer does not depend on threads", "[schedule-choice]") {
  const Problem problem = problem_of(four_devices({"1f1b", "zb-h1", "zb-v", "dualpipe"}));
  SearchOptions one;
  SearchOptions three;
  three.threads = 3;
  const auto times = [&](const SearchOptions& options) {
    std::vector<double> list;
    for (const Plan& plan : find_scheduled_plan(problem, options).search.plans)
      list.push_back(plan.iteration_time.value());
    return list;
  };
  CHECK(times(one) == times(three));
}
