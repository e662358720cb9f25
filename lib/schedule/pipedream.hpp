#pragma once

#include <string>

#include "schedule/request.hpp"

namespace hpplan {

/// Asynchronous 1F1B: the order of 1F1B without a flush, and an update of each stage after every `accumulation` of its
/// backwards.
[[nodiscard]] Schedule make_asynchronous_one_f_one_b(const std::string& family, const ScheduleRequest& request,
                                                     int accumulation, WeightVersions versions);

}  // namespace hpplan
