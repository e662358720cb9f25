#pragma once

#include <span>
#include <vector>

#include "base/units.hpp"
#include "schedule/stage_time.hpp"

namespace hpplan {

/// How much the sums of a simulated step may round, as a part of it: its longest path adds some 4 (m + p) times, each
/// rounding by 2^-53 at most, and the bounds below a few times.
[[nodiscard]] constexpr double step_rounding(int stages, int micro_batches) {
  return 1e-12 + 4.5e-16 * (static_cast<double>(micro_batches) + stages);
}

/// Exact time of one 1F1B step (with flush) over unequal stages and links.
///   stages         at least one; stage s runs min(m, p-1-s) warm-up forwards, then F and B in turn, then the rest
///   micro_batches  at least 1
/// Links are asynchronous: they delay the receiver, not the sender. Costs p*m steps of a few operations and no
/// allocation for up to 64 stages, so that a search can score every candidate with it.
[[nodiscard]] Seconds one_f_one_b_makespan(std::span<const StageTime> stages, int micro_batches);

/// What steps of one pipeline have in common, whatever their numbers of micro-batches: the rounds until forwards run
/// out. Some of these are kept from the first step on, closer and closer together towards its end, as those that follow
/// are mostly a little shorter or longer.
class OneFOneBMarks {
 public:
  /// one_f_one_b_makespan(), to the last bit, from the nearest round that is kept on.
  ///   stages  the same in every call, with the same links
  [[nodiscard]] Seconds makespan(std::span<const StageTime> stages, int micro_batches);

 private:
  std::vector<int> rounds_;     // to be kept, ascending
  std::vector<double> states_;  // of those that were reached: of each stage the ends of its last forward and last op
};

/// A time that no 1F1B step over these stages can beat: never above `one_f_one_b_makespan`.
/// Best of the head/tail bound of each stage and of the critical cycles through each window of stages; O(p^2).
/// Source: search-notes C.5, where it was exact for near-balanced stages without links and within 8% on wild ones.
[[nodiscard]] Seconds one_f_one_b_lower_bound(std::span<const StageTime> stages, int micro_batches);

/// A bound that is a straight line: with m > `from` micro-batches a step takes at least fixed + m * each, but for
/// step_rounding().
struct StepLine {
  double fixed = 0.0;  // seconds
  double each = 0.0;
  int from = 0;
};
/// A few lines that bound 1F1B steps over these stages from below: there is one for each stage, and one for each window
/// of stages with the links inside it; the highest of them at different m. Their inverses say in some operations how
/// many micro-batches a time has room for at most. Source: search-notes C.5, with turns around a window rounded down.
[[nodiscard]] std::vector<StepLine> one_f_one_b_lines(std::span<const StageTime> stages);

/// Exact time of one GPipe step: all forwards, then all backwards. Both phases are flow shops of equal jobs, so
/// each takes the sum over the stages plus (m-1) times the slowest stage; every path crosses every link once.
[[nodiscard]] Seconds gpipe_makespan(std::span<const StageTime> stages, int micro_batches);

/// A time that no schedule with one direction and one stage per device can beat, in any order of its ops.
/// The backward is one op here; schedules that split it can be faster, see split_lower_bound.
[[nodiscard]] Seconds unsplit_lower_bound(std::span<const StageTime> stages, int micro_batches);

/// The same for schedules that run input and weight gradients as separate ops. Bounds the makespan, not the span.
[[nodiscard]] Seconds split_lower_bound(std::span<const StageTime> stages, int micro_batches);

}  // namespace hpplan
