#pragma once

#include <string>

#include "simulate/simulate.hpp"

namespace hpplan {

/// The result of `hpplan schedule` for programs: one JSON object, times in the units of the input, lists per device;
/// `drift` and its companions per model stage, for asynchronous families.
[[nodiscard]] std::string schedule_json(const Schedule& schedule, const Simulation& simulation);

/// The same for people.
[[nodiscard]] std::string schedule_text(const Schedule& schedule, const Simulation& simulation);

}  // namespace hpplan
