#include "predict/rate_bound.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace hpplan {

namespace {

/// The bound with `weights` as the work of one sample through a layer of each kind: a device's rate is at most the
/// largest weight over the least seconds that the kind takes there. Any weights above 0 prove a bound.
double bound_by(const Problem& problem, const std::vector<std::vector<double>>& least,
                const std::vector<double>& weights) {
  double devices_rate = 0.0;
  for (std::size_t g = 0; g < least.size(); ++g) {
    double rate = 0.0;
    for (std::size_t k = 0; k < least[g].size(); ++k) rate = std::max(rate, weights[k] / least[g][k]);
    devices_rate += rate * problem.places.device_count(static_cast<int>(g));
  }
  double work = 0.0;
  for (const int kind : problem.model.layers) work += weights[static_cast<std::size_t>(kind)];
  return problem.job.global_batch * work / devices_rate;
}

}  // namespace

Seconds least_device_time(const Problem& problem, int group, int kind) {
  Seconds least{std::numeric_limits<double>::infinity()};
  const std::vector<int> all_samples = replica_samples(problem.job.micro_batches);
  for (const int tp : problem.costs.degrees(group)) {
    for (const int samples : all_samples) {
      const LayerCost& cost = problem.costs.at(group, tp, samples, kind);
      least = std::min(least, (cost.forward + cost.backward) * tp / samples);
    }
  }
  return least;
}

Seconds rate_bound(const Problem& problem) {
  std::vector<std::vector<double>> least(static_cast<std::size_t>(problem.cluster.group_count()));  // [group][kind]
  for (std::size_t g = 0; g < least.size(); ++g) {
    const int group = static_cast<int>(g);
    // One that cannot run the model, or may not, has no rate.
    if (problem.costs.degrees(group).empty() || problem.places.device_count(group) == 0) continue;
    for (std::size_t k = 0; k < problem.model.kinds.size(); ++k) {
      least[g].push_back(std::max(least_device_time(problem, group, static_cast<int>(k)).value(), 1e-300));
    }
  }
  // The seconds of one group as weights make the bound tight there; the best of all groups is kept.
  double best = 0.0;
  for (const std::vector<double>& weights : least) {
    if (!weights.empty()) best = std::max(best, bound_by(problem, least, weights));
  }
  if (best == 0.0) return Seconds{std::numeric_limits<double>::infinity()};
  return Seconds{best * (1.0 - 1e-12)};
}

}  // namespace hpplan
