#include "search/engine.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "predict/rate_bound.hpp"
#include "search/column_engine.hpp"
#include "search/enumeration.hpp"
#include "search/good_plans.hpp"
#include "search/infeasible.hpp"
#include "search/knowledge.hpp"
#include "search/space_search.hpp"

namespace hpplan {

namespace {

/// More resource vectors than this make the pipeline tables slow: the space is coarsened until it has fewer.
constexpr std::size_t kMostVectors = 320;
/// A coarser space with at most this many vectors is searched first for a good incumbent.
constexpr std::size_t kFewVectors = 30;
/// Part of the budget that each search of a coarser space may use.
constexpr std::int64_t kCoarseShare = 40;
/// Where a plan is known, coarser spaces with more vectors are not searched.
constexpr std::size_t kCoarseVectors = 100;
/// Numbers of pipelines, from the least on, for which a coarser space is searched by itself.
constexpr int kCoarseCounts = 3;
/// So many resource vectors are combined within a minute.
constexpr double kFewIndices = 1e6;
constexpr PipelineCount kAllCounts{1, std::numeric_limits<int>::max()};
/// Where the tables leave a larger gap than this, prices look for a better bound.
constexpr double kColumnGap = 0.01;
/// Tenths of the budget that the prices may use.
constexpr std::int64_t kColumnTenths = 6;
/// Stages that may be tried to choose among plans of equal time.
constexpr std::int64_t kTieBudget = 3'000'000;
/// Walks from good plans for each time the usual effort beyond the first.
constexpr int kWalks = 4;

/// The whole space with its tables, shared by all parts of a search.
struct WholeSpace {
  WholeSpace(const Problem& problem, const SearchOptions& options)
      : space(make_space(problem)), rows(problem, std::max(1, space.max_stages), options.threads), tables(rows, space) {
  }

  Space space;
  StageRows rows;
  SearchTables tables;
};

/// Coarser and coarser spaces until one has few vectors; from coarse to fine. Spaces with too many vectors are left
/// out.
std::vector<Space> spaces_to_search(const Problem& problem) {
  std::vector<Space> spaces;
  Space space = make_space(problem);
  while (!space.ports.empty()) {
    const std::size_t vectors = space.resources.vectors().size();
    const int next = 2 * space.coarseness;
    if (vectors <= kMostVectors) spaces.push_back(std::move(space));
    if (vectors <= kFewVectors || next > problem.cluster.device_count()) break;
    space = make_space(problem, next);
  }
  std::reverse(spaces.begin(), spaces.end());
  return spaces;
}

SearchResult result_of(const Problem& problem, Knowledge& known) {
  SearchResult result;
  double proved = std::max(rate_bound(problem).value(), known.bound);
  for (auto& [time, plan] : known.plans) {
    proved = std::min(proved, plan.iteration_time.value());
    plan.lower_bound = Seconds{proved};
    plan.complete = !known.stopped;
    if (known.stopped) plan.notes.emplace_back(kEndedEarly);
    result.plans.push_back(std::move(plan));
  }
  known.report.proved =
      !result.plans.empty() && proved * (1.0 + problem.job.tolerance) >= known.time * (1.0 - kEqualTimes);
  known.report.stopped = known.stopped;
  if (result.plans.empty()) {
    std::vector<Rejection>& rejections = known.report.rejections;
    rejections = explain_infeasible(problem);
    // That the constraints leave no plan is known only if all were looked at.
    if (rejections.empty() && known.bound == kInfinity && !known.stopped) {
      rejections.push_back(limits_rejection(problem));
    } else if (rejections.empty() && !known.stopped) {
      rejections.push_back({RejectReason::Constraint,
                            -1,
                            {},
                            {},
                            "constraint: no plan was met within the limits on pipelines, stages and micro-batches; too "
                            "many for a look at each, so there may still be one: wider limits are quicker to search"});
    }
  }
  result.report = std::move(known.report);
  return result;
}

/// Bounds the whole space by prices, and looks for better plans there.
void improve_by_columns(SearchTables& tables, const SearchOptions& options, Knowledge& known) {
  const Problem& problem = tables.problem();
  const Space& space = tables.space();
  ColumnInput input;
  input.low = std::max(known.bound, rate_bound(problem).value());
  input.incumbent = known.time;
  for (const auto& [time, plan] : known.plans) {
    for (Candidate& candidate : candidates_of(space, plan)) input.seeds.push_back(std::move(candidate));
  }
  input.seeds.insert(input.seeds.end(), known.simple.begin(), known.simple.end());
  input.threads = options.threads;
  input.tolerance = problem.job.tolerance;
  input.budget = options.proof_budget / 10 * kColumnTenths;
  input.progress = [&](double bound) {
    if (options.progress) options.progress({known.time, bound, known.report.transitions});
  };
  const ColumnResult result = search_columns(tables, input);
  known.bound = result.bound;
  known.stopped = known.stopped || result.stopped;
  known.report.transitions += result.work;
  known.report.candidates += result.candidates;
  for (const Realised& realised : result.found) keep_plan(problem, space, options, realised, known);
}

void add_counts(const SearchReport& more, SearchReport& report) {
  report.branches += more.branches;
  report.tables += more.tables;
  report.tables_reused += more.tables_reused;
  report.transitions += more.transitions;
  report.candidates += more.candidates;
  report.skipped += more.skipped;
  report.improvements += more.improvements;
  report.trials += more.trials;
  report.trial_work += more.trial_work;
  report.timings += more.timings;
  report.looks += more.looks;
  report.work += more.work;
  report.busiest += more.busiest;
  report.tied += more.tied;
}

/// Good plans of the pipelines that the job asks for, out of good plans of fewer.
void take_twins(WholeSpace& whole, const SearchOptions& options, Knowledge& known) {
  Problem fewer = whole.tables.problem();
  const int least = fewer.job.constraints.pipelines.min;
  if (least < 2) return;
  fewer.job.constraints.pipelines = {(least + 1) / 2, least - 1};
  WholeSpace other(fewer, options);
  if (other.space.ports.empty()) return;
  other.tables.stop_when(options.stop);
  Knowledge found;
  start_simple(other.tables, options, found);
  if (!found.stopped && !found.plans.empty()) climb_from_best(other.tables, options, found);
  known.stopped = found.stopped;
  add_counts(found.report, known.report);
  whole.rows.share().add(other.rows.share());
  if (!known.stopped) start_from_twins(whole.tables, options, found, known);
}

/// Looks for a better incumbent: few pipelines, each number by itself, as the best plan of many is seldom in a coarse
/// space. What is proved there says nothing about the whole space.
void search_coarse(StageRows& rows, const SearchOptions& options, const Space& space, Knowledge& known) {
  const std::int64_t budget = options.proof_budget / kCoarseShare;
  const bool small = space.resources.vectors().size() <= kCoarseVectors;
  const bool nothing_known = known.time == kInfinity;
  const int least = std::max(1, rows.problem().job.constraints.pipelines.min);
  const int beyond = least + kCoarseCounts;
  for (int count = least; small && count < beyond && !known.stopped; ++count) {
    search_space(rows, options, space, {count, count}, known, budget);
  }
  if (nothing_known && !known.stopped) search_space(rows, options, space, kAllCounts, known, budget);
  known.bound = 0.0;
}

/// Branch and bound over the spaces, then by prices where that leaves a gap.
void search_branches(WholeSpace& whole, const SearchOptions& options, Knowledge& known) {
  const Problem& problem = whole.tables.problem();
  if (whole.space.ports.empty()) return;
  known.starts.clear();  // of a search before: it left out less
  known.twins.clear();
  known.simple.clear();
  std::vector<Space> spaces = spaces_to_search(problem);
  if (options.order_search) {
    start_simple(whole.tables, options, known);
  } else if (spaces.size() > 1) {
    spaces.erase(spaces.begin(), spaces.end() - 1);
  }
  for (const Space& space : spaces) {
    if (known.stopped) break;
    if (space.coarseness > 1) {
      search_coarse(whole.rows, options, space, known);
    } else {
      search_space(whole.rows, options, space, kAllCounts, known, options.proof_budget);
    }
  }
  const double enough = std::max(problem.job.tolerance, kColumnGap);
  const auto gap_is_wide = [&] {
    return !known.stopped && known.time < kInfinity && known.bound * (1.0 + enough) < known.time;
  };
  if (gap_is_wide()) take_twins(whole, options, known);
  if (gap_is_wide()) climb_from_best(whole.tables, options, known);
  if (gap_is_wide()) improve_by_columns(whole.tables, options, known);
  if (gap_is_wide()) improve_places_of_best(whole.tables, options, known);
}

/// The same without dynamic programming. Ended early, it has proved nothing beyond the work bound.
void search_by_enumeration(const WholeSpace& whole, const SearchOptions& options, Knowledge& known) {
  const Problem& problem = whole.tables.problem();
  EnumerationInput input;
  input.cache = options.cache_pipelines;
  input.skip = options.skip_early;
  input.order = options.order_search;
  input.threads = options.threads;
  input.tolerance = problem.job.tolerance;
  input.limit = known.time / (1.0 + input.tolerance);
  input.excluded = &known.excluded;
  input.stop = options.stop;
  const double ideal = rate_bound(problem).value();
  input.progress = [&](double time) {
    if (options.progress) options.progress({std::min(time, known.time), ideal, 0});
  };
  const EnumerationResult found = enumerate_plans(problem, whole.space, input);
  SearchReport& report = known.report;
  report.branches += found.divisions;
  report.tables += found.lists;
  report.tables_reused += found.lists_reused;
  report.transitions += found.stages;
  report.candidates += found.sets;
  report.skipped += found.skipped_divisions + found.skipped_stages + found.skipped_pipelines + found.skipped_sets;
  report.improvements += found.improvements;
  if (found.best.time < known.time) {
    known.time = found.best.time;
    known.plans.insert(known.plans.begin(), {found.best.time, finish(problem, whole.space, found.best)});
  }
  known.stopped = found.stopped;
  if (found.complete) known.bound = input.skip ? known.time / (1.0 + input.tolerance) : known.time;
}

/// Among plans as fast as the best one, the first in EvenOrder: the answer then does not depend on how it was found.
/// Where that would be too long a walk, or nothing is proved, the plan that was found is made more even.
void settle_ties(WholeSpace& whole, const SearchOptions& options, Knowledge& known) {
  if (known.plans.empty() || known.stopped) return;
  if (known.bound >= known.time * (1.0 - 1e-12)) {
    const Problem& problem = whole.tables.problem();
    EnumerationInput input;
    input.goal = EnumerationGoal::Even;
    input.limit = known.time * (1.0 + kEqualTimes);
    input.threads = options.threads;
    input.budget = kTieBudget;
    input.excluded = &known.excluded;
    input.stop = options.stop;
    const EnumerationResult found = enumerate_plans(problem, whole.space, input);
    known.report.tied += found.stages;
    if (found.complete && found.best.time < kInfinity) {
      known.plans.front() = {found.best.time, finish(problem, whole.space, found.best)};
      return;
    }
  }
  even_out_best(whole.tables, known);
}

/// One plan with what is proved of it: no plan whose shape is not that of a plan found before is faster than the bound.
void find_best(WholeSpace& whole, const SearchOptions& options, Knowledge& known) {
  const double floor = known.bound;
  const std::int64_t spared = whole.rows.share().total() - whole.rows.share().busiest();  // by searches before
  whole.tables.stop_when(options.stop);
  leave_out_excluded(whole.tables, known);
  options.dynamic_programming ? search_branches(whole, options, known) : search_by_enumeration(whole, options, known);
  if (known.stopped && known.plans.empty() && known.excluded.empty()) take_simple_plan(whole.tables, known);
  known.bound = std::min(std::max(known.bound, floor), known.time);
  settle_ties(whole, options, known);
  known.report.work = counted_work(known.report);
  const WorkShare& share = whole.rows.share();
  known.report.busiest = known.report.work - (share.total() - share.busiest() - spared);
}

/// Further searches, each without the shapes of the plans before it.
void find_next_best(WholeSpace& whole, const SearchOptions& options, Knowledge& first, SearchResult& result) {
  const Problem& problem = whole.tables.problem();
  std::vector<std::pair<double, Plan>> spare = std::move(first.plans);
  Knowledge known = std::move(first);
  while (static_cast<int>(result.plans.size()) < options.top) {
    known.excluded.insert(shape_of(result.plans.back()));
    known.report = {};
    known.plans.clear();
    for (auto& entry : spare) {
      if (known.excluded.count(shape_of(entry.second)) == 0) known.plans.push_back(std::move(entry));
    }
    known.time = known.plans.empty() ? kInfinity : known.plans.front().first;
    if (!known.stopped) find_best(whole, options, known);
    add_counts(known.report, result.report);
    result.report.stopped = known.stopped;
    if (known.plans.empty()) {
      result.report.exhausted = !known.stopped;
      return;
    }
    Plan plan = known.plans.front().second;
    plan.lower_bound =
        Seconds{std::min({std::max(rate_bound(problem).value(), known.bound), plan.iteration_time.value()})};
    plan.complete = !known.stopped;
    if (known.stopped) plan.notes.emplace_back(kEndedEarly);
    result.plans.push_back(std::move(plan));
    spare = std::move(known.plans);
  }
}

/// A search that was not proved may be overtaken by a later one: then the bounds are those of the plans that follow.
void rank(std::vector<Plan>& plans) {
  std::stable_sort(plans.begin(), plans.end(),
                   [](const Plan& a, const Plan& b) { return a.iteration_time < b.iteration_time; });
  Seconds least{kInfinity};
  for (std::size_t k = plans.size(); k-- > 0;) {
    least = std::min(least, plans[k].lower_bound);
    plans[k].lower_bound = least;
  }
}

SearchResult refuse_uncountable(const Problem& problem) {
  SearchResult refused;
  refused.report.rejections.push_back(
      {RejectReason::Constraint,
       -1,
       {},
       {},
       concat("constraint: ", problem.cluster.group_count(), " node groups with ", problem.cluster.device_count(),
              " devices can be combined in too many ways: join groups of one device type")});
  return refused;
}

/// The problem with stages large enough for their combinations to be counted, and what these stages are.
using LargerStages = std::pair<Problem, std::string>;

/// Whole nodes, and parts so large that they are quickly combined; best first, nothing if none will do.
std::vector<LargerStages> with_larger_stages(Problem problem) {
  const auto usable = [&](double most) { return space_is_countable(problem, most) && has_stage_shapes(problem); };
  std::vector<LargerStages> all;
  const int node = problem.cluster.largest_node();
  Constraints& constraints = problem.job.constraints;
  const bool parts = !std::exchange(constraints.whole_nodes, true);
  if (usable(kMostIndices)) all.emplace_back(problem, "whole nodes");
  constraints.whole_nodes = false;
  for (const double most : {kFewIndices, kMostIndices}) {
    for (int unit = 2; parts && unit <= node; unit *= 2) {
      constraints.part_unit = unit;
      if (usable(most)) all.emplace_back(problem, concat("multiples of ", unit, " devices"));
    }
  }
  return all;
}

/// The best plan of larger stages, where parts of nodes can be combined in too many ways to count them. What is proved
/// is the work of the batch.
SearchResult find_plan_of_larger_stages(const Problem& problem, const SearchOptions& options) {
  const std::vector<LargerStages> choices = with_larger_stages(problem);
  if (choices.empty()) return refuse_uncountable(problem);
  SearchResult result;
  for (const auto& [countable, stages] : choices) {
    result = find_plan(countable, options);
    result.report.proved = false;
    for (Plan& plan : result.plans) {
      plan.lower_bound = std::min(rate_bound(problem), plan.iteration_time);
      plan.bound_kind = BoundKind::Work;
      plan.notes.push_back(concat("stages take ", stages, ": parts of the nodes of ", problem.cluster.device_count(),
                                  " devices can be combined in too many ways"));
    }
    if (!result.plans.empty() || result.report.stopped) return result;
  }
  // That larger stages leave no plan says nothing about smaller ones.
  result.report.rejections = explain_infeasible(problem);
  if (result.report.rejections.empty()) result.report.rejections = refuse_uncountable(problem).report.rejections;
  return result;
}

}  // namespace

void SearchOptions::set_effort(int effort) {
  proof_budget = SearchOptions{}.proof_budget * effort;
  more_walks = static_cast<std::size_t>(kWalks * (effort - 1));
}

SearchResult find_plan(const Problem& problem, const SearchOptions& options) {
  Knowledge known;
  if (!space_is_countable(problem)) return find_plan_of_larger_stages(problem, options);
  if (!states_fit(problem) || !batch_reachable(problem.job)) return result_of(problem, known);
  WholeSpace whole(problem, options);
  find_best(whole, options, known);
  if (options.top <= 1) return result_of(problem, known);
  const std::vector<std::pair<double, Plan>> all = known.plans;
  SearchResult result = result_of(problem, known);
  if (result.plans.empty()) return result;
  result.plans.resize(1);
  known.plans = all;
  find_next_best(whole, options, known, result);
  rank(result.plans);
  return result;
}

}  // namespace hpplan
