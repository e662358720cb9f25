#include "search/closure.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "search/simple_plans.hpp"
#include "support/brute_force.hpp"
#include "support/catch.hpp"
#include "support/random_problems.hpp"
#include "support/search_pieces.hpp"

namespace hpplan::testing {

namespace {

/// All plans below `limit`, whatever the number of pipelines.
ClosureResult close(const Problem& problem, int threads, double limit, const ClosureBudget& budget,
                    std::function<bool()> stop = {}) {
  const Space space = make_space(problem);
  StageRows rows(problem, std::max(1, space.max_stages), threads);
  SearchTables tables(rows, space);
  Branch branch(tables, {{1, space.max_pipelines}}, limit, nullptr);
  tables.stop_when(std::move(stop));
  return close_branch(tables, branch, limit, budget);
}

}  // namespace

TEST_CASE("a closure finds the optimum, and comes as far with any number of threads where its budget ends",
          "[search][property]") {
  int closed = 0;
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Inputs inputs = random_inputs(seed, {6, 2, 6, 16});
    INFO("seed " << seed << ": " << describe(inputs));
    const Problem problem = inputs.problem();
    if (make_space(problem).ports.empty()) continue;
    const double optimum = brute_force_plan(problem).time();
    if (optimum == kInfinity) continue;
    const double limit = 1.5 * optimum;
    for (const std::int64_t most : {3, 20, 100, 100'000}) {
      CAPTURE(most);
      ClosureBudget budget;
      budget.combinations = most;
      budget.timings = 2 * most;
      const ClosureResult one = close(problem, 1, limit, budget);
      if (one.complete) CHECK(std::abs(one.best.time - optimum) <= 1e-9 * optimum);
      CHECK(one.best.time >= optimum * (1.0 - 1e-9));
      CHECK(one.best.time <= limit);
      closed += one.complete ? 1 : 0;
      found += !one.complete && one.best.time < limit ? 1 : 0;
      for (const int threads : {2, 5}) {
        const ClosureResult many = close(problem, threads, limit, budget);
        CHECK(many.complete == one.complete);
        CHECK(many.best.time == one.best.time);
        CHECK(many.best.pipelines == one.best.pipelines);
        CHECK(many.combinations == one.combinations);
        CHECK(many.timings == one.timings);
      }
    }
  }
  CHECK(closed > 20);
  CHECK(found > 20);  // a budget that ends leaves the best plan until then
}

TEST_CASE("a closure that is told to stop leaves the best plan until then", "[search]") {
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Problem problem = random_inputs(seed, {6, 2, 6, 16}).problem();
    if (make_space(problem).ports.empty()) continue;
    const double optimum = brute_force_plan(problem).time();
    if (optimum == kInfinity) continue;
    int asked = 0;
    const ClosureResult result = close(problem, 1, 1.5 * optimum, {}, [&] { return ++asked > 12; });
    if (!result.stopped) continue;
    CHECK_FALSE(result.complete);
    CHECK(result.best.time >= optimum * (1.0 - 1e-9));
    found += result.best.time < 1.5 * optimum ? 1 : 0;
  }
  CHECK(found > 0);
}

TEST_CASE("parts of a branch hold every plan, whatever the limit of each", "[search][property]") {
  int parted = 0;
  for (std::uint64_t seed = 1; seed <= 160; ++seed) {
    Inputs inputs = random_inputs(seed, {6, 1, 6, 16});
    INFO("seed " << seed << ": " << describe(inputs));
    NodeGroup& group = inputs.cluster.node_groups.front();
    group.nodes = 2;
    group.devices_per_node = 3;
    group.node_names = {"x-0", "x-1"};
    group.intra_node.bandwidth = group.intra_node.bandwidth * 20.0;
    inputs.job.constraints.pipelines = {2, 2};
    inputs.job.constraints.stages = {1, 3};
    Pieces pieces(inputs);
    if (pieces.space.ports.empty()) continue;
    for (const SimplePlan& simple : simple_plans(pieces.tables)) {
      const Realised plan = realise(pieces.tables, simple.pipelines, kInfinity, 64);
      if (plan.time == kInfinity) continue;
      // The shorter limit leaves a node less time to run layers alone, so that a plan's own share is larger there.
      const double tight = plan.time * 1.0001;
      const double loose = plan.time * 1.3;
      const PipelineCount count{2, 2};
      const double low = Branch(pieces.tables, {count}, loose, nullptr).sync_share(plan.pipelines);
      const double high = Branch(pieces.tables, {count}, tight, nullptr).sync_share(plan.pipelines);
      if (!(low < high * (1.0 - 1e-9))) continue;
      const double cut = 0.5 * (low + high);
      for (const auto& [below, above] : {std::pair(tight, loose), std::pair(loose, tight)}) {
        Branch first(pieces.tables, {count, 0.0, cut}, below, nullptr);
        Branch second(pieces.tables, {count, cut, kInfinity}, above, nullptr);
        const ClosureResult one = close_branch(pieces.tables, first, tight, {});
        const ClosureResult other = close_branch(pieces.tables, second, tight, {});
        if (!one.complete || !other.complete) continue;
        ++parted;
        CHECK(std::min(one.best.time, other.best.time) <= plan.time * (1.0 + 1e-9));
      }
    }
  }
  CHECK(parted > 5);
}

}  // namespace hpplan::testing
