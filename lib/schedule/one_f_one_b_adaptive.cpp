#include <algorithm>
#include <cstddef>

#include "base/text.hpp"
#include "schedule/families.hpp"
#include "schedule/placement.hpp"
#include "schedule/program.hpp"

namespace hpplan {

/// 1F1B in which stage s holds up to `in_flight[s]` micro-batches instead of P-s: more where links would stall it,
/// fewer where memory is short. A stage must hold at least as many as the next one, or each would wait for the other.
Schedule make_one_f_one_b_adaptive(const ScheduleRequest& request) {
  check_request(request, 1);
  const int p = request.stage_count;
  const int m = request.micro_batches;
  std::vector<int> held = request.in_flight;
  if (held.empty()) {
    for (int s = 0; s < p; ++s) held.push_back(p - s);
  }
  if (held.size() != static_cast<std::size_t>(p)) {
    refuse_schedule("in-flight", concat(held.size(), " values for ", p, " stages"), "give one value for each stage");
  }
  for (std::size_t s = 0; s < held.size(); ++s) {
    if (held[s] < 1) {
      refuse_schedule("in-flight", concat("stage ", s, ": ", held[s]), "a stage holds at least one micro-batch");
    }
    if (s > 0 && held[s] > held[s - 1]) {
      refuse_schedule("in-flight", concat("stage ", s, ": ", held[s], ", but the stage before holds ", held[s - 1]),
                      "numbers in flight never grow from stage to stage");
    }
  }
  Schedule schedule = make_schedule("1f1b-adaptive", request, p);
  place_linear(schedule, request);
  for (int s = 0; s < p; ++s) {
    ProgramWriter write(schedule.programs[static_cast<std::size_t>(s)]);
    const int warm_up = std::min(m, held[static_cast<std::size_t>(s)] - 1);
    write_one_f_one_b(write, s, m, warm_up);
  }
  return schedule;
}

}  // namespace hpplan
