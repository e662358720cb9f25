#include "simulate/one_f_one_b.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/check.hpp"

namespace hpplan {

namespace {

/// What the inner loop touches, packed: 40 bytes a stage keep 64 stages in the first-level cache.
struct Lane {
  double forward = 0.0;
  double backward = 0.0;
  double link = 0.0;         // to the next stage
  double forward_end = 0.0;  // end of the newest forward
  double free = 0.0;         // end of the newest op
};

/// Order of the sweep. Round k holds, on stage s, the forward of micro-batch k + (p-1-s) and then the backward of
/// micro-batch k. The forward needs its upstream forward, which belongs to round k-1, so going through the stages
/// from last to first reads `forward_end` of the stage before in time; the backward needs the one downstream, which
/// is of the same round and was just computed. Rounds below 0 are the warm-up.
///   first, last   rounds to be run, `last` not among them
void sweep(std::span<Lane> lanes, int first, int last, int micro_batches) {
  const auto stages = static_cast<int>(lanes.size());
  Lane* lane_of = lanes.data();
  for (int round = first; round < last; ++round) {
    double downstream = 0.0;  // end of this round's backward on the stage after, plus the link
    for (int s = std::min(stages - 1, round + stages - 1); s >= 0; --s) {
      Lane& lane = lane_of[s];
      if (round + stages - 1 - s < micro_batches) {
        const double arrival = s > 0 ? lane_of[s - 1].forward_end + lane_of[s - 1].link : 0.0;
        lane.forward_end = std::max(lane.free, arrival) + lane.forward;
        lane.free = lane.forward_end;
      }
      if (round >= 0) {
        lane.free = std::max(lane.free, downstream) + lane.backward;
        downstream = lane.free + (s > 0 ? lane_of[s - 1].link : 0.0);
      }
    }
  }
}

/// The stages of a pipeline before its first round.
class Lanes {
 public:
  explicit Lanes(std::span<const StageTime> stages) : lanes_(stack_.data(), std::min(stages.size(), kStackStages)) {
    if (stages.size() > kStackStages) {
      heap_.resize(stages.size());
      lanes_ = heap_;
    }
    for (std::size_t s = 0; s < stages.size(); ++s) {
      lanes_[s] = {stages[s].forward.value(), stages[s].whole_backward().value(), stages[s].link.value(), 0.0, 0.0};
    }
  }
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;
  [[nodiscard]] std::span<Lane> all() { return lanes_; }

 private:
  static constexpr std::size_t kStackStages = 64;
  std::array<Lane, kStackStages> stack_;
  std::vector<Lane> heap_;
  std::span<Lane> lanes_;
};

/// The last backward of the first stage ends the step.
Seconds end_of_step(std::span<const Lane> lanes) { return Seconds{lanes.front().free}; }

/// Of the rounds that are kept, the last one is so far from where forwards run out.
constexpr int kNearestRound = 8;

/// Rounds to be kept of a step whose forwards run out at `end`: each some twice as far from there as the next, as long
/// as the states of all are few.
std::vector<int> rounds_to_keep(int stages, int end) {
  constexpr int kMostStates = 64;
  std::vector<int> rounds;
  for (int distance = kNearestRound; distance < end; distance = 2 * distance + kNearestRound) {
    if (static_cast<int>(rounds.size() + 1) * stages > kMostStates) break;
    rounds.push_back(end - distance);
  }
  std::reverse(rounds.begin(), rounds.end());
  return rounds;
}

void check_arguments(std::span<const StageTime> stages, int micro_batches) {
  check_invariant(!stages.empty(), "a pipeline has at least one stage");
  check_invariant(micro_batches >= 1, "a step has at least one micro-batch");
}

}  // namespace

Seconds one_f_one_b_makespan(std::span<const StageTime> stages, int micro_batches) {
  check_arguments(stages, micro_batches);
  Lanes lanes(stages);
  sweep(lanes.all(), 1 - static_cast<int>(stages.size()), micro_batches, micro_batches);
  return end_of_step(lanes.all());
}

Seconds OneFOneBMarks::makespan(std::span<const StageTime> stages, int micro_batches) {
  check_arguments(stages, micro_batches);
  const auto p = static_cast<int>(stages.size());
  Lanes room(stages);
  const std::span<Lane> lanes = room.all();
  const int end = micro_batches - p + 1;  // the first round in which a stage has no forward
  if (rounds_.empty() || end > 2 * (rounds_.back() + kNearestRound)) {  // too far away to be of much use
    rounds_ = rounds_to_keep(p, end);
    states_.clear();
  }

  const std::size_t numbers = 2 * lanes.size();
  const auto reached = static_cast<std::ptrdiff_t>(states_.size() / numbers);
  auto mark = std::upper_bound(rounds_.begin(), rounds_.begin() + reached, end);
  int round = 1 - p;
  if (mark != rounds_.begin()) {
    const double* state = states_.data() + static_cast<std::size_t>(mark - rounds_.begin() - 1) * numbers;
    for (Lane& lane : lanes) {
      lane.forward_end = *state++;
      lane.free = *state++;
    }
    round = *(mark - 1);
  }
  for (; mark != rounds_.end() && *mark <= end; ++mark) {
    sweep(lanes, round, *mark, micro_batches);
    round = *mark;
    for (const Lane& lane : lanes) {
      states_.push_back(lane.forward_end);
      states_.push_back(lane.free);
    }
  }
  sweep(lanes, round, micro_batches, micro_batches);
  return end_of_step(lanes);
}

namespace {

/// Sums around one stage j. In C.5: head, R (round trip below the stage) and tail.
struct Surroundings {
  double head = 0.0;        // sum over i<j of F_i + c_i
  double tail = 0.0;        // sum over i<j of B_i + c_i
  double round_trip = 0.0;  // sum over i>j of F_i + B_i, plus 2 c_i over i>=j
};

/// Head/tail bound of stage j. With more micro-batches than warm-up slots w: w forwards or the first round trip,
/// then m-w pairs, then w backwards or the last round trip.
double stage_bound(double forward, double backward, const Surroundings& around, double slots, double micro_batches) {
  const double trip = around.round_trip;
  if (micro_batches > slots) {
    return around.head + std::max(slots * forward, forward + trip) + (micro_batches - slots) * (forward + backward) +
           std::max(slots * backward, trip + backward) + around.tail;
  }
  return around.head +
         std::max(micro_batches * forward + std::max(trip + backward, micro_batches * backward),
                  forward + trip + micro_batches * backward) +
         around.tail;
}

/// Bound of the cycle through stages j..k, which takes `cycle` for every k-j+1 micro-batches.
double window_bound(double forward, double backward, const Surroundings& around, int first, int last, int stages,
                    int micro_batches, double cycle) {
  const int width = last - first + 1;
  const int last_slots = stages - last;
  const int first_slots = stages - first;
  double bound = 0.0;
  if (micro_batches >= last_slots) {
    const int turns = (micro_batches - last_slots) / width;
    const int rest = micro_batches - last_slots - turns * width;
    bound = around.head + (last_slots - 1) * forward + turns * cycle + forward + around.round_trip + backward +
            rest * backward + around.tail;
  }
  if (micro_batches > first_slots) {
    const int turns = (micro_batches - 1 - first_slots) / width;
    bound = std::max(bound, around.head + 2.0 * (forward + around.round_trip + backward) + turns * cycle + around.tail);
  }
  return bound;
}

/// Stages first..last with what surrounds the first of them. The cycle through them takes `cycle`.
struct Window {
  int first = 0;
  int last = 0;
  double forward = 0.0;   // of the first
  double backward = 0.0;  // of the first
  double cycle = 0.0;
  Surroundings around;
};

template <typename Visit>
void for_each_window(std::span<const StageTime> stages, Visit visit) {
  const int p = static_cast<int>(stages.size());
  const auto forward = [&](int s) { return stages[static_cast<std::size_t>(s)].forward.value(); };
  const auto backward = [&](int s) { return stages[static_cast<std::size_t>(s)].whole_backward().value(); };
  const auto link = [&](int s) { return s + 1 < p ? stages[static_cast<std::size_t>(s)].link.value() : 0.0; };

  Surroundings around;
  for (int s = 0; s < p; ++s) around.round_trip += forward(s) + backward(s) + 2.0 * link(s);
  for (int j = 0; j < p; ++j) {
    around.round_trip -= forward(j) + backward(j);
    Window window{j, j, forward(j), backward(j), 0.0, around};
    for (; window.last < p; ++window.last) {
      const int k = window.last;
      window.cycle += forward(k) + backward(k) + (k > j ? 2.0 * link(k - 1) : 0.0);
      visit(window);
    }
    around.head += forward(j) + link(j);
    around.tail += backward(j) + link(j);
    around.round_trip -= 2.0 * link(j);
  }
}

}  // namespace

Seconds one_f_one_b_lower_bound(std::span<const StageTime> stages, int micro_batches) {
  check_arguments(stages, micro_batches);
  const int p = static_cast<int>(stages.size());
  double bound = 0.0;
  for_each_window(stages, [&](const Window& w) {
    if (w.first == w.last) {
      bound = std::max(bound, stage_bound(w.forward, w.backward, w.around, p - w.first, micro_batches));
    }
    bound = std::max(bound, window_bound(w.forward, w.backward, w.around, w.first, w.last, p, micro_batches, w.cycle));
  });
  return Seconds{bound * (1.0 - step_rounding(p, micro_batches))};
}

std::vector<StepLine> one_f_one_b_lines(std::span<const StageTime> stages) {
  check_arguments(stages, 1);
  // Of the many lines, those that are the highest where a pipeline runs a few, some or many micro-batches.
  const int p = static_cast<int>(stages.size());
  std::array<std::pair<int, StepLine>, 5> highest{{{2 * p, {}}, {4 * p, {}}, {8 * p, {}}, {32 * p, {}}, {256 * p, {}}}};
  const auto add = [&](const StepLine& line) {
    for (auto& [m, best] : highest) {
      if (line.fixed + m * line.each > best.fixed + m * best.each) best = line;
    }
  };
  for_each_window(stages, [&](const Window& window) {
    const Surroundings& around = window.around;
    const double pair = window.forward + window.backward;
    const int slots = p - window.first;
    const double both = pair + around.round_trip;
    const double ends = around.head + around.tail;
    if (window.first == window.last) {
      const double warm = std::max(slots * window.forward, window.forward + around.round_trip);
      const double drain = std::max(slots * window.backward, window.backward + around.round_trip);
      add({ends + warm + drain - slots * pair, pair, slots});
    }
    // turns >= (m - slots - width) / width
    const int width = window.last - window.first + 1;
    add({ends + 2.0 * both - (slots + width) * (window.cycle / width), window.cycle / width, slots});
  });
  std::vector<StepLine> lines;
  for (const auto& [m, best] : highest) {
    if (lines.empty() || best.each != lines.back().each || best.fixed != lines.back().fixed) lines.push_back(best);
  }
  return lines;
}

Seconds gpipe_makespan(std::span<const StageTime> stages, int micro_batches) {
  check_arguments(stages, micro_batches);
  Seconds sum;
  Seconds slowest_forward;
  Seconds slowest_backward;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    sum += stages[s].total();
    if (s + 1 < stages.size()) sum += stages[s].link * 2.0;
    slowest_forward = std::max(slowest_forward, stages[s].forward);
    slowest_backward = std::max(slowest_backward, stages[s].whole_backward());
  }
  return sum + (slowest_forward + slowest_backward) * (micro_batches - 1.0);
}

Seconds unsplit_lower_bound(std::span<const StageTime> stages, int micro_batches) {
  check_arguments(stages, micro_batches);
  Seconds before;  // forward and backward of the earlier stages, and both ways over their links
  Seconds bound;
  for (const StageTime& stage : stages) {
    bound = std::max(bound, before + stage.total() * micro_batches);
    before += stage.total() + stage.link * 2.0;
  }
  return bound * (1.0 - step_rounding(static_cast<int>(stages.size()), micro_batches));
}

Seconds split_lower_bound(std::span<const StageTime> stages, int micro_batches) {
  check_arguments(stages, micro_batches);
  Seconds forwards;   // of the earlier stages, and one way over their links
  Seconds backwards;  // input gradients of the earlier stages, and one way over their links
  Seconds bound;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageTime& stage = stages[s];
    // After the last input gradient of this stage, the earlier stages still have to pass it up, and stage 0 then
    // still owes the weight gradient of that micro-batch.
    const Seconds owed = s > 0 ? stages[0].weight_gradient : Seconds{};
    bound = std::max(bound, forwards + stage.total() * micro_batches);
    bound = std::max(bound, forwards + (stage.forward + stage.backward) * micro_batches + backwards + owed);
    forwards += stage.forward + stage.link;
    backwards += stage.backward + stage.link;
  }
  return bound * (1.0 - step_rounding(static_cast<int>(stages.size()), micro_batches));
}

}  // namespace hpplan
