#pragma once

#include <string>
#include <vector>

#include "schedule/request.hpp"

namespace hpplan {

/// One schedule family.
struct ScheduleFamily {
  const char* name;
  const char* summary;       // one line
  const char* restrictions;  // "" when there are none
  Schedule (*make)(const ScheduleRequest&);
};

/// All families, in the order in which help and documents list them. Command line, checks, documents and the property
/// tests go through this list: a new family is one file and one line here.
[[nodiscard]] const std::vector<ScheduleFamily>& schedule_families();

/// The family called `name`; throws InputError with the nearest name when there is none.
[[nodiscard]] const ScheduleFamily& schedule_family(const std::string& name);

/// Builds the op lists of family `name`.
[[nodiscard]] Schedule make_schedule_of(const std::string& name, const ScheduleRequest& request);

}  // namespace hpplan
