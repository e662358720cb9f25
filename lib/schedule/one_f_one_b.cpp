#include <algorithm>
#include <cstddef>

#include "schedule/families.hpp"
#include "schedule/placement.hpp"
#include "schedule/program.hpp"

namespace hpplan {

Schedule make_one_f_one_b(const ScheduleRequest& request) {
  check_request(request, 1);
  const int p = request.stage_count;
  const int m = request.micro_batches;
  Schedule schedule = make_schedule("1f1b", request, p);
  place_linear(schedule, request);
  for (int s = 0; s < p; ++s) {
    ProgramWriter write(schedule.programs[static_cast<std::size_t>(s)]);
    const int warm_up = std::min(m, p - 1 - s);
    write_one_f_one_b(write, s, m, warm_up);
  }
  return schedule;
}

}  // namespace hpplan
