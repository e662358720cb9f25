#include <cmath>
#include <limits>

#include "search/engine.hpp"
#include "support/brute_force.hpp"
#include "support/catch.hpp"
#include "support/random_problems.hpp"

namespace hpplan::testing {

namespace {

constexpr double kInfeasible = std::numeric_limits<double>::infinity();

/// Time of the best plan found; infinity if none.
double found_time(const SearchResult& result) {
  return result.plans.empty() ? kInfeasible : result.plans.front().iteration_time.value();
}

void compare(const Inputs& inputs, std::uint64_t seed) {
  INFO("seed " << seed << ": " << describe(inputs));
  const Problem problem = inputs.problem();
  const double optimum = brute_force_plan(problem).time();
  const SearchResult result = find_plan(problem, {});
  if (optimum == kInfeasible || result.plans.empty()) {
    CHECK(found_time(result) == optimum);
    return;
  }
  CHECK(found_time(result) == Approx(optimum).epsilon(1e-9));
  const double bound = result.plans.front().lower_bound.value();
  CHECK(bound <= optimum * (1.0 + 1e-9));
  if (result.report.proved) CHECK(bound == Approx(optimum).epsilon(1e-9));
}

}  // namespace

TEST_CASE("the plan of a small random problem is as fast as the best of all plans", "[search][property]") {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) compare(random_inputs(seed), seed);
}

TEST_CASE("the plan of a constrained random problem is as fast as the best of all plans that are allowed",
          "[search][property]") {
  for (std::uint64_t seed = 1001; seed <= 1150; ++seed) {
    Inputs inputs = random_inputs(seed);
    constrain(inputs, seed);
    compare(inputs, seed);
  }
}

TEST_CASE("with placement rules the plan is as fast as the best of all plans that keep them", "[search][property]") {
  int ruled = 0;
  for (std::uint64_t seed = 1201; seed <= 1320; ++seed) {
    Inputs inputs = random_inputs(seed);
    if (seed % 3 == 0) constrain(inputs, seed);
    restrict_places(inputs, seed);
    ruled += inputs.job.constraints.placement.empty() ? 0 : 1;
    compare(inputs, seed);
  }
  CHECK(ruled > 60);
}

TEST_CASE("thousands of random problems agree with the best of all plans", "[.][long]") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Inputs inputs = random_inputs(seed);
    if (seed > 1000) constrain(inputs, seed);
    if (seed % 4 == 0) restrict_places(inputs, seed);
    compare(inputs, seed);
  }
}

}  // namespace hpplan::testing
