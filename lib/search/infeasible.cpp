#include "search/infeasible.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "domain/operators.hpp"
#include "predict/stage.hpp"
#include "search/space.hpp"

namespace hpplan {

namespace {

/// Training state of the whole model, held once, against what all devices hold together.
void add_state_rejection(const Problem& problem, std::vector<Rejection>& rejections) {
  const StateBytes& state = problem.model.state;
  const double each = state.parameter + state.gradient + state.optimizer;
  const double needed = total_parameters(problem.model) * each;
  double available = 0.0;
  Bytes largest;
  for (int g = 0; g < problem.cluster.group_count(); ++g) {
    const Bytes usable = problem.capacity(g) - problem.job.framework_overhead;
    largest = std::max(largest, usable);
    available += usable.value() * problem.cluster.node_groups[static_cast<std::size_t>(g)].device_count();
  }
  if (needed <= available) return;
  const double devices = largest > Bytes{0} ? std::ceil(needed / largest.value()) : 0.0;
  rejections.push_back(
      {RejectReason::DeviceMemory, -1, Bytes{static_cast<std::int64_t>(needed)},
       Bytes{static_cast<std::int64_t>(available)},
       concat("device memory: parameters, gradients and optimizer states (", each, " B per parameter) take ",
              fixed(needed / 1e9, 0), " GB even if spread perfectly, all ", problem.cluster.device_count(),
              " devices together hold ", fixed(available / 1e9, 0), " GB; at least ", fixed(devices, 0),
              " devices of the largest kind would hold the states")});
}

/// The layer that fits no device, however it is split.
void add_layer_rejection(const Problem& problem, const Space& space, std::vector<Rejection>& rejections) {
  std::vector<bool> seen(problem.model.kinds.size(), false);
  for (int layer = 0; layer < problem.model.layer_count(); ++layer) {
    const auto kind = static_cast<std::size_t>(problem.model.layers[static_cast<std::size_t>(layer)]);
    if (seen[kind]) continue;
    seen[kind] = true;
    bool fits = false;
    Rejection nearest;
    for (std::size_t p = 0; p < space.ports.size() && !fits; ++p) {
      for (const Split& split : space.splits[p]) {
        for (const int b : problem.job.micro_batches) {
          if (fits || b % split.data_parallel != 0) continue;
          const StageQuery query{space.ports[p].group, split.tensor_parallel, split.data_parallel, b,
                                 {layer, layer + 1}, 1};
          const auto predicted = predict_stage(problem, query);
          const Rejection* miss = std::get_if<Rejection>(&predicted);
          if (miss == nullptr) {
            fits = true;
          } else if (nearest.text.empty() || miss->needed - miss->available < nearest.needed - nearest.available) {
            nearest = *miss;
          }
        }
      }
    }
    if (!fits && !nearest.text.empty()) {
      nearest.text = concat("device memory: layer ", layer, " alone fits no device; nearest miss by ",
                            pretty(nearest.needed - nearest.available), ": ", nearest.text);
      rejections.push_back(nearest);
    }
  }
}

/// The most even pipeline over all devices, one stage each: where it first runs out of memory.
void add_even_rejection(const Problem& problem, const Space& space, std::vector<Rejection>& rejections) {
  const int stages = std::min(problem.cluster.device_count(), space.max_stages);
  const int layers = problem.model.layer_count();
  const int micro_batch = problem.job.micro_batches.front();
  Rejection worst;
  int first = 0;
  for (int s = 0; s < stages; ++s) {
    const int last = layers * (s + 1) / stages;
    const int rank = problem.cluster.device_count() * s / stages;
    const StageQuery query{place_of_rank(problem.cluster, rank).group, 1, 1, micro_batch, {first, last}, stages - s};
    first = last;
    if (!problem.costs.has(query.group, 1, micro_batch)) return;
    const auto predicted = predict_stage(problem, query);
    const Rejection* miss = std::get_if<Rejection>(&predicted);
    if (miss != nullptr && (worst.text.empty() || miss->needed - miss->available > worst.needed - worst.available)) {
      worst = *miss;
      worst.stage = s;
    }
  }
  if (worst.text.empty()) return;
  worst.text = concat("device memory: an even pipeline of ", stages, " stages misses by ",
                      pretty(worst.needed - worst.available), " at stage ", worst.stage, ": ", worst.text);
  rejections.push_back(worst);
}

/// sums[s]: whether s samples are a sum of allowed micro-batch sizes; up to `most`.
std::vector<bool> reachable_sums(const Job& job, int most) {
  std::vector<bool> sums(static_cast<std::size_t>(most) + 1, false);
  sums[0] = true;
  for (std::size_t s = 1; s < sums.size(); ++s) {
    for (const int b : job.micro_batches) {
      const auto size = static_cast<std::size_t>(b);
      if (size <= s && sums[s - size]) sums[s] = true;
    }
  }
  return sums;
}

void add_batch_rejection(const Problem& problem, std::vector<Rejection>& rejections) {
  const int batch = problem.job.global_batch;
  // The next sum above is at most one micro-batch away from any sum below it.
  const std::vector<bool> sums = reachable_sums(problem.job, batch + problem.job.micro_batches.front());
  if (sums[static_cast<std::size_t>(batch)]) return;
  int below = batch;
  while (!sums[static_cast<std::size_t>(below)]) --below;
  int above = batch;
  while (!sums[static_cast<std::size_t>(above)]) ++above;
  const std::string nearest = below == 0 ? concat("the nearest sum is ", above)
                                         : concat("the nearest sums are ", below, " and ", above);
  rejections.push_back({RejectReason::BatchNotReachable, -1, {}, {},
                        concat("batch not reachable: global batch ", batch,
                               " is not a sum of the allowed micro-batch sizes; ", nearest)});
}

}  // namespace

bool batch_reachable(const Job& job) { return reachable_sums(job, job.global_batch).back(); }

std::vector<Rejection> explain_infeasible(const Problem& problem) {
  std::vector<Rejection> rejections;
  const Space space = make_space(problem);
  if (space.ports.empty()) {
    rejections.push_back({RejectReason::Constraint, -1, {}, {},
                          "constraint: no stage shape is left: the TP degrees allowed fit no node"});
    return rejections;
  }
  add_batch_rejection(problem, rejections);
  add_state_rejection(problem, rejections);
  add_layer_rejection(problem, space, rejections);
  if (rejections.empty()) add_even_rejection(problem, space, rejections);
  if (rejections.empty()) {
    rejections.push_back({RejectReason::Constraint, -1, {}, {},
                          "constraint: the limits on pipelines, stages or placements leave no plan"});
  }
  return rejections;
}

}  // namespace hpplan
