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

TEST_CASE("over three node groups the plan is as fast as the best of all plans", "[search][property]") {
  int three = 0;
  for (std::uint64_t seed = 1401; seed <= 1480; ++seed) {
    Inputs inputs = random_inputs(seed, {6, 3, 4, 12});
    if (inputs.cluster.group_count() < 3) continue;
    ++three;
    if (seed % 4 == 0) constrain(inputs, seed);
    compare(inputs, seed);
  }
  CHECK(three > 15);
}

TEST_CASE("where links are slower than stages the plan is as fast as the best of all plans", "[search][property]") {
  for (std::uint64_t seed = 1501; seed <= 1540; ++seed) {
    Inputs inputs = random_inputs(seed, {5, 2, 5, 12});
    const double slowness = 1.0 + static_cast<double>(seed % 20);
    const auto slow = [&](Link& link) { link = {link.bandwidth / slowness, link.latency * slowness}; };
    for (NodeGroup& group : inputs.cluster.node_groups) {
      slow(group.intra_node);
      slow(group.inter_node);
    }
    for (std::vector<Link>& row : inputs.cluster.group_links) {
      for (Link& link : row) slow(link);
    }
    compare(inputs, seed);
  }
}

TEST_CASE("with unlike layers in any order the plan is as fast as the best of all plans", "[search][property]") {
  for (std::uint64_t seed = 1601; seed <= 1640; ++seed) {
    Inputs inputs = random_inputs(seed, {4, 2, 6, 8});
    LayerKind wide = inputs.model.kinds[1];
    wide.name = "wide";
    wide.mlp->ffn *= 4;
    LayerKind bare = inputs.model.kinds[1];
    bare.name = "bare";
    bare.attention.reset();
    const auto first = static_cast<int>(inputs.model.kinds.size());
    inputs.model.kinds.push_back(wide);
    inputs.model.kinds.push_back(bare);
    Dice dice(seed);
    for (int layer = 1; layer <= inputs.model.block_count(); ++layer) {
      inputs.model.layers[static_cast<std::size_t>(layer)] = dice.one_of({1, first, first + 1});
    }
    inputs.profiles.clear();  // modelled: the measured kinds are others
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
