#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "domain/plan.hpp"
#include "predict/problem.hpp"
#include "predict/rejection.hpp"

namespace hpplan {

/// Where a search stands: for progress bars.
struct SearchProgress {
  double incumbent_s = 0.0;  // infinity while no plan is known
  double bound_s = 0.0;
  std::int64_t work = 0;  // transitions computed so far
};

struct SearchOptions {
  int threads = 1;
  // The four optimisations, each off for comparison. The plan that is proved does not depend on them.
  bool cache_pipelines = true;  // CPC: off, every look at a branch computes its stage and pipeline tables anew
  bool skip_early = true;       // SES: off, tables keep what is slower than the best plan, and no branch is left early
  bool order_search =
      true;  // OSO: off, no simple plan or coarser space comes first, and branches keep their natural order
  bool dynamic_programming =
      true;     // DPO: off, plans are enumerated (enumeration.hpp), and the three mean what they do there
  int top = 1;  // number of truly different plans wanted (plan_shape.hpp)
  int met = 0;  // and how many of the good plans met on the way, different or not, are kept beside the best
  /// Asked between pieces of work, by one thread at a time but not always the same; true ends the search with the best
  /// plan so far and a valid bound. May be empty.
  std::function<bool()> stop;
  std::function<void(const SearchProgress&)> progress;
  /// Work, in DP transitions or what costs as much, after which the proof ends and the remaining gap is reported. A
  /// count and not a time, so that every machine ends alike.
  std::int64_t proof_budget = 500'000'000;
  std::size_t more_walks = 0;  // random walks from good plans beyond the usual ones, each with numbers of its own

  /// So many times the usual work where a gap is left: for the proof and for better plans.
  ///   effort   from 1 to kMostEffort
  void set_effort(int effort);
};

inline constexpr int kMostEffort = 10'000;

/// What may differ between runs and machines, or explains a search; never part of a plan.
struct SearchReport {
  std::int64_t branches = 0;          // parts of the search space looked at; enumeration: divisions into pipelines
  std::int64_t tables = 0;            // pipeline tables computed; enumeration: lists of pipelines
  std::int64_t tables_reused = 0;     // CPC: look-ups of tables or lists that needed no computing
  std::int64_t transitions = 0;       // DP transitions; enumeration: stages tried
  std::int64_t candidates = 0;        // sets of pipelines scored
  std::int64_t skipped = 0;           // SES: branches, stages, pipelines and sets dropped by a bound
  std::int64_t improvements = 0;      // OSO: plans that were the best when found; the fewer the better the order
  std::int64_t trials = 0;            // candidates of climbs, walks and other places
  std::int64_t trial_work = 0;        // what they cost (realise.hpp)
  std::int64_t timings = 0;           // pipelines timed and placements priced while closing branches
  std::int64_t looks = 0;             // candidates of these closures that were looked at, few of them scored
  std::int64_t work = 0;              // of all kinds, in transitions
  std::int64_t busiest = 0;           // what the busiest thread did of it, by counts
  std::int64_t tied = 0;              // stages tried to choose among plans of equal time
  bool stopped = false;               // the search was told to end before it was done
  bool exhausted = false;             // there are no more different plans than those found
  bool proved = false;                // the plan is optimal (within the tolerance)
  std::vector<Rejection> rejections;  // why nothing is feasible, nearest miss of each reason
};

struct SearchResult {
  /// Best first; empty: nothing is feasible. With `top`, no two have one shape, and no plan of another shape than those
  /// before it is faster than the `lower_bound` of a plan: where that is its time, it is the next best for sure.
  std::vector<Plan> plans;
  SearchReport report;
};

/// Note on a plan of a search that was told to end.
inline constexpr const char* kEndedEarly = "the search was ended early: the plan is the best found so far";

/// The best plan over the search space of problem.md 3, with a proved lower bound of the iteration time.
///
/// Branch and bound over (pipelines, gradient-sync share). In a branch every stage has other replicas of its layers in
/// each of the other pipelines, so its own share of the All-Reduce has a bound that depends on the stage alone. For a
/// target time T the pipeline tables give the most samples that a pipeline on resources v finishes by T, and the global
/// DP over resource vectors combines pipelines; a branch whose best combination finishes less than the global batch
/// cannot hold a plan as fast as T. Combinations that do finish are scored as placed (simulated schedules, real
/// All-Reduce); what the bound cannot separate at the end is enumerated. All comparisons are made in one order, so the
/// answer does not depend on threads.
///
/// Plans of simple shape give the first incumbents (simple_plans.hpp). Small spaces whose stages are multiples of 2, 4,
/// .. devices are searched for better ones of few pipelines. When the cluster has more than some hundred resource
/// vectors, the tables search no others. Where a gap is left, the best plans of each number of pipelines are changed
/// while that helps (climb.hpp, anneal.hpp), where the job wants several also such of fewer that are then cut in two
/// (good_plans.hpp), and prices per device bound the whole space and find more plans (column_engine.hpp); their work
/// depends on the ports and not on the number of devices. Most pipelines are too dear by bounds with one number per
/// state already (sum_bound.hpp), which see the fill and the links of deep pipelines; a DP with a frontier settles the
/// rest, and where that proves all it can, one that counts the devices of each node (pricing.hpp). In the end the
/// stages of the best plan change their order (reorder.hpp) and their places (improve_places.hpp).
///
/// Of plans with equal time the one that is first in EvenOrder is chosen, where few enough are that fast to look at
/// all.
///
/// Further plans are found by further searches, each without the shapes of the plans before it.
///
/// Work: a pipeline table costs O(stages * layers^2 * ports^2 * splits * vectors), a price O(stages * layers^2 *
/// ports^2 * splits * frontier), its bounds O(stages * layers^2 + stages * layers * ports * splits). The
/// branches of the whole space stop at `proof_budget`, which grows by the work that ends branches for good, to four
/// times itself at most, and their tables at half of that; coarser spaces and the prices stop at parts of it, changes
/// to plans and the choice among equal plans at counts of their own. Beyond that the counted work does not grow with
/// the cluster.
[[nodiscard]] SearchResult find_plan(const Problem& problem, const SearchOptions& options);

}  // namespace hpplan
