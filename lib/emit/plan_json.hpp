#pragma once

#include <string>

#include "domain/plan_file.hpp"

namespace hpplan {

/// The text of a plan file (contract.md, configs/plan.schema.json). The same plan gives the same bytes on every
/// machine: keys in a fixed order, numbers in the shortest form that reads back the same. Infinity and NaN are refused
/// (InternalError), because JSON has neither.
[[nodiscard]] std::string plan_json(const PlanFile& file);

}  // namespace hpplan
