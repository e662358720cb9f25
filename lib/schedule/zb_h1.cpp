#include <cstddef>

#include "base/text.hpp"
#include "schedule/families.hpp"
#include "schedule/placement.hpp"
#include "schedule/program.hpp"

namespace hpplan {

/// Zero Bubble H1 (2401.10241): 1F1B with split backward; on stage s the weight gradients lag s input gradients behind,
/// so that every stage holds at most P activations.
Schedule make_zb_h1(const ScheduleRequest& request) {
  check_request(request, 1);
  const int p = request.stage_count;
  const int m = request.micro_batches;
  if (m < p) {
    refuse_schedule("micro-batches", concat(m, " micro-batches for ", p, " stages"),
                    concat("zb-h1 needs at least ", p, " micro-batches"));
  }
  Schedule schedule = make_schedule("zb-h1", request, p);
  schedule.splits_backward = true;
  place_linear(schedule, request);
  for (int s = 0; s < p; ++s) {
    ProgramWriter write(schedule.programs[static_cast<std::size_t>(s)]);
    const int warm_up = p - 1 - s;
    for (int i = 0; i < warm_up; ++i) write.forward(i, s);
    for (int k = 0; k < m; ++k) {
      const bool steady = warm_up + k < m;
      if (steady) write.forward(warm_up + k, s);
      write.backward_input(k, s);
      if (write.owed() > (steady ? s : 0)) write.weight();
    }
    write.all_weights();
  }
  return schedule;
}

}  // namespace hpplan
