#include "search/good_plans.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/for_each_index.hpp"
#include "predict/rate_bound.hpp"
#include "search/anneal.hpp"
#include "search/climb.hpp"
#include "search/even_out.hpp"
#include "search/improve_places.hpp"
#include "search/reorder.hpp"
#include "search/simple_plans.hpp"

namespace hpplan {

namespace {

/// A stage table with more ranges of layers times depths than this takes seconds to build.
constexpr double kManyResults = 1e6;

/// Placements of a simple plan that are priced.
constexpr int kPlacementsTried = 64;
/// Pipelines of plans of simple shape start the prices where the plan is within this factor of the best of them.
constexpr double kFirstColumns = 1.4;
/// How far from the best a simple plan may be that is looked at, the first of its number of pipelines, as simple plans
/// are worse where that does not divide the cluster, and a plan to walk on from when it was climbed from.
constexpr double kNearBest = 1.05;
constexpr double kFarBest = 1.12;
constexpr double kNearWhenClimbed = 1.06;
constexpr double kTwins = 2e-4;
/// Work (trial_work) of a climb and of random walks from a plan, of all changes to good plans after which no other is
/// begun, and of other places for the best plan.
constexpr std::int64_t kClimbWork = 25'000'000;
constexpr std::int64_t kAnnealWork = 30'000'000;
constexpr std::int64_t kImproveWork = 100'000'000;
constexpr std::int64_t kPlacesWork = 10'000'000;
/// Plans that are climbed from side by side, whatever the number of threads.
constexpr std::size_t kClimbsAtOnce = 2;
/// Other orders of the best plan's stages that are looked at in other places, and how far from it they may be.
constexpr std::size_t kMostOrders = 3;
constexpr double kNearOrder = 1.005;
/// The same for good plans of each number of pipelines.
constexpr std::size_t kMostNear = 4;
constexpr double kNearPlaces = 1.015;
/// Moves of a layer that may be priced to make the plan even.
constexpr int kEvenTries = 300;

/// Plans that are worth changing, the fastest first.
std::vector<Realised> plans_to_climb(const Knowledge& known) {
  std::vector<Realised> all = known.twins;
  for (const auto& [pipelines, start] : known.starts) all.push_back(start);
  std::stable_sort(all.begin(), all.end(), [](const Realised& a, const Realised& b) { return a.time < b.time; });
  std::vector<Realised> starts;
  for (Realised& start : all) {
    if (start.time > known.time * kFarBest) break;
    // A pipeline and its twins of half the devices take the same time, and so do changes of both twins.
    if (!starts.empty() && start.time - starts.back().time < kTwins * start.time) continue;
    starts.push_back(std::move(start));
  }
  return starts;
}

/// Keeps a plan that may be changed, if it is the best of its number of pipelines.
void keep_start(const Realised& plan, Knowledge& known) {
  Realised& start = known.starts[plan.pipelines.size()];
  if (plan.time < start.time) start = plan;
}

/// Gives a pipeline the first half of every stage's nodes, or its own half of one node; returns the places of its twin.
std::vector<std::vector<int>> cut_places(std::vector<std::vector<int>>& stages) {
  std::vector<std::vector<int>> twin = stages;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].size() < 2) continue;
    const auto half = static_cast<std::ptrdiff_t>(stages[s].size() / 2);
    stages[s].erase(stages[s].begin() + half, stages[s].end());
    twin[s].erase(twin[s].begin(), twin[s].begin() + half);
  }
  return twin;
}

/// A plan with two pipelines of half the devices for each of the first that can be halved, until there are `count`;
/// its time is infinite if that comes to nothing.
Realised cut_into_twins(SearchTables& tables, const Realised& plan, std::size_t count, Knowledge& known) {
  std::vector<Candidate> pipelines = plan.pipelines;
  Placement places = plan.placement;
  for (std::size_t i = 0; i < pipelines.size() && pipelines.size() < count; ++i) {
    const std::optional<Candidate> twin = twin_of(tables, pipelines[i]);
    if (!twin) continue;
    pipelines[i] = *twin;
    pipelines.push_back(*twin);
    places.push_back(cut_places(places[i]));
  }
  const bool allowed = tables.problem().job.constraints.pipelines.allows(static_cast<int>(pipelines.size()));
  if (pipelines.size() == plan.pipelines.size() || !allowed) return {};
  ++known.report.candidates;
  return realise(tables, std::move(pipelines), kInfinity, kPlacementsTried, std::move(places));
}

/// Changes a plan while that makes it faster, and walks on from there if that comes near the best.
std::vector<Improved> climb_and_walk(SearchTables& tables, const Realised& start, double best) {
  std::vector<Improved> found{climb(tables, start, kClimbWork)};
  const Improved& climbed = found.front();
  if (!climbed.stopped && climbed.plan.time <= std::min(best, climbed.plan.time) * kNearWhenClimbed)
    found.push_back(anneal(tables, climbed.plan, kAnnealWork, AnnealMoves::KeepCount));
  return found;
}

/// Keeps what changes to plans came to that were made side by side; returns their work.
std::int64_t keep_all(SearchTables& tables, const SearchOptions& options,
                      const std::vector<std::vector<Improved>>& found, Knowledge& known) {
  std::vector<std::int64_t> parts(found.size(), 0);
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const Improved& improved : found[i]) {
      keep_improved(tables, options, improved, known);
      parts[i] += improved.work;
    }
  }
  tables.share().add(parts);
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
}

/// Plans to walk on from: the best of each number of pipelines, the fastest first, as long as they are near the best.
std::vector<Realised> plans_to_walk_from(const Knowledge& known) {
  std::vector<Realised> near;
  for (const auto& [pipelines, start] : known.starts) {
    if (start.time <= known.time * kNearWhenClimbed) near.push_back(start);
  }
  std::stable_sort(near.begin(), near.end(), [](const Realised& a, const Realised& b) { return a.time < b.time; });
  return near;
}

/// Other orders of a plan's stages, and other places for it and for these.
std::vector<Improved> improve_orders_and_places(SearchTables& tables, const Realised& plan) {
  Orders orders = other_orders(tables, plan, plan.time * kNearOrder, kMostOrders, kPlacesWork);
  std::vector<Improved> found{{plan, orders.tries, orders.work, orders.stopped}};
  orders.plans.insert(orders.plans.begin(), plan);
  for (const Realised& start : orders.plans) {
    if (found.back().stopped) break;
    found.push_back(improve_places(tables, start, kPlacesWork));
  }
  return found;
}

/// Further walks, two side by side: every other one from the best plan, the rest from good plans in turn. What they
/// come to is placed anew where it is near the best, once.
void walk_more(SearchTables& tables, std::vector<SearchTables>& forks, const SearchOptions& options, Knowledge& known) {
  const double ideal = rate_bound(tables.problem()).value();
  std::set<std::vector<Candidate>> placed;
  for (std::size_t first = 0; first < options.more_walks; first += kClimbsAtOnce) {
    const std::vector<Realised> starts = plans_to_walk_from(known);
    if (starts.empty()) return;
    std::vector<std::vector<Improved>> walks(std::min(kClimbsAtOnce, options.more_walks - first));
    for_each_index(walks.size(), tables.threads(), [&](std::size_t i) {
      const std::size_t walk = first + i;
      const Realised& start = starts[walk % 2 == 0 ? 0 : walk / 2 % starts.size()];
      walks[i] = {anneal(forks[i], start, kAnnealWork, AnnealMoves::All, walk + 1)};
    });
    keep_all(tables, options, walks, known);
    std::vector<Realised> near;
    for (const std::vector<Improved>& walk : walks) {
      const Realised& plan = walk.front().plan;
      keep_start(plan, known);
      if (plan.time <= known.time * kNearPlaces && placed.insert(plan.pipelines).second) near.push_back(plan);
    }
    if (known.stopped) return;
    std::vector<std::vector<Improved>> found(near.size());
    for_each_index(near.size(), tables.threads(),
                   [&](std::size_t i) { found[i] = improve_orders_and_places(forks[i], near[i]); });
    keep_all(tables, options, found, known);
    if (options.progress) options.progress({known.time, std::max(known.bound, ideal), known.report.transitions});
    if (known.stopped) return;
  }
}

}  // namespace

void start_simple(SearchTables& tables, const SearchOptions& options, Knowledge& known) {
  try {
    const std::vector<SimplePlan> plans = simple_plans(tables);
    for (const SimplePlan& simple : plans) {
      if (simple.time > plans.front().time * kFirstColumns) break;
      known.simple.insert(simple.pipelines.begin(), simple.pipelines.end());
    }
    for (const SimplePlan& simple : plans) {
      // Slower ones may still be wanted as alternatives, or become the best by some changes.
      const bool first = known.starts.count(simple.pipelines.size()) == 0;
      const double limit = options.met > 1 ? kInfinity : known.time * (first ? kFarBest : kNearBest);
      if (simple.time >= limit) continue;
      ++known.report.candidates;
      const Realised realised = realise(tables, simple.pipelines, limit, kPlacementsTried);
      if (realised.time == kInfinity) continue;
      keep_plan(tables.problem(), tables.space(), options, realised, known);
      keep_start(realised, known);
    }
  } catch (const SearchStopped&) {
    known.stopped = true;
  }
}

void start_from_twins(SearchTables& tables, const SearchOptions& options, const Knowledge& fewer, Knowledge& known) {
  const auto least = static_cast<std::size_t>(tables.problem().job.constraints.pipelines.min);
  try {
    for (const auto& [count, whole] : fewer.starts) {
      const Realised twins = cut_into_twins(tables, whole, least, known);
      if (twins.time == kInfinity) continue;
      keep_plan(tables.problem(), tables.space(), options, twins, known);
      known.twins.push_back(twins);
    }
  } catch (const SearchStopped&) {
    known.stopped = true;
  }
}

void climb_from_best(SearchTables& tables, const SearchOptions& options, Knowledge& known) {
  try {
    const Realised best = best_known(tables, known);
    const bool is_twin = std::any_of(known.twins.begin(), known.twins.end(),
                                     [&](const Realised& twin) { return twin.time <= best_limit(known); });
    if (best.time < kInfinity && !is_twin) known.starts[best.pipelines.size()] = best;
    // Pipelines of half the devices take the same time, but can be changed apart from each other.
    std::vector<Realised> starts;
    for (Realised& start : plans_to_climb(known)) {
      Realised twins = cut_into_twins(tables, start, 2 * start.pipelines.size(), known);
      starts.push_back(std::move(start));
      if (twins.time < kInfinity) starts.push_back(std::move(twins));
    }
    std::vector<SearchTables> forks = tables.fork(kClimbsAtOnce);
    std::int64_t work = 0;
    for (std::size_t first = 0; first < starts.size() && work < kImproveWork; first += kClimbsAtOnce) {
      std::vector<std::vector<Improved>> found(std::min(kClimbsAtOnce, starts.size() - first));
      for_each_index(found.size(), tables.threads(),
                     [&](std::size_t i) { found[i] = climb_and_walk(forks[i], starts[first + i], known.time); });
      work += keep_all(tables, options, found, known);
      for (const std::vector<Improved>& one : found) {
        for (const Improved& improved : one) keep_start(improved.plan, known);
      }
      if (known.stopped) return;
    }
    const Realised start = best_known(tables, known);
    if (start.time == kInfinity) return;
    const Improved walked = anneal(tables, start, kAnnealWork, AnnealMoves::All);
    keep_improved(tables, options, walked, known);
    keep_start(walked.plan, known);
    walk_more(tables, forks, options, known);
  } catch (const SearchStopped&) {
    known.stopped = true;
  }
}

void improve_places_of_best(SearchTables& tables, const SearchOptions& options, Knowledge& known) {
  try {
    const Realised best = best_known(tables, known);
    if (best.time == kInfinity) return;
    Orders orders = other_orders(tables, best, best.time * kNearOrder, kMostOrders, kPlacesWork);
    count_trials(orders.tries, orders.work, orders.stopped, known);
    std::vector<Realised> starts = std::move(orders.plans);
    starts.insert(starts.begin(), best);
    std::vector<Realised> near;
    for (const auto& [count, start] : known.starts) {
      if (start.time <= best.time * kNearPlaces && start.pipelines != best.pipelines) near.push_back(start);
    }
    std::stable_sort(near.begin(), near.end(), [](const Realised& a, const Realised& b) { return a.time < b.time; });
    if (near.size() > kMostNear) near.resize(kMostNear);
    starts.insert(starts.end(), near.begin(), near.end());
    std::vector<SearchTables> forks = tables.fork(starts.size());
    std::vector<Improved> found(starts.size());
    for_each_index(starts.size(), tables.threads(),
                   [&](std::size_t i) { found[i] = improve_places(forks[i], starts[i], kPlacesWork); });
    std::vector<std::int64_t> parts;
    for (const Improved& improved : found) {
      keep_improved(tables, options, improved, known);
      parts.push_back(improved.work);
    }
    tables.share().add(parts);
  } catch (const SearchStopped&) {
    known.stopped = true;
  }
}

void even_out_best(SearchTables& tables, Knowledge& known) {
  const Space& space = tables.space();
  try {
    const double limit = best_limit(known);
    Realised best = best_known(tables, known);
    if (best.time > limit) return;
    best = even_out(tables, std::move(best), limit, kEvenTries);
    known.plans.front() = {best.time, finish(tables.problem(), space, best)};
  } catch (const SearchStopped&) {
    known.stopped = known.stopped || known.bound < known.time;  // what is proved stays proved
  }
}

void take_simple_plan(SearchTables& tables, Knowledge& known) {
  const Space& space = tables.space();
  if (space.ports.empty()) return;
  tables.stop_when({});  // it has stopped already
  const std::vector<int>& sizes = tables.problem().job.micro_batches;
  const double results = static_cast<double>(tables.ranges().count()) * space.max_stages;
  // A deep model has large tables: one micro-batch size after the other, until a plan is met.
  const std::size_t together = results > kManyResults ? 1 : sizes.size();
  for (std::size_t first = 0; first < sizes.size() && known.plans.empty(); first += together) {
    for (const SimplePlan& simple : simple_plans(tables, std::span(sizes).subspan(first, together))) {
      ++known.report.candidates;
      const Realised realised = realise(tables, simple.pipelines, kInfinity, 1);
      if (realised.time == kInfinity) continue;
      known.time = realised.time;
      known.plans.emplace_back(realised.time, finish(tables.problem(), space, realised));
      break;
    }
  }
}

}  // namespace hpplan
