#include "schedule/octopipe.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>

#include "base/text.hpp"
#include "schedule/dispatch.hpp"
#include "schedule/families.hpp"
#include "schedule/placement.hpp"

namespace hpplan {

namespace {

class OctoPolicy : public DispatchPolicy {
 public:
  OctoPolicy(const Schedule& schedule, const std::vector<double>& caps)
      : schedule_(schedule), caps_(caps), in_flight_(schedule.stages.size(), 0) {
    const std::size_t devices = static_cast<std::size_t>(schedule.device_count);
    last_was_backward_.assign(devices, false);
    held_.assign(devices, 0.0);
    reserved_.assign(devices, 0.0);
    for (const PlacedStage& stage : schedule.stages)
      reserved_[static_cast<std::size_t>(stage.device)] += stage.activation;
  }

  std::optional<std::size_t> choose(int device, const std::vector<ReadyOp>& ready, const std::vector<ReadyOp>&,
                                    Seconds) override {
    std::optional<std::size_t> best;
    for (std::size_t k = 0; k < ready.size(); ++k) {
      if (ready[k].op.kind == OpKind::Forward && !fits(device, ready[k].op)) continue;
      if (!best || comes_before(device, ready[k].op, ready[*best].op)) best = k;
    }
    return best;
  }

  void started(int device, const Op& op) override {
    const std::size_t d = static_cast<std::size_t>(device);
    const std::size_t s = static_cast<std::size_t>(op.stage);
    const double size = schedule_.stages[s].activation;
    last_was_backward_[d] = op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput;
    if (op.kind == OpKind::Forward) {
      // The reserve of a stage is its first micro-batch in flight.
      if (in_flight_[s]++ == 0) reserved_[d] -= size;
      held_[d] += size;
    } else if (op.kind == OpKind::Backward || op.kind == OpKind::WeightGradient) {
      if (--in_flight_[s] == 0) reserved_[d] += size;
      held_[d] -= size;
    }
  }

 private:
  [[nodiscard]] bool fits(int device, const Op& op) const {
    const std::size_t d = static_cast<std::size_t>(device);
    const std::size_t s = static_cast<std::size_t>(op.stage);
    if (caps_.empty() || in_flight_[s] == 0) return true;
    return held_[d] + reserved_[d] + schedule_.stages[s].activation <= caps_[d] + 1e-9;
  }
  [[nodiscard]] int rank(int device, OpKind kind) const {
    const bool forward_first = last_was_backward_[static_cast<std::size_t>(device)];
    if (kind == OpKind::WeightGradient) return 2;
    return (kind == OpKind::Forward) == forward_first ? 0 : 1;
  }
  [[nodiscard]] bool comes_before(int device, const Op& a, const Op& b) const {
    const int rank_a = rank(device, a.kind);
    const int rank_b = rank(device, b.kind);
    if (rank_a != rank_b) return rank_a < rank_b;
    if (a.kind == OpKind::Backward || a.kind == OpKind::BackwardInput) {
      return a.stage != b.stage ? a.stage > b.stage : a.micro_batch < b.micro_batch;
    }
    return a.micro_batch != b.micro_batch ? a.micro_batch < b.micro_batch : a.stage < b.stage;
  }

  const Schedule& schedule_;
  const std::vector<double>& caps_;      // per device; empty: none
  std::vector<bool> last_was_backward_;  // per device
  std::vector<double> held_;             // per device
  std::vector<double> reserved_;         // per device: first micro-batches of stages that hold none
  std::vector<int> in_flight_;           // per stage
};

Seconds total(const LayerTime& layer) { return layer.forward + layer.backward + layer.weight_gradient; }

}  // namespace

Schedule make_octopipe_schedule(const OctoProblem& problem, const OctoPlan& plan, DispatchTimes* times) {
  Schedule schedule;
  schedule.family = "octopipe";
  schedule.device_count = problem.device_count;
  schedule.micro_batches = problem.micro_batches;
  schedule.weight_gradient_memory = problem.weight_gradient_memory;
  schedule.programs.resize(static_cast<std::size_t>(problem.device_count));
  const int stages = static_cast<int>(plan.first_layer.size());
  schedule.model_stage_count = stages;
  for (int s = 0; s < stages; ++s) {
    PlacedStage stage;
    stage.device = plan.device[static_cast<std::size_t>(s)];
    stage.model_stage = s;
    stage.previous = s - 1;
    stage.next = s + 1 < stages ? s + 1 : -1;
    stage.time.link = problem.link;
    const int first = plan.first_layer[static_cast<std::size_t>(s)];
    const int last =
        s + 1 < stages ? plan.first_layer[static_cast<std::size_t>(s + 1)] : static_cast<int>(problem.layers.size());
    stage.layers = {first, last};
    stage.activation = last - first;
    for (int k = first; k < last; ++k) {
      const LayerTime& layer = problem.layer_on(stage.device, k);
      stage.time.forward += layer.forward;
      stage.time.backward += layer.backward;
      stage.time.weight_gradient += layer.weight_gradient;
      if (layer.weight_gradient > Seconds{}) schedule.splits_backward = true;
    }
    schedule.stages.push_back(stage);
  }
  OctoPolicy policy(schedule, plan.cap);
  const DispatchTimes ran = dispatch(schedule, {0}, policy);
  if (times != nullptr) *times = ran;
  return schedule;
}

Seconds octopipe_lower_bound(const OctoProblem& problem) {
  Seconds work;
  Seconds path;
  Seconds heaviest;
  for (const LayerTime& layer : problem.layers) {
    work += total(layer);
    path += layer.forward + layer.backward;
    heaviest = std::max(heaviest, total(layer));
  }
  // All devices but the one with the first layer wait for it, and its weight gradient comes last on its device only.
  const double devices = problem.device_count;
  const Seconds waits = (problem.layers.front().forward + problem.link) * (devices - 1.0);
  Seconds bound = (work * problem.micro_batches + waits) / devices;
  bound = std::max(bound, path + problem.link * (2.0 * (devices - 1.0)) * (devices > 1 ? 1.0 : 0.0));
  return std::max(bound, heaviest * problem.micro_batches);
}

std::vector<int> balanced_partition(const std::vector<LayerTime>& layers, int stage_count) {
  const std::size_t n = layers.size();
  std::vector<double> prefix(n + 1, 0.0);
  for (std::size_t k = 0; k < n; ++k) prefix[k + 1] = prefix[k] + total(layers[k]).value();
  const std::size_t stages = static_cast<std::size_t>(stage_count);
  constexpr double kNever = std::numeric_limits<double>::infinity();
  // cost[k]: least sum of squares of the first k layers in the stages so far; cut[s][k]: where the last of them begins.
  std::vector<double> cost(n + 1, kNever);
  cost[0] = 0.0;
  std::vector<std::vector<std::size_t>> cut(stages, std::vector<std::size_t>(n + 1, 0));
  for (std::size_t s = 0; s < stages; ++s) {
    std::vector<double> next(n + 1, kNever);
    for (std::size_t end = s + 1; end <= n; ++end) {
      for (std::size_t begin = s; begin < end; ++begin) {
        const double time = prefix[end] - prefix[begin];
        const double candidate = cost[begin] + time * time;
        if (candidate >= next[end]) continue;
        next[end] = candidate;
        cut[s][end] = begin;
      }
    }
    cost = std::move(next);
  }
  std::vector<int> first(stages, 0);
  std::size_t end = n;
  for (std::size_t s = stages; s-- > 0;) {
    end = cut[s][end];
    first[s] = static_cast<int>(end);
  }
  return first;
}

namespace {

OctoProblem problem_of(const ScheduleRequest& request) {
  if (request.stage_count < 1) refuse_schedule("stages", concat(request.stage_count, " stages"), "give at least 1");
  if (request.micro_batches < 1) {
    refuse_schedule("micro-batches", concat(request.micro_batches, " micro-batches"), "give at least 1");
  }
  OctoProblem problem;
  problem.device_count = request.stage_count;
  problem.micro_batches = request.micro_batches;
  problem.weight_gradient_memory = request.weight_gradient_memory.value_or(1.0);
  problem.layers = request.layers;
  if (!request.times.empty()) problem.link = request.times.front().link;
  if (problem.layers.empty()) {
    for (const StageTime& time : request.times) {
      problem.layers.push_back({"layer", time.forward, time.backward, time.weight_gradient});
    }
  }
  const int layers = static_cast<int>(problem.layers.size());
  if (layers < request.stage_count) {
    refuse_schedule("layers", concat(layers, " layers for ", request.stage_count, " devices"),
                    "octopipe gives every device at least one layer: use fewer stages");
  }
  // The limit is stated in whole stages: a device's even share of the layers.
  if (request.memory_limit) problem.memory_limit = *request.memory_limit * layers / request.stage_count;
  return problem;
}

/// The op order of stages that are placed already, as in a plan.
Schedule make_placed(const ScheduleRequest& request) {
  const std::size_t stages = request.placement.size();
  if (request.times.size() != stages) {
    refuse_schedule("forward", concat(request.times.size(), " times for ", stages, " stages"), "give one for each");
  }
  if (!request.activation_caps.empty() &&
      request.activation_caps.size() != static_cast<std::size_t>(request.stage_count)) {
    refuse_schedule("activation_cap",
                    concat(request.activation_caps.size(), " caps for ", request.stage_count, " devices"),
                    "give one for each device, or none");
  }
  Schedule schedule = make_schedule("octopipe", request, request.stage_count);
  schedule.model_stage_count = static_cast<int>(stages);
  for (std::size_t s = 0; s < stages; ++s) {
    PlacedStage stage;
    stage.device = request.placement[s].device;
    stage.layers = request.placement[s].layers;
    stage.activation = stage.layers.size();
    stage.model_stage = static_cast<int>(s);
    stage.previous = stage.model_stage - 1;
    stage.next = s + 1 < stages ? stage.model_stage + 1 : -1;
    stage.time = request.times[s];
    if (stage.time.weight_gradient > Seconds{}) schedule.splits_backward = true;
    schedule.stages.push_back(stage);
  }
  OctoPolicy policy(schedule, request.activation_caps);
  (void)dispatch(schedule, {0}, policy);
  return schedule;
}

}  // namespace

/// OctoPipe (2509.23722): partition, placement and order found together; `--stages` is the number of devices.
Schedule make_octopipe(const ScheduleRequest& request) {
  if (!request.placement.empty()) return make_placed(request);
  const OctoProblem problem = problem_of(request);
  Schedule schedule = make_octopipe_schedule(problem, tune_octopipe(problem));
  const double share = static_cast<double>(problem.layers.size()) / problem.device_count;
  for (PlacedStage& stage : schedule.stages) stage.activation /= share;
  schedule.lower_bound = octopipe_lower_bound(problem);
  return schedule;
}

}  // namespace hpplan
