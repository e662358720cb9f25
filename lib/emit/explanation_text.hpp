#pragma once

#include <string>

#include "domain/explanation.hpp"
#include "domain/plan_file.hpp"

namespace hpplan {

/// An explanation for people: what binds, what was rejected, what the nearest alternatives cost.
[[nodiscard]] std::string explanation_text(const PlanFile& file, const Explanation& explanation);

/// The same as JSON: times in `_s`, sizes in `_bytes`; `change` against the plan's time, negative when faster.
[[nodiscard]] std::string explanation_json(const PlanFile& file, const Explanation& explanation);

}  // namespace hpplan
