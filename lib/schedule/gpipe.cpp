#include <cstddef>

#include "schedule/families.hpp"
#include "schedule/placement.hpp"
#include "schedule/program.hpp"

namespace hpplan {

Schedule make_gpipe(const ScheduleRequest& request) {
  check_request(request, 1);
  Schedule schedule = make_schedule("gpipe", request, request.stage_count);
  place_linear(schedule, request);
  for (int s = 0; s < request.stage_count; ++s) {
    ProgramWriter write(schedule.programs[static_cast<std::size_t>(s)]);
    for (int i = 0; i < request.micro_batches; ++i) write.forward(i, s);
    for (int i = 0; i < request.micro_batches; ++i) write.backward(i, s);
  }
  return schedule;
}

}  // namespace hpplan
