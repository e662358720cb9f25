#pragma once

#include <algorithm>

#include "search/candidate.hpp"
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

}  // namespace hpplan::testing
