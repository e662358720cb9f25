#include "schedule/request.hpp"

#include <cmath>
#include <cstddef>

#include "base/diagnostic.hpp"
#include "base/text.hpp"

namespace hpplan {

void refuse_schedule(const std::string& field, const std::string& message, const std::string& hint) {
  throw InputError(Diagnostic{"", 0, 0, field, message, hint});
}

namespace {

void check_time(const char* what, std::size_t stage, Seconds time) {
  if (std::isfinite(time.value()) && time >= Seconds{}) return;
  refuse_schedule(what, concat("stage ", stage, ": time ", shortest(time.value())),
                  "times are finite and must be at least 0");
}

}  // namespace

void check_request(const ScheduleRequest& request, int chunks) {
  if (request.stage_count < 1) refuse_schedule("stages", concat(request.stage_count, " stages"), "give at least 1");
  if (request.micro_batches < 1) {
    refuse_schedule("micro-batches", concat(request.micro_batches, " micro-batches"), "give at least 1");
  }
  const std::size_t stages = static_cast<std::size_t>(request.stage_count);
  const std::size_t parts = stages * static_cast<std::size_t>(chunks);
  if (request.times.size() != stages && request.times.size() != parts) {
    const std::string allowed = chunks > 1 ? concat("; allowed: ", stages, ", or ", parts, " for single chunks") : "";
    refuse_schedule("forward", concat(request.times.size(), " times for ", stages, " stages", allowed),
                    "give one value for all stages, or one for each");
  }
  for (std::size_t s = 0; s < request.times.size(); ++s) {
    check_time("forward", s, request.times[s].forward);
    check_time("backward", s, request.times[s].backward);
    check_time("weight-gradient", s, request.times[s].weight_gradient);
    check_time("communication", s, request.times[s].link);
  }
}

}  // namespace hpplan
