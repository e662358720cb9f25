#pragma once

#include <vector>

#include "domain/plan_file.hpp"
#include "predict/problem.hpp"

namespace hpplan {

/// What a plan file is held to.
struct JudgeOptions {
  double tolerance = 1e-6;   // relative, of times and rates; sizes and counts must be equal
};

/// What the judge found. The numbers are recomputed only when the decisions make sense.
struct Judgement {
  std::vector<Difference> differences;
  bool recomputed = false;

  [[nodiscard]] bool ok() const { return differences.empty(); }
};

/// The job of a plan file, fit to build the problem that the plan is judged in: it asks for the cost of the plan's own
/// micro-batches only, and leaves the constraints to judge_plan, so that breaking them is a difference and not a fault.
[[nodiscard]] Job job_to_judge(const PlanFile& file);

/// Holds a plan file against `problem`, made with job_to_judge: inputs, structure, constraints, and every predicted
/// number, with none of the search code. `file` gets its places filled in.
[[nodiscard]] Judgement judge_plan(const Problem& problem, PlanFile& file, const JudgeOptions& options = {});

}  // namespace hpplan
