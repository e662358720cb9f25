#include "base/text.hpp"
#include "schedule/families.hpp"
#include "schedule/pipedream.hpp"

namespace hpplan {

/// PipeDream-2BW: gradients of at least P micro-batches are accumulated, so two weight versions are enough and every
/// gradient is applied exactly one update late.
Schedule make_pipedream_2bw(const ScheduleRequest& request) {
  const int accumulation = request.accumulation == 0 ? request.stage_count : request.accumulation;
  if (accumulation < request.stage_count) {
    refuse_schedule("accumulation",
                    concat(accumulation, " micro-batches per update for ", request.stage_count, " stages"),
                    "pipedream-2bw needs at least as many micro-batches per update as stages");
  }
  return make_asynchronous_one_f_one_b("pipedream-2bw", request, accumulation, WeightVersions::DoubleBuffered);
}

}  // namespace hpplan
