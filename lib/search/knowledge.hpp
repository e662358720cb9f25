#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "search/engine.hpp"
#include "search/plan_shape.hpp"
#include "search/realise.hpp"

namespace hpplan {

/// Times this close are equal: they differ by the order of additions only.
inline constexpr double kEqualTimes = 1e-11;

/// What a search knows so far, across coarser and finer spaces.
struct Knowledge {
  SearchReport report;
  double time = kInfinity;                     // of the best plan
  std::vector<std::pair<double, Plan>> plans;  // best first
  double bound = 0.0;                          // proved over the space searched last
  bool stopped = false;
  PlanShapes excluded;                     // plans of these shapes do not count
  std::map<std::size_t, Realised> starts;  // good plans that may be changed, by number of pipelines
  std::vector<Realised> twins;             // the same, of twins
  std::set<Candidate> simple;              // pipelines of plans of simple shape
};

/// Work so far in units of one transition, each kind at what it costs: a count, so that every machine ends alike.
[[nodiscard]] std::int64_t counted_work(const SearchReport& report);

/// Has tables give no plan whose shape does not count.
void leave_out_excluded(SearchTables& tables, const Knowledge& known);

/// Keeps a plan if it is the best, or among those that are wanted beside it.
void keep_plan(const Problem& problem, const Space& space, const SearchOptions& options, const Realised& realised,
               Knowledge& known);

/// Counts plans that were tried around a known one, and their work (realise.hpp).
void count_trials(int tries, std::int64_t work, bool stopped, Knowledge& known);

/// Keeps what changes to a plan came to, and counts them.
void keep_improved(const SearchTables& tables, const SearchOptions& options, const Improved& improved,
                   Knowledge& known);

/// The pipelines of a plan as candidates of a space.
[[nodiscard]] std::vector<Candidate> candidates_of(const Space& space, const Plan& plan);

/// Seconds: no slower than the best plan.
[[nodiscard]] double best_limit(const Knowledge& known);

/// The best plan as its pipelines, where they lie.
[[nodiscard]] Realised best_known(SearchTables& tables, const Knowledge& known);

}  // namespace hpplan
