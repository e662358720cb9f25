#pragma once

#include <string>
#include <vector>

#include "domain/plan_file.hpp"
#include "predict/problem.hpp"

namespace hpplan {

/// What a plan file says about the problem: names and fingerprints of the inputs, and the job.
/// Profiles are those that the problem's cost table drew on: one per device type that has any.
[[nodiscard]] PlanProblem stamp_problem(const Problem& problem);

/// The figures that follow from a plan's iteration time and bound.
[[nodiscard]] PlanFigures plan_figures(const Problem& problem, const Plan& plan);

/// What a plan file holds for `plan`, an answer to `problem`. The plan's lower bound must be set.
[[nodiscard]] PlanFile make_plan_file(const Problem& problem, const Plan& plan);

}  // namespace hpplan
