#include <algorithm>
#include <cstddef>

#include "base/text.hpp"
#include "schedule/families.hpp"
#include "schedule/placement.hpp"
#include "schedule/program.hpp"

namespace hpplan {

/// Zero Bubble H2 (2401.10241): twice the warm-up of H1, which fills the start of the pipeline; weight gradients lag 2s
/// input gradients behind. Its cost is the span: steps tile when the optimizer has no global barrier.
Schedule make_zb_h2(const ScheduleRequest& request) {
  check_request(request, 1);
  const int p = request.stage_count;
  const int m = request.micro_batches;
  if (m < 2 * p - 1) {
    refuse_schedule("micro-batches", concat(m, " micro-batches for ", p, " stages"),
                    concat("zb-h2 needs at least ", 2 * p - 1, " micro-batches"));
  }
  Schedule schedule = make_schedule("zb-h2", request, p);
  schedule.splits_backward = true;
  place_linear(schedule, request);
  for (int s = 0; s < p; ++s) {
    ProgramWriter write(schedule.programs[static_cast<std::size_t>(s)]);
    const int warm_up = std::min(m, 2 * (p - s) - 1);
    for (int i = 0; i < warm_up; ++i) write.forward(i, s);
    for (int k = 0; k < m; ++k) {
      const bool steady = warm_up + k < m;
      write.backward_input(k, s);
      if (write.owed() > (steady ? 2 * s : 0)) write.weight();
      if (steady) write.forward(warm_up + k, s);
    }
    write.all_weights();
  }
  return schedule;
}

}  // namespace hpplan
