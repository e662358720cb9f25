#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/text.hpp"
#include "schedule/dispatch.hpp"
#include "schedule/families.hpp"
#include "schedule/placement.hpp"

namespace hpplan {

namespace {

/// What a transformer without fused attention keeps for its weight gradients: 32 h of 34 h + 5 a s bytes per token,
/// with a s / h near 8 as in the models of the paper (0.37 to 0.43).
constexpr double kTransformerShare = 0.43;

/// The choices that the paper's heuristic leaves open; all combinations are tried.
struct ZeroBubbleOptions {
  double patience_forward = 0.0;  // an input gradient that comes within this share of F is waited for instead of F
  double patience_weight = 0.0;   // anything that comes within this share of W is waited for instead of W
  bool alternate = false;         // after an input gradient prefer a forward, so that the stages below are fed
  int lead = 0;                   // forwards a stage may be ahead of its input gradients beyond its share; 0: no limit
};

/// Memory in whole-stage activations. A forward may start only if, after it, the weight gradients owed could still give
/// back enough for the input gradients to go on.
class ZeroBubblePolicy : public DispatchPolicy {
 public:
  ZeroBubblePolicy(const Schedule& schedule, const ZeroBubbleOptions& options, double limit)
      : schedule_(schedule), options_(options), limit_(limit) {
    const std::size_t devices = static_cast<std::size_t>(schedule.device_count);
    held_.assign(devices, 0.0);
    ahead_.assign(devices, 0);
    last_.assign(devices, OpKind::Forward);
  }

  std::optional<std::size_t> choose(int device, const std::vector<ReadyOp>& ready, const std::vector<ReadyOp>& coming,
                                    Seconds now) override {
    const std::optional<std::size_t> forward = first_of(ready, OpKind::Forward);
    const std::optional<std::size_t> backward = first_of(ready, OpKind::BackwardInput);
    const std::optional<std::size_t> weight = first_of(ready, OpKind::WeightGradient);
    const bool may_forward = forward && fits(device);
    const bool forward_first = options_.alternate && last_[static_cast<std::size_t>(device)] == OpKind::BackwardInput;
    if (backward && !(forward_first && may_forward)) return backward;
    const StageTime& time = schedule_.stage(device).time;
    if (may_forward) {
      const Seconds horizon = now + time.forward * options_.patience_forward;
      if (backward || !comes_before(coming, OpKind::BackwardInput, horizon)) return forward;
    }
    if (!weight) return std::nullopt;
    const Seconds horizon = now + time.weight_gradient * options_.patience_weight;
    if (!forward && comes_before(coming, OpKind::Forward, horizon) && fits(device)) return std::nullopt;
    if (comes_before(coming, OpKind::BackwardInput, horizon)) return std::nullopt;
    return weight;
  }

  void started(int device, const Op& op) override {
    const std::size_t d = static_cast<std::size_t>(device);
    last_[d] = op.kind == OpKind::WeightGradient ? last_[d] : op.kind;
    const double kept = schedule_.weight_gradient_memory;
    if (op.kind == OpKind::Forward) {
      held_[d] += 1.0;
      ++ahead_[d];
    } else if (op.kind == OpKind::BackwardInput) {
      held_[d] -= 1.0 - kept;
      --ahead_[d];
    } else {
      held_[d] -= kept;
    }
  }

 private:
  static std::optional<std::size_t> first_of(const std::vector<ReadyOp>& ready, OpKind kind) {
    std::optional<std::size_t> best;
    for (std::size_t k = 0; k < ready.size(); ++k) {
      if (ready[k].op.kind == kind && (!best || ready[k].op.micro_batch < ready[*best].op.micro_batch)) best = k;
    }
    return best;
  }
  static bool comes_before(const std::vector<ReadyOp>& coming, OpKind kind, Seconds horizon) {
    return std::any_of(coming.begin(), coming.end(),
                       [&](const ReadyOp& op) { return op.op.kind == kind && op.ready < horizon; });
  }
  [[nodiscard]] bool fits(int device) const {
    const std::size_t d = static_cast<std::size_t>(device);
    if (options_.lead > 0 && ahead_[d] >= options_.lead * (schedule_.device_count - device)) return false;
    return held_[d] + 1.0 <= limit_ + 1e-9;
  }

  const Schedule& schedule_;
  const ZeroBubbleOptions& options_;
  double limit_ = 0.0;
  std::vector<double> held_;  // per device
  std::vector<int> ahead_;    // forwards without input gradient, per device
  std::vector<OpKind> last_;  // last forward or input gradient, per device
};

/// Longest time from the first start to the last end of one device.
Seconds span_of(const DispatchTimes& times) {
  Seconds span;
  for (std::size_t d = 0; d < times.last_end.size(); ++d) {
    span = std::max(span, times.last_end[d] - times.first_start[d]);
  }
  return span;
}

std::vector<ZeroBubbleOptions> all_options() {
  std::vector<ZeroBubbleOptions> all;
  for (const double forward : {0.0, 0.5}) {
    for (const double weight : {0.0, 0.3, 0.6}) {
      for (const bool alternate : {false, true}) {
        for (const int lead : {0, 1, 2}) all.push_back({forward, weight, alternate, lead});
      }
    }
  }
  return all;
}

}  // namespace

/// Zero bubble by search (2401.10241, section 3): greedy dispatch under a memory limit, the best span of all option
/// sets. Limits of P and 2P are the paper's ZB-1p and ZB-2p.
Schedule make_zb_auto(const ScheduleRequest& request) {
  check_request(request, 1);
  const double limit = request.memory_limit.value_or(request.stage_count);
  if (!(limit >= 1.0)) {
    refuse_schedule("memory-limit", concat(shortest(limit), " stage activations"),
                    "a stage holds at least one micro-batch: allow 1 or more");
  }
  Schedule empty = make_schedule("zb-auto", request, request.stage_count);
  empty.splits_backward = true;
  empty.weight_gradient_memory = request.weight_gradient_memory.value_or(kTransformerShare);
  place_linear(empty, request);
  Schedule best;
  Seconds best_span;
  for (const ZeroBubbleOptions& options : all_options()) {
    Schedule schedule = empty;
    ZeroBubblePolicy policy(schedule, options, limit);
    const Seconds span = span_of(dispatch(schedule, {0}, policy));
    if (!best.programs.empty() && span >= best_span) continue;
    best = std::move(schedule);
    best_span = span;
  }
  return best;
}

}  // namespace hpplan
