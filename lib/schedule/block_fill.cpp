#include "schedule/block_fill.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "base/diagnostic.hpp"
#include "schedule/dispatch.hpp"
#include "schedule/request.hpp"

namespace hpplan {

namespace {

/// How far ops may run ahead of their turn.
///   reserve  chunk activations that a forward out of turn leaves free for those before it; below 0: all keep their
///   turn patience  a weight gradient waits for what comes within this share of it
struct FillRule {
  int reserve = -1;
  double patience = 1.0;
};

constexpr FillRule kRules[] = {{-1, 1.0}, {1, 1.0}, {2, 1.0},  {3, 1.0}, {4, 1.0}, {-1, 0.6},
                               {2, 0.6},  {3, 0.6}, {-1, 0.3}, {2, 0.3}, {3, 0.3}};

/// The ops of one device by (kind, stage), each in its order, with their places in the wanted order.
class Turns {
 public:
  explicit Turns(const std::vector<Op>& wanted) {
    for (std::size_t place = 0; place < wanted.size(); ++place) {
      lines_[key(wanted[place])].push_back(place);
    }
  }

  /// Place of `op` if it is the next of its line; nothing if others of it come first.
  [[nodiscard]] std::optional<std::size_t> place_if_next(const Op& op) const {
    const auto line = lines_.find(key(op));
    const std::size_t taken = taken_of(key(op));
    if (line == lines_.end() || taken != static_cast<std::size_t>(op.micro_batch)) return std::nullopt;
    return line->second[taken];
  }
  /// The first place not taken yet, and whether a forward is wanted there.
  [[nodiscard]] std::optional<std::pair<std::size_t, bool>> head() const {
    std::optional<std::pair<std::size_t, bool>> first;
    for (const auto& [line, places] : lines_) {
      const std::size_t taken = taken_of(line);
      if (taken == places.size() || (first && places[taken] > first->first)) continue;
      first = {places[taken], line.first == OpKind::Forward};
    }
    return first;
  }
  void take(const Op& op) { ++taken_[key(op)]; }

 private:
  using Line = std::pair<OpKind, int>;

  static Line key(const Op& op) { return {op.kind, op.stage}; }
  [[nodiscard]] std::size_t taken_of(const Line& line) const {
    const auto found = taken_.find(line);
    return found == taken_.end() ? 0 : found->second;
  }

  std::map<Line, std::vector<std::size_t>> lines_;
  std::map<Line, std::size_t> taken_;
};

class FillPolicy : public DispatchPolicy {
 public:
  FillPolicy(const Schedule& schedule, const std::vector<std::vector<Op>>& wanted, int limit, const FillRule& rule)
      : schedule_(schedule), rule_(rule), limit_(limit), held_(wanted.size(), 0.0) {
    for (const std::vector<Op>& device : wanted) turns_.emplace_back(device);
  }

  std::optional<std::size_t> choose(int device, const std::vector<ReadyOp>& ready, const std::vector<ReadyOp>& coming,
                                    Seconds now) override {
    const Turns& turns = turns_[static_cast<std::size_t>(device)];
    const auto head = turns.head();
    const std::size_t turn = head ? head->first : 0;
    std::optional<std::size_t> best;
    std::optional<std::size_t> weight;
    std::size_t best_place = 0;
    for (std::size_t k = 0; k < ready.size(); ++k) {
      if (ready[k].op.kind == OpKind::WeightGradient) {
        if (!weight) weight = k;  // in the order of arrival
        continue;
      }
      const std::optional<std::size_t> place = allowed_place(device, ready[k].op, turn);
      if (!place || (best && *place > best_place)) continue;
      best = k;
      best_place = *place;
    }
    if (best) return best;
    if (!weight) return std::nullopt;
    const bool short_of_memory = head && head->second && !holds(device, 0);
    if (short_of_memory) return weight;
    const Seconds length = op_time(OpKind::WeightGradient, schedule_.stage(ready[*weight].op.stage).time);
    const Seconds horizon = now + length * rule_.patience;
    const bool delays = std::any_of(coming.begin(), coming.end(), [&](const ReadyOp& next) {
      return next.ready < horizon * (1.0 - 1e-12) && allowed_place(device, next.op, turn);
    });
    return delays ? std::nullopt : weight;
  }

  void started(int device, const Op& op) override {
    double& held = held_[static_cast<std::size_t>(device)];
    const double kept = schedule_.weight_gradient_memory;
    switch (op.kind) {
      case OpKind::Forward: held += 1.0; break;
      case OpKind::BackwardInput: held -= 1.0 - kept; break;
      case OpKind::WeightGradient: held -= kept; return;
      case OpKind::Backward:
      case OpKind::Update: return;
    }
    turns_[static_cast<std::size_t>(device)].take(op);
  }

 private:
  [[nodiscard]] bool holds(int device, int reserve) const {
    return held_[static_cast<std::size_t>(device)] + 1.0 <= limit_ - reserve + 1e-9;
  }
  /// Place of an op that may start before the ops from `turn` on.
  [[nodiscard]] std::optional<std::size_t> allowed_place(int device, const Op& op, std::size_t turn) const {
    if (op.kind == OpKind::WeightGradient) return std::nullopt;
    const std::optional<std::size_t> place = turns_[static_cast<std::size_t>(device)].place_if_next(op);
    if (!place) return std::nullopt;
    const bool in_turn = *place == turn;
    if (!in_turn && rule_.reserve < 0) return std::nullopt;
    if (op.kind == OpKind::Forward && !holds(device, in_turn ? 0 : rule_.reserve)) return std::nullopt;
    return place;
  }

  const Schedule& schedule_;
  FillRule rule_;
  int limit_ = 0;
  std::vector<double> held_;  // per device, in chunk activations
  std::vector<Turns> turns_;  // per device
};

Seconds span_of(const DispatchTimes& times) {
  Seconds span;
  for (std::size_t d = 0; d < times.last_end.size(); ++d) {
    span = std::max(span, times.last_end[d] - times.first_start[d]);
  }
  return span;
}

class InOrderPolicy : public DispatchPolicy {
 public:
  explicit InOrderPolicy(const std::vector<std::vector<Op>>& lists) : lists_(lists), next_(lists.size(), 0) {}

  std::optional<std::size_t> choose(int device, const std::vector<ReadyOp>& ready,
                                    const std::vector<ReadyOp>& /*coming*/, Seconds /*now*/) override {
    const std::vector<Op>& list = lists_[static_cast<std::size_t>(device)];
    const Op& wanted = list[next_[static_cast<std::size_t>(device)]];
    const auto found = std::find_if(ready.begin(), ready.end(), [&](const ReadyOp& one) { return one.op == wanted; });
    if (found == ready.end()) return std::nullopt;
    return static_cast<std::size_t>(found - ready.begin());
  }
  void started(int device, const Op& /*op*/) override { ++next_[static_cast<std::size_t>(device)]; }

 private:
  const std::vector<std::vector<Op>>& lists_;
  std::vector<std::size_t> next_;  // per device
};

std::optional<Seconds> fill_within(Schedule& schedule, const std::vector<std::vector<Op>>& wanted, int limit) {
  const Schedule empty = schedule;
  std::optional<Seconds> best;
  for (const FillRule& rule : kRules) {
    Schedule trial = empty;
    FillPolicy policy(trial, wanted, limit, rule);
    try {
      const Seconds span = span_of(dispatch(trial, {0}, policy));
      if (best && span >= *best * (1.0 - 1e-12)) continue;
      best = span;
      schedule = std::move(trial);
    } catch (const InputError&) {
      continue;  // this rule ran ahead into a deadlock: not one that a plan may use
    }
  }
  return best;
}

}  // namespace

Seconds fill_block_order(Schedule& schedule, const std::vector<std::vector<Op>>& wanted, int limit) {
  // A short pipeline may need a chunk or two more than the formula of its family says.
  const int most = limit + 2 * schedule.device_count;
  for (int allowed = limit; allowed <= most; ++allowed) {
    if (const std::optional<Seconds> span = fill_within(schedule, wanted, allowed)) return *span;
  }
  refuse_schedule("schedule", "deadlock: no rule fills this order within its memory", "use more micro-batches");
}

Seconds run_in_order(Schedule& schedule, const std::vector<std::vector<Op>>& lists) {
  InOrderPolicy policy(lists);
  return span_of(dispatch(schedule, {0}, policy));
}

}  // namespace hpplan
