#include "search/reorder.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "search/layer_cut.hpp"

namespace hpplan {

namespace {

constexpr int kPlacements = 16;
/// Orders of one pipeline that are few enough to try all.
constexpr double kFewOrders = 150.0;

/// Distinct orders of the stages.
double order_count(const StageList& stages) {
  std::map<StageList::value_type, int> seen;
  double count = 1.0;
  for (std::size_t k = 0; k < stages.size(); ++k) count *= static_cast<double>(k + 1) / ++seen[stages[k]];
  return count;
}

std::vector<StageList> orders_of(const StageList& stages) {
  std::vector<StageList> orders;
  if (order_count(stages) <= kFewOrders) {
    StageList order = stages;
    std::sort(order.begin(), order.end());
    do {
      orders.push_back(order);
    } while (std::next_permutation(order.begin(), order.end()));
    return orders;
  }
  for (std::size_t a = 0; a < stages.size(); ++a) {
    for (std::size_t b = a + 1; b < stages.size(); ++b) {
      if (stages[a] == stages[b]) continue;
      orders.push_back(stages);
      std::swap(orders.back()[a], orders.back()[b]);
    }
  }
  return orders;
}

}  // namespace

Orders other_orders(SearchTables& tables, const Realised& plan, double limit, std::size_t most,
                    std::int64_t most_work) {
  Trials trials(tables, most_work);
  Orders found;
  const auto slower = [](double time, const Realised& other) { return time < other.time; };
  const auto try_order = [&](std::size_t i, const StageList& order) {
    const Candidate& old = plan.pipelines[i];
    const auto changed = cut_pipeline(tables, old.micro_batch, order, plan.micro_batches[i] * old.micro_batch);
    if (!changed || *changed == old) return;
    std::vector<Candidate> pipelines = plan.pipelines;
    std::replace(pipelines.begin(), pipelines.end(), Candidate(old), *changed);
    const bool full = found.plans.size() == most;
    Realised trial = trials.realise(std::move(pipelines), full ? found.plans.back().time : limit, kPlacements);
    if (trial.time == kInfinity || (full && trial.time >= found.plans.back().time)) return;
    if (full) found.plans.pop_back();
    const auto place = std::upper_bound(found.plans.begin(), found.plans.end(), trial.time, slower);
    found.plans.insert(place, std::move(trial));
  };
  found.stopped = Trials::stops([&] {
    for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
      if (i > 0 && plan.pipelines[i] == plan.pipelines[i - 1]) continue;
      for (const StageList& order : orders_of(stages_of(plan.pipelines[i]))) {
        if (trials.spent()) return;
        try_order(i, order);
      }
    }
  });
  found.tries = trials.tries();
  found.work = trials.work();
  return found;
}

}  // namespace hpplan
