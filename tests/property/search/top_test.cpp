#include <set>

#include "search/engine.hpp"
#include "search/plan_shape.hpp"
#include "support/brute_force.hpp"
#include "support/catch.hpp"
#include "support/random_problems.hpp"

namespace hpplan::testing {

TEST_CASE("the k best plans are those that brute force finds one after the other, each of another shape",
          "[search][property][top]") {
  int plans = 0;
  int exhausted = 0;
  for (std::uint64_t seed = 6001; seed <= 6080; ++seed) {
    Inputs inputs = random_inputs(seed, {4, 2, 3, 8});
    if (seed % 3 == 0) constrain(inputs, seed);
    INFO("seed " << seed << ": " << describe(inputs));
    const Problem problem = inputs.problem();
    SearchOptions options;
    options.top = 5;
    const SearchResult found = find_plan(problem, options);
    exhausted += found.report.exhausted ? 1 : 0;
    CHECK((found.plans.empty() || found.plans.size() == 5 || found.report.exhausted));
    std::set<BruteForceShape> seen;
    for (std::size_t k = 0; k < found.plans.size(); ++k) {
      CAPTURE(k);
      const double next = brute_force_plan(problem, seen).time();
      CHECK(found.plans[k].iteration_time.value() == Approx(next).epsilon(1e-9));
      CHECK(found.plans[k].lower_bound.value() == Approx(next).epsilon(1e-9));
      CHECK(seen.insert(brute_force_shape(found.plans[k].pipelines)).second);
      ++plans;
    }
    if (found.report.exhausted) CHECK_FALSE(brute_force_plan(problem, seen).plan);
  }
  CHECK(plans > 100);
  CHECK(exhausted > 0);
}

TEST_CASE("further plans of a larger problem differ in shape, and none is faster than the bound before it",
          "[search][property][top]") {
  for (std::uint64_t seed = 6101; seed <= 6106; ++seed) {
    const Inputs inputs = random_inputs(seed, {12, 3, 8, 24});
    INFO("seed " << seed << ": " << describe(inputs));
    const Problem problem = inputs.problem();
    SearchOptions options;
    options.top = 4;
    options.proof_budget = 1'000'000;
    const SearchResult found = find_plan(problem, options);
    std::set<PlanShape> seen;
    for (std::size_t k = 0; k < found.plans.size(); ++k) {
      CHECK(seen.insert(shape_of(found.plans[k])).second);
      CHECK(found.plans[k].lower_bound <= found.plans[k].iteration_time);
      if (k == 0) continue;
      CHECK(found.plans[k].iteration_time >= found.plans[k - 1].iteration_time);
      CHECK(found.plans[k - 1].lower_bound <= found.plans[k].lower_bound);
    }
  }
}

TEST_CASE("the shape of a plan knows devices, splits and layers, not micro-batches or order", "[search][top]") {
  PipelinePlan pipeline;
  pipeline.micro_batch = 2;
  pipeline.micro_batches = 3;
  StagePlan stage;
  stage.devices = {{0, 0, 0}, {0, 0, 1}};
  stage.layers = {0, 4};
  stage.tensor_parallel = 2;
  pipeline.stages = {stage};
  Plan plan;
  plan.pipelines = {pipeline, pipeline};
  plan.pipelines[1].stages[0].data_parallel = 2;
  plan.pipelines[1].stages[0].tensor_parallel = 1;
  Plan other = plan;
  std::swap(other.pipelines[0], other.pipelines[1]);
  other.pipelines[0].micro_batch = 4;
  other.pipelines[1].micro_batches = 7;
  other.pipelines[1].stages[0].devices = {{0, 1, 0}, {0, 1, 1}};
  CHECK(shape_of(other) == shape_of(plan));
  other.pipelines[0].stages[0].layers.last = 3;
  CHECK(shape_of(other) != shape_of(plan));
}

}  // namespace hpplan::testing
