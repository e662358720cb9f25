#pragma once

#include <string>

#include "domain/plan_file.hpp"
#include "predict/judge.hpp"

namespace hpplan {

enum class TextStyle { Plain, Coloured };

/// A plan for people: one line per stage, the parts of the iteration time, balance, bound and rates; at most 120
/// columns as long as names are short. Needs no inputs but the plan file.
[[nodiscard]] std::string plan_summary(const PlanFile& file, TextStyle style = TextStyle::Plain);

/// One line of `plan_summary` about the result: "iteration 1.234 s, at most 0.8 % above the optimum, ...".
[[nodiscard]] std::string plan_headline(const PlanFile& file);

/// What `hpplan check` prints: every difference with what was found and what is right.
[[nodiscard]] std::string judgement_text(const PlanFile& file, const Judgement& judgement);
[[nodiscard]] std::string judgement_json(const Judgement& judgement);

}  // namespace hpplan
