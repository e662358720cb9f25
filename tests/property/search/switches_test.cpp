#include <string>

#include "emit/plan_json.hpp"
#include "predict/plan_stamp.hpp"
#include "search/engine.hpp"
#include "support/brute_force.hpp"
#include "support/catch.hpp"
#include "support/random_problems.hpp"

namespace hpplan::testing {

namespace {

/// Bits: 1 CPC, 2 SES, 4 OSO, 8 DPO.
SearchOptions switched(int on) {
  SearchOptions options;
  options.cache_pipelines = (on & 1) != 0;
  options.skip_early = (on & 2) != 0;
  options.order_search = (on & 4) != 0;
  options.dynamic_programming = (on & 8) != 0;
  return options;
}

std::string text_of(const Problem& problem, const SearchResult& result) {
  return result.plans.empty() ? "none" : plan_json(make_plan_file(problem, result.plans.front()));
}

Inputs tiny_inputs(std::uint64_t seed) { return random_inputs(seed, {3, 2, 2, 6}); }

}  // namespace

TEST_CASE("every combination of the four optimisations finds the same plan to the byte, and it is the best of all",
          "[search][property][switches]") {
  for (std::uint64_t seed = 5001; seed <= 5030; ++seed) {
    Inputs inputs = tiny_inputs(seed);
    if (seed % 4 == 0) constrain(inputs, seed);
    if (seed % 5 == 0) restrict_places(inputs, seed);
    INFO("seed " << seed << ": " << describe(inputs));
    const Problem problem = inputs.problem();
    const double optimum = brute_force_plan(problem).time();
    const SearchResult best = find_plan(problem, {});
    const std::string plan = text_of(problem, best);
    if (!best.plans.empty()) CHECK(best.plans.front().iteration_time.value() == Approx(optimum).epsilon(1e-9));
    for (int on = 0; on < 15; ++on) {
      CAPTURE(on);
      SearchOptions options = switched(on);
      options.threads = 1 + (on + static_cast<int>(seed)) % 8;
      const SearchResult other = find_plan(problem, options);
      CHECK(text_of(problem, other) == plan);
      CHECK(other.report.proved == !best.plans.empty());
    }
  }
}

TEST_CASE("any number of threads finds the same plan to the byte, whatever is switched off",
          "[search][property][switches]") {
  for (std::uint64_t seed = 5101; seed <= 5102; ++seed) {
    const Inputs inputs = tiny_inputs(seed);
    const Problem problem = inputs.problem();
    for (const int on : {15, 14, 7, 3}) {
      std::string plan;
      for (int threads = 1; threads <= 8; ++threads) {
        INFO("seed " << seed << ", switches " << on << ", threads " << threads << ": " << describe(inputs));
        SearchOptions options = switched(on);
        options.threads = threads;
        const std::string text = text_of(problem, find_plan(problem, options));
        if (plan.empty()) plan = text;
        CHECK(text == plan);
      }
    }
  }
}

TEST_CASE("with dynamic programming, each optimisation off finds the same plan of a larger problem",
          "[search][property][switches]") {
  for (std::uint64_t seed = 5201; seed <= 5220; ++seed) {
    const Inputs inputs = random_inputs(seed);
    INFO("seed " << seed << ": " << describe(inputs));
    const Problem problem = inputs.problem();
    const SearchResult best = find_plan(problem, {});
    for (const int on : {14, 13, 11, 8}) {
      CAPTURE(on);
      const SearchResult other = find_plan(problem, switched(on));
      REQUIRE(other.plans.size() == best.plans.size());
      if (best.plans.empty()) continue;
      CHECK(other.report.proved);
      CHECK(other.plans.front().iteration_time.value() ==
            Approx(best.plans.front().iteration_time.value()).epsilon(1e-10));
    }
  }
}

TEST_CASE("each optimisation saves work that the report counts", "[search][property][switches]") {
  const auto report = [](int on) {
    SearchReport sum;
    for (std::uint64_t seed = 5301; seed <= 5312; ++seed) {
      const SearchReport one = find_plan(random_inputs(seed, {4, 2, 3, 8}).problem(), switched(on)).report;
      sum.tables += one.tables;
      sum.tables_reused += one.tables_reused;
      sum.transitions += one.transitions;
      sum.candidates += one.candidates;
      sum.skipped += one.skipped;
      sum.improvements += one.improvements;
    }
    return sum;
  };
  const SearchReport none = report(0);
  const SearchReport cached = report(1);
  const SearchReport skipped = report(3);
  const SearchReport ordered = report(7);
  CHECK(none.tables_reused == 0);
  CHECK(cached.tables_reused > 0);
  CHECK(cached.tables < none.tables);
  CHECK(cached.transitions < none.transitions);
  CHECK(cached.skipped == 0);
  CHECK(skipped.skipped > 0);
  CHECK(skipped.candidates < cached.candidates);
  CHECK(ordered.improvements <= skipped.improvements);
  CHECK(report(15).tables_reused > report(14).tables_reused);
}

TEST_CASE("a search that is stopped has a bound that holds, whatever is switched off", "[search][property][switches]") {
  for (std::uint64_t seed = 5401; seed <= 5408; ++seed) {
    const Inputs inputs = tiny_inputs(seed);
    const Problem problem = inputs.problem();
    const double optimum = brute_force_plan(problem).time();
    for (int on = 0; on < 16; ++on) {
      for (const int asked_at_most : {0, 1, 4, 16, 64}) {
        INFO("seed " << seed << ", switches " << on << ", stopped after " << asked_at_most << ": " << describe(inputs));
        int asked = 0;
        SearchOptions options = switched(on);
        options.stop = [&] { return asked++ >= asked_at_most; };
        const SearchResult result = find_plan(problem, options);
        if (result.plans.empty()) continue;
        CHECK(result.plans.front().iteration_time.value() >= optimum * (1.0 - 1e-9));
        CHECK(result.plans.front().lower_bound.value() <= optimum * (1.0 + 1e-9));
        if (result.report.proved) CHECK(result.plans.front().iteration_time.value() == Approx(optimum).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE("with a tolerance, every combination of the optimisations keeps its promise",
          "[search][property][switches]") {
  for (std::uint64_t seed = 5501; seed <= 5512; ++seed) {
    Inputs inputs = tiny_inputs(seed);
    const double optimum = brute_force_plan(inputs.problem()).time();
    inputs.job.tolerance = 0.1;
    const Problem problem = inputs.problem();
    for (int on = 0; on < 16; ++on) {
      INFO("seed " << seed << ", switches " << on << ": " << describe(inputs));
      const SearchResult result = find_plan(problem, switched(on));
      if (result.plans.empty()) continue;
      CHECK(result.plans.front().iteration_time.value() <= optimum * 1.1 * (1.0 + 1e-9));
      CHECK(result.plans.front().lower_bound.value() <= optimum * (1.0 + 1e-9));
    }
  }
}

}  // namespace hpplan::testing
