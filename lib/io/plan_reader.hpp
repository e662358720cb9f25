#pragma once

#include <string>

#include "domain/plan_file.hpp"
#include "io/document.hpp"

namespace hpplan {

/// Throws InputError if the document is no plan at all, as opposed to a plan with faults: it neither states the format
/// nor has pipelines.
void check_is_plan(const Document& document);

/// The plan in a document. Strict: every name of the format must be there, with its type and in its range, and no
/// other; lists that belong together have one length; parts add up to the totals written beside them.
/// Throws InputError with every fault and its position. What the numbers mean is not judged here, see judge_plan.
[[nodiscard]] PlanFile read_plan(const Document& document);

/// The same for a text; `file` is the name shown in messages.
[[nodiscard]] PlanFile parse_plan(std::string text, std::string file);

}  // namespace hpplan
