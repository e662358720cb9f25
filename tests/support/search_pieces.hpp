#pragma once

#include <algorithm>

#include "search/candidate.hpp"
#include "search/realise.hpp"
#include "search/simple_plans.hpp"
#include "support/brute_force.hpp"
#include "support/catch.hpp"
#include "support/random_problems.hpp"

namespace hpplan::testing {

/// Everything below find_plan for one problem.
struct Pieces {
  explicit Pieces(const Inputs& inputs)
      : problem(inputs.problem()), space(make_space(problem)), rows(problem, std::max(1, space.max_stages), 1),
        tables(rows, space) {}

  Problem problem;
  Space space;
  StageRows rows;
  SearchTables tables;
};

/// body(pieces, optimum, start) for the plans of simple shape of small random problems that can be placed; `optimum` is
/// the brute force's time.
template <typename Body>
void for_each_simple_start(int placements, const Body& body) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Inputs inputs = random_inputs(seed, {6, 2, 6, 16});
    INFO("seed " << seed << ": " << describe(inputs));
    Pieces pieces(inputs);
    if (pieces.space.ports.empty()) continue;
    const double optimum = brute_force_plan(pieces.problem).time();
    for (const SimplePlan& simple : simple_plans(pieces.tables)) {
      const Realised start = realise(pieces.tables, simple.pipelines, kInfinity, placements);
      if (start.time < kInfinity) body(pieces, optimum, start);
    }
  }
}

}  // namespace hpplan::testing
