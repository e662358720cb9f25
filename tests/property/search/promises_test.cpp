#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "predict/evaluate.hpp"
#include "search/engine.hpp"
#include "support/brute_force.hpp"
#include "support/catch.hpp"
#include "support/random_problems.hpp"

namespace hpplan::testing {

namespace {

constexpr double kInfeasible = std::numeric_limits<double>::infinity();

double found_time(const SearchResult& result) {
  return result.plans.empty() ? kInfeasible : result.plans.front().iteration_time.value();
}

/// What must hold of any plan, whoever made it.
void check_feasible(const Problem& problem, const Plan& plan) {
  int samples = 0;
  std::set<DevicePlace> seen;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    samples += pipeline.micro_batch * pipeline.micro_batches;
    CHECK(std::count(problem.job.micro_batches.begin(), problem.job.micro_batches.end(), pipeline.micro_batch) == 1);
    int next_layer = 0;
    for (const StagePlan& stage : pipeline.stages) {
      CHECK(stage.layers.first == next_layer);
      CHECK(stage.layers.size() >= 1);
      next_layer = stage.layers.last;
      CHECK(pipeline.micro_batch % stage.data_parallel == 0);
      CHECK(static_cast<int>(stage.devices.size()) == stage.tensor_parallel * stage.data_parallel);
      CHECK(stage.memory.total() <= stage.capacity);
      for (const DevicePlace& place : stage.devices) {
        CHECK(place.group == stage.node_group);
        CHECK(seen.insert(place).second);
      }
      // TP groups are consecutive devices and lie on one node.
      for (std::size_t d = 0; d < stage.devices.size(); ++d) {
        const auto first =
            d / static_cast<std::size_t>(stage.tensor_parallel) * static_cast<std::size_t>(stage.tensor_parallel);
        CHECK(stage.devices[d].node == stage.devices[first].node);
      }
    }
    CHECK(next_layer == problem.model.layer_count());
  }
  CHECK(samples == problem.job.global_batch);
  CHECK(static_cast<int>(seen.size() + plan.idle_devices.size()) == problem.cluster.device_count());
}

/// The decisions of a plan, without any predicted number.
std::vector<PipelinePlan> decisions(const Plan& plan) {
  std::vector<PipelinePlan> pipelines;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    PipelinePlan& copy = pipelines.emplace_back();
    copy.micro_batch = pipeline.micro_batch;
    copy.micro_batches = pipeline.micro_batches;
    copy.schedule = pipeline.schedule;
    for (const StagePlan& stage : pipeline.stages) {
      StagePlan& decided = copy.stages.emplace_back();
      decided.node_group = stage.node_group;
      decided.devices = stage.devices;
      decided.layers = stage.layers;
      decided.tensor_parallel = stage.tensor_parallel;
      decided.data_parallel = stage.data_parallel;
      decided.recompute = stage.recompute;
    }
  }
  return pipelines;
}

bool same_decisions(const Plan& a, const Plan& b) {
  return a.iteration_time == b.iteration_time && a.lower_bound == b.lower_bound &&
         std::equal(a.pipelines.begin(), a.pipelines.end(), b.pipelines.begin(), b.pipelines.end(),
                    [](const PipelinePlan& p, const PipelinePlan& q) {
                      return p.micro_batch == q.micro_batch && p.micro_batches == q.micro_batches &&
                             std::equal(p.stages.begin(), p.stages.end(), q.stages.begin(), q.stages.end(),
                                        [](const StagePlan& s, const StagePlan& t) {
                                          return s.devices == t.devices && s.layers == t.layers &&
                                                 s.tensor_parallel == t.tensor_parallel && s.recompute == t.recompute;
                                        });
                    });
}

SearchOptions with_threads(int threads) {
  SearchOptions options;
  options.threads = threads;
  return options;
}

/// The plan, its bound and its proof against brute force, with the gradient sync hidden in the drain.
void check_overlapped(Inputs inputs) {
  inputs.job.overlap_gradient_sync = true;
  const Problem problem = inputs.problem();
  const double optimum = brute_force_plan(problem).time();
  for (const bool dynamic_programming : {true, false}) {
    SearchOptions options;
    options.dynamic_programming = dynamic_programming;
    const SearchResult result = find_plan(problem, options);
    REQUIRE(result.plans.empty() == (optimum == kInfeasible));
    if (result.plans.empty()) continue;
    CHECK(found_time(result) >= optimum * (1.0 - 1e-9));
    CHECK(result.plans.front().lower_bound.value() <= optimum * (1.0 + 1e-9));
    if (result.report.proved) CHECK(found_time(result) == Approx(optimum).epsilon(1e-9));
  }
}

}  // namespace

TEST_CASE("a plan is feasible, and judging its decisions again gives its times", "[search][property]") {
  for (std::uint64_t seed = 2001; seed <= 2100; ++seed) {
    const Inputs inputs = random_inputs(seed, {12, 3, 10, 32});
    INFO("seed " << seed << ": " << describe(inputs));
    const Problem problem = inputs.problem();
    SearchOptions options;
    options.proof_budget = 2'000'000;
    for (const Plan& plan : find_plan(problem, options).plans) {
      check_feasible(problem, plan);
      const Plan judged = evaluate(problem, decisions(plan));
      CHECK(judged.iteration_time == plan.iteration_time);
      CHECK(judged.pipeline_time == plan.pipeline_time);
      CHECK(plan.lower_bound <= plan.iteration_time);
    }
  }
}

TEST_CASE("any number of threads finds the same plan", "[search][property]") {
  for (std::uint64_t seed = 2201; seed <= 2230; ++seed) {
    const Inputs inputs = random_inputs(seed);
    INFO("seed " << seed << ": " << describe(inputs));
    const Problem problem = inputs.problem();
    const SearchResult one = find_plan(problem, with_threads(1));
    for (const int threads : {2, 3, 8}) {
      const SearchResult many = find_plan(problem, with_threads(threads));
      REQUIRE(many.plans.size() == one.plans.size());
      if (!one.plans.empty()) CHECK(same_decisions(one.plans.front(), many.plans.front()));
    }
  }
}

TEST_CASE("further walks end with one plan for any number of threads, and no slower one", "[search][property]") {
  int walked = 0;
  for (std::uint64_t seed = 4201; seed <= 4215; ++seed) {
    Inputs inputs = random_inputs(seed, {24, 3, 8, 48});
    if (inputs.cluster.device_count() < 8) continue;
    INFO("seed " << seed << ": " << describe(inputs));
    const Problem problem = inputs.problem();
    const auto plan_with = [&](std::size_t more_walks, int threads) {
      SearchOptions options;
      options.proof_budget = 1'000'000;
      options.more_walks = more_walks;
      options.threads = threads;
      return find_plan(problem, options);
    };
    const SearchResult usual = plan_with(0, 1);
    if (usual.plans.empty() || usual.report.proved) continue;
    ++walked;
    const SearchResult one = plan_with(5, 1);
    const SearchResult three = plan_with(5, 3);
    CHECK(same_decisions(one.plans.front(), three.plans.front()));
    CHECK(three.report.trials == one.report.trials);
    CHECK(one.report.trials > usual.report.trials);
    CHECK(one.plans.front().iteration_time <= usual.plans.front().iteration_time);
  }
  CHECK(walked > 5);
}

TEST_CASE("effort multiplies the work of the proof, and adds walks", "[search]") {
  SearchOptions options;
  options.set_effort(1);
  CHECK(options.proof_budget == SearchOptions{}.proof_budget);
  CHECK(options.more_walks == 0);
  options.set_effort(20);
  CHECK(options.proof_budget == 20 * SearchOptions{}.proof_budget);
  CHECK(options.more_walks > 0);
}

TEST_CASE("with a tolerance the plan is within it, and the bound still holds", "[search][property]") {
  for (std::uint64_t seed = 2301; seed <= 2340; ++seed) {
    Inputs inputs = random_inputs(seed);
    const double optimum = brute_force_plan(inputs.problem()).time();
    for (const double tolerance : {0.01, 0.2}) {
      inputs.job.tolerance = tolerance;
      INFO("seed " << seed << ", tolerance " << tolerance << ": " << describe(inputs));
      const SearchResult result = find_plan(inputs.problem(), {});
      REQUIRE(result.plans.empty() == (optimum == kInfeasible));
      if (result.plans.empty()) continue;
      CHECK(found_time(result) >= optimum * (1.0 - 1e-9));
      CHECK(found_time(result) <= optimum * (1.0 + tolerance) * (1.0 + 1e-9));
      CHECK(result.plans.front().lower_bound.value() <= optimum * (1.0 + 1e-9));
    }
  }
}

TEST_CASE("a search that is stopped after any wave reports a bound that holds", "[search][property]") {
  for (std::uint64_t seed = 2401; seed <= 2425; ++seed) {
    const Inputs inputs = random_inputs(seed);
    const Problem problem = inputs.problem();
    const double optimum = brute_force_plan(problem).time();
    for (const int waves : {0, 1, 2, 3, 5, 8, 13, 21}) {
      INFO("seed " << seed << ", stopped after " << waves << ": " << describe(inputs));
      int asked = 0;
      SearchOptions options;
      options.stop = [&] { return asked++ >= waves; };
      const SearchResult result = find_plan(problem, options);
      if (result.plans.empty()) continue;
      CHECK(found_time(result) >= optimum * (1.0 - 1e-9));
      CHECK(result.plans.front().lower_bound.value() <= optimum * (1.0 + 1e-9));
      if (result.report.proved) CHECK(found_time(result) == Approx(optimum).epsilon(1e-9));
    }
  }
}

TEST_CASE("no bound that progress shows is above the optimum", "[search][property]") {
  for (std::uint64_t seed = 2601; seed <= 2640; ++seed) {
    const Problem problem = random_inputs(seed).problem();
    double shown = 0.0;
    SearchOptions options;
    options.progress = [&](const SearchProgress& state) { shown = std::max(shown, state.bound_s); };
    const SearchResult result = find_plan(problem, options);
    if (result.plans.empty() || !result.report.proved) continue;
    INFO("seed " << seed);
    CHECK(shown <= found_time(result) * (1.0 + 1e-9));
  }
}

TEST_CASE("a further search that is stopped is reported, and its plans say so", "[search][property]") {
  int stopped = 0;
  for (std::uint64_t seed = 2701; seed <= 2720; ++seed) {
    const Problem problem = random_inputs(seed).problem();
    int asked = 0;
    SearchOptions options;
    options.stop = [&] { return ++asked < 0; };
    if (find_plan(problem, options).plans.empty()) continue;
    const int first = asked;
    bool told = false;
    options.top = 50;
    options.stop = [&, asks = 0]() mutable { return told = told || ++asks > first + 20; };
    const SearchResult result = find_plan(problem, options);
    INFO("seed " << seed);
    CHECK(result.report.stopped == told);
    if (!told || result.plans.size() < 2) continue;
    ++stopped;
    const auto says_so = [](const Plan& plan) {
      return std::count(plan.notes.begin(), plan.notes.end(), kEndedEarly) == (plan.complete ? 0 : 1);
    };
    CHECK(std::all_of(result.plans.begin(), result.plans.end(), says_so));
  }
  CHECK(stopped > 3);
}

TEST_CASE("with hidden gradient synchronisation the bound still holds", "[search][property]") {
  for (std::uint64_t seed = 2501; seed <= 2540; ++seed) {
    Inputs inputs = random_inputs(seed, {5, 2, 4, 8});
    INFO("seed " << seed << ": " << describe(inputs));
    check_overlapped(std::move(inputs));
  }
}

TEST_CASE("with hidden gradient synchronisation the slowest pipeline alone does not tell the best batch split",
          "[search][property]") {
  for (std::uint64_t seed = 341; seed <= 380; ++seed) {
    Inputs inputs = random_inputs(seed, {6, 2, 6, 16});
    inputs.job.constraints.pipelines = {2, 2};
    inputs.job.constraints.stages = {2, -1};
    INFO("seed " << seed << ": " << describe(inputs));
    check_overlapped(std::move(inputs));
  }
}

TEST_CASE("a batch that no micro-batch sizes add up to has no plan, and the report says so", "[search][property]") {
  // 7 = 3 + 4 = 5 + 2: neither rest is a sum of 3 and 5, though their greatest common divisor is 1.
  Inputs inputs = random_inputs(1);
  inputs.job.micro_batches = {3, 5};
  inputs.job.global_batch = 7;
  const SearchResult result = find_plan(inputs.problem(), {});
  CHECK(result.plans.empty());
  REQUIRE_FALSE(result.report.rejections.empty());
  CHECK(result.report.rejections.front().reason == RejectReason::BatchNotReachable);
}

}  // namespace hpplan::testing
