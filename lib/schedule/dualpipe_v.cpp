#include <cstddef>

#include "base/text.hpp"
#include "schedule/dualpipe.hpp"
#include "schedule/families.hpp"
#include "schedule/placement.hpp"

namespace hpplan {

/// DualPipeV: the two directions of DualPipe become the two legs of one V, so P stages need P/2 devices and one copy
/// of the weights.
Schedule make_dualpipe_v(const ScheduleRequest& request) {
  check_request(request, 1);
  const int p = request.stage_count;
  const int m = request.micro_batches;
  if (p % 2 != 0)
    refuse_schedule("stages", concat(p, " stages"), "dualpipe-v puts two stages on every device: use an even number");
  if (m < p) {
    refuse_schedule("micro-batches", concat(m, " micro-batches for ", p, " stages"),
                    concat("dualpipe-v needs at least ", p, " micro-batches"));
  }
  const int devices = p / 2;
  ScheduleRequest folded = request;
  folded.stage_count = devices;  // place_vee counts devices; `times` then names single parts
  Schedule schedule = make_schedule("dualpipe-v", request, devices);
  schedule.splits_backward = true;
  place_vee(schedule, folded);
  for (PlacedStage& stage : schedule.stages) stage.activation = 1.0;  // parts are whole stages here
  for (int r = 0; r < devices; ++r) {
    DualPipeDevice device;
    device.half = devices;
    device.distance = r;
    device.micro_batches = m;
    device.own_stage = r;
    device.other_stage = p - 1 - r;
    device.middle = r == devices - 1;
    write_dualpipe(schedule.programs[static_cast<std::size_t>(r)], device);
  }
  return schedule;
}

}  // namespace hpplan
