#include "predict/rate_bound.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace hpplan {

namespace {

/// Least device-seconds that one sample's forward and backward of `kind` takes on `group`.
double least_device_seconds(const Problem& problem, int group, int kind) {
  double least = std::numeric_limits<double>::infinity();
  const std::vector<int> all_samples = replica_samples(problem.job.micro_batches);
  for (const int tp : problem.costs.degrees(group)) {
    for (const int samples : all_samples) {
      const LayerCost& cost = problem.costs.at(group, tp, samples, kind);
      least = std::min(least, (cost.forward + cost.backward).value() * tp / samples);
    }
  }
  return least;
}

}  // namespace

Seconds rate_bound(const Problem& problem) {
  // Any weights w_k > 0 give a valid bound: a device's rate is at most max_k w_k / t_k. Those of the first group that
  // can run the model make it tight there.
  std::vector<double> weights(problem.model.kinds.size(), 0.0);
  double devices_rate = 0.0;
  for (int g = 0; g < problem.cluster.group_count(); ++g) {
    if (problem.costs.degrees(g).empty() || problem.places.device_count(g) == 0) continue;
    double rate = 0.0;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const double seconds = least_device_seconds(problem, g, static_cast<int>(k));
      if (weights[k] == 0.0) weights[k] = std::max(seconds, 1e-300);
      rate = std::max(rate, weights[k] / std::max(seconds, 1e-300));
    }
    devices_rate += rate * problem.places.device_count(g);
  }
  if (devices_rate == 0.0) return Seconds{std::numeric_limits<double>::infinity()};
  double work = 0.0;
  for (const int kind : problem.model.layers) work += weights[static_cast<std::size_t>(kind)];
  return Seconds{problem.job.global_batch * work / devices_rate * (1.0 - 1e-12)};
}

}  // namespace hpplan
