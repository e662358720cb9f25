#pragma once

#include <cstdint>

#include "search/branch.hpp"
#include "search/realise.hpp"

namespace hpplan {

/// Work of a set of pipelines that is priced, of one more placement of it, or of one pipeline timed; and of a set, or a
/// part of one, that is only looked at. In transitions of the pipeline tables.
constexpr std::int64_t kCandidateWork = 2'000;
constexpr std::int64_t kLookWork = 500;

/// How much a closure may enumerate before it gives up.
struct ClosureBudget {
  std::size_t chains = 20'000;          // pipelines of one (vector, micro-batch size)
  std::int64_t combinations = 100'000;  // sets of pipelines looked at
  int placements = 20'000;              // placements of one set of pipelines
  std::int64_t timings = 200'000;       // pipelines timed and placements priced, in all
};

struct ClosureResult {
  bool complete = true;  // every plan of the branch below the limit was scored
  bool stopped = false;  // by the tables' check_stop(), with the best plan until then
  Realised best;         // the best plan found below the limit, if any
  std::int64_t combinations = 0;
  std::int64_t timings = 0;
};

/// Scores every plan of a branch that the relaxation cannot separate from `limit`: all multisets of resource vectors
/// whose pipelines could finish the batch in time, all pipelines on them, all placements. Exact unless a budget ends
/// it; only a pipeline that two of half its devices can replace (twin_of) is left to plans of one pipeline more.
[[nodiscard]] ClosureResult close_branch(SearchTables& tables, Branch& branch, double limit,
                                         const ClosureBudget& budget);

}  // namespace hpplan
