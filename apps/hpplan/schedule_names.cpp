#include "schedule_names.hpp"

#include <algorithm>

#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "schedule/table.hpp"

namespace hpplan {

namespace {

constexpr const char* kAdaptive = "1f1b-adaptive";

[[noreturn]] void refuse_schedules(const std::string& field, const std::string& message, const std::string& hint) {
  throw InputError(Diagnostic{"", 0, 0, field, message, hint});
}

void check_schedule_name(const std::string& field, const std::string& name) {
  std::vector<std::string> known = {kAllSynchronous};
  for (const ScheduleFamily& family : schedule_families()) known.emplace_back(family.name);
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  const std::string nearest = nearest_name(name.substr(0, 64), known);
  refuse_schedules(field, concat("unknown schedule \"", name, "\""),
                   nearest.empty() ? concat("known: ", join(known, ", ")) : concat("did you mean \"", nearest, "\"?"));
}

}  // namespace

std::vector<std::string> wanted_schedules(const std::string& field, const Job& job, InFlight in_flight) {
  std::vector<std::string> wanted;
  const auto add = [&](const std::string& name) {
    if (std::find(wanted.begin(), wanted.end(), name) == wanted.end()) wanted.push_back(name);
  };
  for (const std::string& name : job.schedules) {
    check_schedule_name(field, name);
    if (name == kAllSynchronous) {
      for (const std::string& family : synchronous_families()) {
        if (family != kAdaptive) add(family);
      }
      continue;
    }
    if (schedule_family(name).stepping == Stepping::Asynchronous && !job.max_drift) {
      refuse_schedules(
          field, concat(name, " updates the weights while micro-batches are in flight"),
          "say how many updates may come between a forward and its backward: --max-drift 1, in a sweep max_drift: 1");
    }
    add(name);
  }
  if (in_flight == InFlight::Adaptive) {
    if (std::find(wanted.begin(), wanted.end(), "1f1b") == wanted.end()) {
      refuse_schedules("--in-flight", "adaptive changes 1f1b, which --schedule does not allow",
                       "add 1f1b to --schedule");
    }
    add(kAdaptive);
  }
  return wanted;
}

}  // namespace hpplan
