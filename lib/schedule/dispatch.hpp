#pragma once

#include <optional>
#include <vector>

#include "schedule/schedule.hpp"

namespace hpplan {

/// An op whose inputs have arrived on its device, at `ready`.
struct ReadyOp {
  Op op;
  Seconds ready;
};

/// Decides what an idle device does next. Sees every start, so it can count what is in flight.
class DispatchPolicy {
 public:
  virtual ~DispatchPolicy() = default;
  /// Index into `ready` of the op that `device` starts at `now`, or nothing to wait for the next event.
  /// `ready` holds at least one op, in the order of arrival.
  ///   coming  ops on their way to the device, each with its arrival: what an op started now may hold up
  [[nodiscard]] virtual std::optional<std::size_t> choose(int device, const std::vector<ReadyOp>& ready,
                                                          const std::vector<ReadyOp>& coming, Seconds now) = 0;
  /// Called when the op chosen starts.
  virtual void started(int device, const Op& op) = 0;
};

/// Per device.
struct DispatchTimes {
  std::vector<Seconds> first_start;
  std::vector<Seconds> last_end;
};

/// Runs micro-batches through the placed stages of `schedule`, the policy choosing among ready ops, and fills the op
/// lists with the order in which they ran. Micro-batch i enters at stage `roots[i % roots.size()]`; entries of one
/// root are offered in order, one at a time. All arrivals of one moment are known before any device chooses.
/// Ends with InputError if the policy refuses all that is ready and nothing is running (a deadlock).
///   returns when each device started first and ended last
[[nodiscard]] DispatchTimes dispatch(Schedule& schedule, const std::vector<int>& roots, DispatchPolicy& policy);

/// Puts an update of each stage after every `accumulation` of its backwards.
void add_updates(std::vector<Op>& program, int accumulation);

}  // namespace hpplan
