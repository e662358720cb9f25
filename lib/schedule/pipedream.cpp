#include "schedule/pipedream.hpp"

#include "base/text.hpp"
#include "schedule/dispatch.hpp"
#include "schedule/families.hpp"

namespace hpplan {

Schedule make_asynchronous_one_f_one_b(const std::string& family, const ScheduleRequest& request, int accumulation,
                                       WeightVersions versions) {
  Schedule schedule = make_one_f_one_b(request);
  schedule.family = family;
  schedule.versions = versions;
  schedule.accumulation = accumulation;
  for (std::vector<Op>& program : schedule.programs) add_updates(program, accumulation);
  return schedule;
}

/// PipeDream: every stage keeps the weights of each micro-batch in flight, so forward and backward agree.
Schedule make_pipedream(const ScheduleRequest& request) {
  const int accumulation = request.accumulation == 0 ? 1 : request.accumulation;
  if (accumulation < 1) refuse_schedule("accumulation", concat(accumulation), "give at least 1");
  return make_asynchronous_one_f_one_b("pipedream", request, accumulation, WeightVersions::Stashed);
}

}  // namespace hpplan
