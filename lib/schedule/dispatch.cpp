#include "schedule/dispatch.hpp"

#include <algorithm>
#include <cstddef>
#include <queue>
#include <tuple>

#include "base/text.hpp"
#include "schedule/request.hpp"

namespace hpplan {

namespace {

/// Something that becomes known at `time`: an input has arrived, or (stage < 0) a device has become idle.
struct Event {
  double time = 0.0;
  std::int64_t number = 0;  // in the order of creation: makes ties repeatable
  int device = 0;
  Op op;
  bool idle = false;

  bool operator>(const Event& other) const { return std::tie(time, number) > std::tie(other.time, other.number); }
};

class Dispatcher {
 public:
  Dispatcher(Schedule& schedule, const std::vector<int>& roots, DispatchPolicy& policy)
      : schedule_(schedule), roots_(roots), policy_(policy) {
    const std::size_t devices = static_cast<std::size_t>(schedule.device_count);
    ready_.resize(devices);
    coming_.resize(devices);
    idle_.assign(devices, true);
    times_.first_start.resize(devices);
    times_.last_end.resize(devices);
    backward_kind_ = schedule.splits_backward ? OpKind::BackwardInput : OpKind::Backward;
    for (int root = 0; root < static_cast<int>(roots.size()); ++root) offer_entry(root, 0.0);
  }

  DispatchTimes run() {
    while (!events_.empty()) {
      const double now = events_.top().time;
      while (!events_.empty() && events_.top().time == now) {
        take(events_.top());
        events_.pop();
      }
      for (int device = 0; device < schedule_.device_count; ++device) start_next(device, now);
    }
    for (const std::vector<ReadyOp>& ready : ready_) {
      if (ready.empty()) continue;
      refuse_schedule("schedule", concat("deadlock: every ready op is held back, such as ", to_text(ready.front().op)),
                      "allow more activations in flight");
    }
    return times_;
  }

 private:
  void take(const Event& event) {
    const std::size_t device = static_cast<std::size_t>(event.device);
    if (event.idle) {
      idle_[device] = true;
    } else {
      ready_[device].push_back({event.op, Seconds{event.time}});
      std::vector<ReadyOp>& coming = coming_[device];
      coming.erase(
          std::find_if(coming.begin(), coming.end(), [&](const ReadyOp& other) { return other.op == event.op; }));
    }
  }

  void post(double time, const Op& op) {
    const int device = schedule_.stage(op.stage).device;
    events_.push({time, number_++, device, op, false});
    coming_[static_cast<std::size_t>(device)].push_back({op, Seconds{time}});
  }

  void offer_entry(int root, double time) {
    if (root < schedule_.micro_batches) {
      post(time, {OpKind::Forward, false, root, roots_[static_cast<std::size_t>(root) % roots_.size()]});
    }
  }

  void start_next(int device, double now) {
    const std::size_t d = static_cast<std::size_t>(device);
    if (!idle_[d] || ready_[d].empty()) return;
    const std::optional<std::size_t> choice = policy_.choose(device, ready_[d], coming_[d], Seconds{now});
    if (!choice) return;
    const Op op = ready_[d][*choice].op;
    ready_[d].erase(ready_[d].begin() + static_cast<std::ptrdiff_t>(*choice));
    idle_[d] = false;
    if (schedule_.programs[d].empty()) times_.first_start[d] = Seconds{now};
    schedule_.programs[d].push_back(op);
    policy_.started(device, op);
    const double end = now + op_time(op.kind, schedule_.stage(op.stage).time).value();
    times_.last_end[d] = Seconds{end};
    events_.push({end, number_++, device, op, true});
    post_followers(op, end);
    // The next micro-batch of the path may enter once this one has.
    if (op.kind == OpKind::Forward && schedule_.stage(op.stage).previous < 0) {
      offer_entry(op.micro_batch + static_cast<int>(roots_.size()), now);
    }
  }

  void post_followers(const Op& op, double end) {
    const PlacedStage& stage = schedule_.stage(op.stage);
    const auto follow = [&](OpKind kind, int to) {
      const double delay = to == op.stage ? 0.0 : link_between(schedule_, op.stage, to).value();
      post(end + delay, {kind, false, op.micro_batch, to});
    };
    if (op.kind == OpKind::Forward) {
      if (stage.next >= 0) follow(OpKind::Forward, stage.next);
      if (stage.next < 0) follow(backward_kind_, op.stage);
    } else if (op.kind != OpKind::WeightGradient) {
      if (stage.previous >= 0) follow(backward_kind_, stage.previous);
      if (op.kind == OpKind::BackwardInput) follow(OpKind::WeightGradient, op.stage);
    }
  }

  Schedule& schedule_;
  const std::vector<int>& roots_;
  DispatchPolicy& policy_;
  OpKind backward_kind_ = OpKind::Backward;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::int64_t number_ = 0;
  std::vector<std::vector<ReadyOp>> ready_;
  std::vector<std::vector<ReadyOp>> coming_;  // posted and not yet arrived
  std::vector<bool> idle_;
  DispatchTimes times_;
};

}  // namespace

DispatchTimes dispatch(Schedule& schedule, const std::vector<int>& roots, DispatchPolicy& policy) {
  return Dispatcher(schedule, roots, policy).run();
}

void add_updates(std::vector<Op>& program, int accumulation) {
  std::vector<Op> with_updates;
  std::vector<int> backwards;  // per stage
  for (const Op& op : program) {
    with_updates.push_back(op);
    if (op.kind != OpKind::Backward && op.kind != OpKind::WeightGradient) continue;
    const std::size_t stage = static_cast<std::size_t>(op.stage);
    if (backwards.size() <= stage) backwards.resize(stage + 1, 0);
    if (++backwards[stage] % accumulation == 0) with_updates.push_back({OpKind::Update, false, -1, op.stage});
  }
  program = std::move(with_updates);
}

}  // namespace hpplan
