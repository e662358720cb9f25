#include "simulate/simulate.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/diagnostic.hpp"
#include "base/text.hpp"

namespace hpplan {

const char* to_text(LinkSemantics links) {
  switch (links) {
    case LinkSemantics::Asynchronous: return "asynchronous";
    case LinkSemantics::Blocking: return "blocking";
  }
  return "";
}

namespace {

constexpr double kNotYet = -1.0;
constexpr std::int64_t kNothing = -1;

/// What the loop needs of a stage, flat.
struct Node {
  double time[5] = {};
  double link_in = 0.0;   // from `previous`
  double link_out = 0.0;  // to `next`
  int previous = -1;
  int next = -1;
  int previous_device = -1;
  int next_device = -1;
};

struct Lane {
  const std::vector<Op>* program = nullptr;
  std::vector<OpTime>* times = nullptr;
  std::size_t position = 0;
  double free = 0.0;
  std::int64_t waits_for = kNothing;  // key of the result that holds up the next op
};

/// Runs all lists. Results are keyed by (micro-batch, stage, forward or backward); a device that lacks a result is
/// left aside and taken up again by the op that makes it, so each op is visited once or twice.
class Runner {
 public:
  Runner(const Schedule& schedule, LinkSemantics links, std::vector<std::vector<OpTime>>& times)
      : schedule_(schedule), blocking_(links == LinkSemantics::Blocking), stage_count_(schedule.stages.size()) {
    ends_.assign(2 * stage_count_ * static_cast<std::size_t>(schedule.micro_batches), kNotYet);
    for (std::size_t s = 0; s < stage_count_; ++s) nodes_.push_back(make_node(static_cast<int>(s)));
    times.resize(schedule.programs.size());
    lanes_.resize(schedule.programs.size());
    for (std::size_t d = 0; d < lanes_.size(); ++d) {
      times[d].resize(schedule.programs[d].size());
      lanes_[d].program = &schedule.programs[d];
      lanes_[d].times = &times[d];
      runnable_.push_back(static_cast<int>(lanes_.size() - 1 - d));
    }
  }

  void run() {
    while (!runnable_.empty()) {
      const int device = runnable_.back();
      runnable_.pop_back();
      advance(lanes_[static_cast<std::size_t>(device)]);
    }
    for (std::size_t d = 0; d < lanes_.size(); ++d) {
      if (lanes_[d].position < lanes_[d].program->size()) report_deadlock(static_cast<int>(d));
    }
  }

 private:
  Node make_node(int s) const {
    const PlacedStage& stage = schedule_.stage(s);
    Node node;
    for (int kind = 0; kind < 5; ++kind) node.time[kind] = op_time(static_cast<OpKind>(kind), stage.time).value();
    node.previous = stage.previous;
    node.next = stage.next;
    if (stage.previous >= 0) {
      node.link_in = link_between(schedule_, stage.previous, s).value();
      node.previous_device = schedule_.stage(stage.previous).device;
    }
    if (stage.next >= 0) {
      node.link_out = link_between(schedule_, s, stage.next).value();
      node.next_device = schedule_.stage(stage.next).device;
    }
    return node;
  }

  [[nodiscard]] std::int64_t key(bool backward, int micro_batch, int stage) const {
    return 2 * (static_cast<std::int64_t>(micro_batch) * static_cast<std::int64_t>(stage_count_) + stage) +
           (backward ? 1 : 0);
  }
  [[nodiscard]] double end_of(std::int64_t result) const { return ends_[static_cast<std::size_t>(result)]; }

  /// The key of a missing input of `op`, or kNothing after raising `ready` to when its inputs are there.
  std::int64_t missing_input(const Op& op, double& ready) const {
    const Node& node = nodes_[static_cast<std::size_t>(op.stage)];
    const auto need = [&](std::int64_t result, double delay) {
      const double end = end_of(result);
      if (end < 0.0) return false;
      ready = std::max(ready, end + delay);
      return true;
    };
    if (op.kind == OpKind::Forward) {
      if (node.previous < 0) return kNothing;
      const std::int64_t input = key(false, op.micro_batch, node.previous);
      return need(input, node.link_in) ? kNothing : input;
    }
    if (op.kind == OpKind::Update) return kNothing;
    const bool is_weight = op.kind == OpKind::WeightGradient;
    const std::int64_t own = key(is_weight, op.micro_batch, op.stage);
    if (!need(own, 0.0)) return own;
    if (is_weight || node.next < 0) return kNothing;
    const std::int64_t input = key(true, op.micro_batch, node.next);
    return need(input, node.link_out) ? kNothing : input;
  }

  void advance(Lane& lane) {
    const std::vector<Op>& program = *lane.program;
    while (lane.position < program.size()) {
      std::size_t last = lane.position;
      while (program[last].joined) ++last;
      double ready = lane.free;
      double length = 0.0;
      lane.waits_for = kNothing;
      for (std::size_t k = lane.position; k <= last && lane.waits_for == kNothing; ++k) {
        lane.waits_for = missing_input(program[k], ready);
        length += nodes_[static_cast<std::size_t>(program[k].stage)].time[static_cast<std::size_t>(program[k].kind)];
      }
      if (lane.waits_for != kNothing) return;
      if (last > lane.position) length *= schedule_.joined_time;
      finish(lane, last, ready, ready + length);
    }
  }

  /// Records the ops up to `last`, and takes up the devices that waited for them.
  void finish(Lane& lane, std::size_t last, double start, double end) {
    lane.free = end;
    for (; lane.position <= last; ++lane.position) {
      const Op& op = (*lane.program)[lane.position];
      (*lane.times)[lane.position] = {Seconds{start}, Seconds{end}};
      if (op.kind == OpKind::WeightGradient || op.kind == OpKind::Update) continue;
      const Node& node = nodes_[static_cast<std::size_t>(op.stage)];
      const bool backward = op.kind != OpKind::Forward;
      const std::int64_t result = key(backward, op.micro_batch, op.stage);
      ends_[static_cast<std::size_t>(result)] = end;
      const int receiver = backward ? node.previous_device : node.next_device;
      if (receiver < 0) continue;
      if (blocking_) lane.free = std::max(lane.free, end + (backward ? node.link_in : node.link_out));
      if (lanes_[static_cast<std::size_t>(receiver)].waits_for == result) {
        lanes_[static_cast<std::size_t>(receiver)].waits_for = kNothing;
        runnable_.push_back(receiver);
      }
    }
  }

  [[nodiscard]] int device_of(std::int64_t result) const {
    return schedule_.stage(static_cast<int>(result / 2 % static_cast<std::int64_t>(stage_count_))).device;
  }
  [[nodiscard]] std::string result_text(std::int64_t result) const {
    const std::int64_t place = result / 2;
    const std::int64_t count = static_cast<std::int64_t>(stage_count_);
    return concat(result % 2 == 0 ? 'F' : 'B', place / count, '@', place % count);
  }

  /// Follows the waiting devices from `device` until one comes again, and throws their cycle.
  [[noreturn]] void report_deadlock(int device) const {
    std::vector<int> path;
    while (std::find(path.begin(), path.end(), device) == path.end()) {
      path.push_back(device);
      const Lane& lane = lanes_[static_cast<std::size_t>(device)];
      if (lane.waits_for == kNothing) break;  // that device has ended: what is missing is in no list
      device = device_of(lane.waits_for);
    }
    std::vector<std::string> waits;
    for (auto d = std::find(path.begin(), path.end(), device); d != path.end(); ++d) {
      const Lane& lane = lanes_[static_cast<std::size_t>(*d)];
      if (lane.position == lane.program->size()) continue;
      waits.push_back(concat("device ", *d, " waits at ", to_text((*lane.program)[lane.position]), " for ",
                             result_text(lane.waits_for)));
    }
    if (waits.empty()) {
      const Lane& lane = lanes_[static_cast<std::size_t>(path[path.size() - 2])];
      waits.push_back(concat("device ", path[path.size() - 2], " waits for ", result_text(lane.waits_for),
                             ", which is in no list"));
    }
    throw InputError(Diagnostic{"", 0, 0, "schedule", concat("deadlock: ", join(waits, "; ")),
                                "change the order of these ops so that no device waits for itself"});
  }

  const Schedule& schedule_;
  bool blocking_ = false;
  std::size_t stage_count_ = 0;
  std::vector<Node> nodes_;
  std::vector<double> ends_;
  std::vector<Lane> lanes_;
  std::vector<int> runnable_;
};

/// Activations taken (positive, at the op's start) or given back (negative, at its end) by an op.
double activation_change(const Schedule& schedule, const Op& op) {
  const double size = schedule.stage(op.stage).activation;
  switch (op.kind) {
    case OpKind::Forward: return size;
    case OpKind::Backward: return -size;
    case OpKind::BackwardInput: return -size * (1.0 - schedule.weight_gradient_memory);
    case OpKind::WeightGradient: return -size * schedule.weight_gradient_memory;
    case OpKind::Update: return 0.0;
  }
  return 0.0;
}

/// Peaks of one device, from its op order alone: ops of one device never overlap, so no time is needed.
void add_peaks(const Schedule& schedule, const std::vector<Op>& program, Simulation& simulation) {
  int count = 0;
  int peak = 0;
  double held = 0.0;
  double peak_held = 0.0;
  for (const Op& op : program) {
    if (op.kind == OpKind::Forward) ++count;
    if (op.kind == OpKind::Backward || op.kind == OpKind::WeightGradient) --count;
    held += activation_change(schedule, op);
    peak = std::max(peak, count);
    peak_held = std::max(peak_held, held);
  }
  simulation.peak_in_flight.push_back(peak);
  simulation.peak_activations.push_back(peak_held);
}

}  // namespace

Simulation simulate(const Schedule& schedule, LinkSemantics links) {
  Simulation result;
  result.links = links;
  Runner(schedule, links, result.times).run();

  Seconds first{schedule.programs.empty() ? 0.0 : 1e300};
  Seconds last;
  Seconds total_busy;
  for (std::size_t d = 0; d < schedule.programs.size(); ++d) {
    const std::vector<OpTime>& times = result.times[d];
    Seconds busy;
    for (std::size_t k = 0; k < times.size(); ++k) {
      if (k == 0 || !schedule.programs[d][k - 1].joined) busy += times[k].end - times[k].start;
    }
    result.busy.push_back(busy);
    result.first_start.push_back(times.empty() ? Seconds{} : times.front().start);
    result.last_end.push_back(times.empty() ? Seconds{} : times.back().end);
    result.span = std::max(result.span, result.last_end.back() - result.first_start.back());
    first = std::min(first, result.first_start.back());
    last = std::max(last, result.last_end.back());
    total_busy += busy;
    add_peaks(schedule, schedule.programs[d], result);
  }
  result.makespan = last - first;
  const double devices = static_cast<double>(schedule.programs.size());
  if (result.makespan > Seconds{}) {
    result.bubble_rate = 1.0 - total_busy / (result.span * devices);
    result.idle_share = 1.0 - total_busy / (result.makespan * devices);
  }
  return result;
}

namespace {

/// A message appears at the end of its sender (+1) and is gone at the start of its reader (-1).
struct MessageEvent {
  int from = 0;
  int to = 0;
  Seconds time;
  int change = 0;
};

/// Start or end times of forwards or backwards by (micro-batch, stage).
std::vector<Seconds> times_of(const Schedule& schedule, const Simulation& simulation, bool backward, bool end) {
  std::vector<Seconds> result(schedule.stages.size() * static_cast<std::size_t>(schedule.micro_batches));
  for (std::size_t d = 0; d < schedule.programs.size(); ++d) {
    for (std::size_t k = 0; k < schedule.programs[d].size(); ++k) {
      const Op& op = schedule.programs[d][k];
      if (op.kind == OpKind::Update || op.kind == OpKind::WeightGradient) continue;
      if ((op.kind != OpKind::Forward) != backward) continue;
      const OpTime& time = simulation.times[d][k];
      result[static_cast<std::size_t>(op.micro_batch) * schedule.stages.size() + static_cast<std::size_t>(op.stage)] =
          end ? time.end : time.start;
    }
  }
  return result;
}

void add_messages(const Schedule& schedule, const Simulation& simulation, bool backward,
                  std::vector<MessageEvent>& events) {
  const std::vector<Seconds> ends = times_of(schedule, simulation, backward, true);
  const std::vector<Seconds> starts = times_of(schedule, simulation, backward, false);
  const std::size_t count = schedule.stages.size();
  for (std::size_t s = 0; s < count; ++s) {
    const int receiver = backward ? schedule.stages[s].previous : schedule.stages[s].next;
    if (receiver < 0) continue;
    const int from = schedule.stages[s].device;
    const int to = schedule.stage(receiver).device;
    if (from == to) continue;
    for (std::size_t i = 0; i < static_cast<std::size_t>(schedule.micro_batches); ++i) {
      const Seconds sent = ends[i * count + s];
      if (sent == Seconds{}) continue;  // this micro-batch takes another path
      events.push_back({from, to, sent, 1});
      events.push_back({from, to, starts[i * count + static_cast<std::size_t>(receiver)], -1});
    }
  }
}

}  // namespace

std::vector<std::vector<int>> message_slots(const Schedule& schedule, const Simulation& simulation) {
  std::vector<MessageEvent> events;
  add_messages(schedule, simulation, false, events);
  add_messages(schedule, simulation, true, events);
  // Arrivals first: a slot is free only after its reader has started.
  std::stable_sort(events.begin(), events.end(), [](const MessageEvent& a, const MessageEvent& b) {
    return a.time != b.time ? a.time < b.time : a.change > b.change;
  });
  const std::size_t devices = static_cast<std::size_t>(schedule.device_count);
  std::vector<std::vector<int>> now(devices, std::vector<int>(devices, 0));
  std::vector<std::vector<int>> most = now;
  for (const MessageEvent& event : events) {
    int& level = now[static_cast<std::size_t>(event.from)][static_cast<std::size_t>(event.to)];
    level += event.change;
    int& peak = most[static_cast<std::size_t>(event.from)][static_cast<std::size_t>(event.to)];
    peak = std::max(peak, level);
  }
  return most;
}

std::vector<MemoryPoint> memory_curve(const Schedule& schedule, const Simulation& simulation, int device) {
  const std::vector<Op>& program = schedule.program(device);
  const std::vector<OpTime>& times = simulation.times[static_cast<std::size_t>(device)];
  std::vector<MemoryPoint> curve = {{Seconds{}, 0.0}};
  for (std::size_t k = 0; k < program.size(); ++k) {
    const double change = activation_change(schedule, program[k]);
    if (change == 0.0) continue;
    const Seconds time = change > 0.0 ? times[k].start : times[k].end;
    // Joined ops: the backward gives back at the end, after the forward of the same pair took at the start.
    curve.push_back({time, curve.back().activations + change});
  }
  return curve;
}

namespace {

/// Counts updates along one stage's ops.
class VersionCounter {
 public:
  void see(const Op& op, WeightVersions policy, int accumulation) {
    const std::size_t i = static_cast<std::size_t>(std::max(op.micro_batch, 0));
    if (op.kind == OpKind::Update) {
      for (const int forward_version : pending_) delay_ = std::max(delay_, version_ - forward_version);
      pending_.clear();
      ++version_;
    } else if (op.kind == OpKind::Forward) {
      if (at_forward_.size() <= i) at_forward_.resize(i + 1, 0);
      // Double buffering pins a whole batch to the version before the batch in front of it.
      at_forward_[i] = policy == WeightVersions::DoubleBuffered ? std::max(0, seen_++ / accumulation - 1) : version_;
    } else if (op.kind != OpKind::WeightGradient) {
      const int drift = std::max(0, version_ - at_forward_[i]);
      drift_ = std::max(drift_, drift);
      drift_sum_ += drift;
      ++backwards_;
      pending_.push_back(at_forward_[i]);
    }
  }

  void add_to(VersionReport& report, WeightVersions policy) const {
    const bool keeps = policy == WeightVersions::Stashed || policy == WeightVersions::DoubleBuffered;
    const double mean = backwards_ == 0 ? 0.0 : static_cast<double>(drift_sum_) / static_cast<double>(backwards_);
    if (!keeps) {
      report.drift = std::max(report.drift, drift_);
      report.mean_drift = std::max(report.mean_drift, mean);
    }
    report.delay = std::max(report.delay, delay_);
    if (policy == WeightVersions::Stashed) report.versions = std::max(report.versions, drift_ + 1);
    if (policy == WeightVersions::DoubleBuffered) report.versions = 2;
  }

 private:
  int version_ = 0;
  int seen_ = 0;                 // forwards
  std::vector<int> at_forward_;  // per micro-batch
  std::vector<int> pending_;     // versions of the gradients that the next update applies
  int drift_ = 0;
  int delay_ = 0;
  std::int64_t drift_sum_ = 0;
  std::int64_t backwards_ = 0;
};

}  // namespace

std::vector<VersionReport> version_reports(const Schedule& schedule) {
  std::vector<VersionCounter> counters(schedule.stages.size());
  for (const std::vector<Op>& program : schedule.programs) {
    for (const Op& op : program) {
      counters[static_cast<std::size_t>(op.stage)].see(op, schedule.versions, std::max(1, schedule.accumulation));
    }
  }
  std::vector<VersionReport> reports(static_cast<std::size_t>(schedule.model_stage_count));
  for (std::size_t s = 0; s < counters.size(); ++s) {
    counters[s].add_to(reports[static_cast<std::size_t>(schedule.stages[s].model_stage)], schedule.versions);
  }
  return reports;
}

}  // namespace hpplan
