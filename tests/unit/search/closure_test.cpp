#include "search/closure.hpp"

#include <cmath>

#include "support/brute_force.hpp"
#include "support/catch.hpp"
#include "support/random_problems.hpp"

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

}  // namespace hpplan::testing
