#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "search/realise.hpp"

namespace hpplan {

struct ColumnInput {
  double low = 0.0;              // a proved bound
  double incumbent = kInfinity;  // time of the best plan known
  std::vector<Candidate> seeds;  // pipelines of good plans
  int threads = 1;
  std::int64_t budget = 0;  // work after which the bound stays as it is
  double tolerance = 0.0;   // a bound this part below the best plan is enough
  std::function<void(double bound)> progress;
};

struct ColumnResult {
  double bound = 0.0;           // proved over the whole space; at most the incumbent
  std::vector<Realised> found;  // plans better than any before them
  std::int64_t work = 0;
  std::int64_t candidates = 0;  // sets of pipelines scored
  bool stopped = false;
};

/// Bound and plans of a space with too many resource vectors for tables (search-notes C.11): the time up to which no
/// packing of pipelines at any prices finishes the batch rises step by step, as steps far from the truth are quick;
/// where a packing finishes it, its pipelines are put together into plans.
/// Ends early, with what it has, when the tables' check_stop() throws.
/// Plans with one pipeline and with several are bounded apart, as the gradient sync differs most between those; where
/// the bound of several no longer rises, they are cut further by their number.
[[nodiscard]] ColumnResult search_columns(SearchTables& tables, const ColumnInput& input);

}  // namespace hpplan
