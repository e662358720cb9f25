#include <cstddef>
#include <optional>
#include <vector>

#include "base/text.hpp"
#include "schedule/dispatch.hpp"
#include "schedule/families.hpp"
#include "schedule/placement.hpp"

namespace hpplan {

namespace {

/// Stage s (from 0) of P drains waiting backwards first, and takes a forward in while at most P-s are in flight.
class PaciPolicy : public DispatchPolicy {
 public:
  explicit PaciPolicy(int stages) : stages_(stages), in_flight_(static_cast<std::size_t>(stages), 0) {}

  std::optional<std::size_t> choose(int device, const std::vector<ReadyOp>& ready, const std::vector<ReadyOp>&,
                                    Seconds) override {
    std::optional<std::size_t> forward;
    for (std::size_t k = 0; k < ready.size(); ++k) {
      if (ready[k].op.kind == OpKind::Backward) return k;
      if (!forward) forward = k;
    }
    const bool admits = in_flight_[static_cast<std::size_t>(device)] < stages_ - device;
    return admits ? forward : std::nullopt;
  }
  void started(int device, const Op& op) override {
    in_flight_[static_cast<std::size_t>(device)] += op.kind == OpKind::Forward ? 1 : -1;
  }

 private:
  int stages_ = 0;
  std::vector<int> in_flight_;
};

/// Micro-batches per update. Drift at stage s is at most ceil((P-1-s)/accumulation): a limit asks for enough of them.
int accumulation_of(const ScheduleRequest& request) {
  const int behind = request.stage_count - 1;
  int least = 1;
  if (request.max_drift) {
    if (*request.max_drift < 1 && behind > 0) {
      refuse_schedule("max-drift",
                      concat("drift of at most ", *request.max_drift, " over ", request.stage_count, " stages"),
                      "paci updates while micro-batches are in flight: allow a drift of at least 1");
    }
    if (behind > 0) least = (behind + *request.max_drift - 1) / *request.max_drift;
  }
  if (request.accumulation == 0) return least;
  if (request.accumulation < least) {
    refuse_schedule("accumulation", concat(request.accumulation, " micro-batches per update"),
                    concat("a positive number; the drift allowed needs at least ", least));
  }
  return request.accumulation;
}

}  // namespace

/// PACI (2606.07881): one copy of the weights, no flush, no stash; each stage updates by itself.
Schedule make_paci(const ScheduleRequest& request) {
  check_request(request, 1);
  Schedule schedule = make_schedule("paci", request, request.stage_count);
  schedule.versions = WeightVersions::Latest;
  schedule.accumulation = accumulation_of(request);
  place_linear(schedule, request);
  PaciPolicy policy(request.stage_count);
  (void)dispatch(schedule, {0}, policy);
  for (std::vector<Op>& program : schedule.programs) add_updates(program, schedule.accumulation);
  return schedule;
}

}  // namespace hpplan
