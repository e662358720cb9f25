#pragma once

#include <vector>

#include "domain/plan_file.hpp"
#include "predict/problem.hpp"

namespace hpplan {

/// What a plan file is held to.
struct JudgeOptions {
  double tolerance = 1e-6;  // relative, of times and rates; sizes and counts must be equal
};

/// How far a plan's lower bound was proved again.
///   NotLookedAt  the plan makes no sense, or its job asks for what no plan can have
///   Derived      the work of the batch over the best rates of all devices (predict/rate_bound.hpp) proves it
///   Accepted     above what that proves, and at most the plan's time: it rests on the search's proof
///   Wrong        not proved by what the plan says it is proved by, or above the plan's time
enum class BoundVerdict { NotLookedAt, Derived, Accepted, Wrong };

[[nodiscard]] const char* to_text(BoundVerdict verdict);

/// What the judge found. The numbers are recomputed only when the decisions make sense.
struct Judgement {
  std::vector<Difference> differences;
  bool recomputed = false;
  BoundVerdict bound = BoundVerdict::NotLookedAt;
  Seconds work_bound;  // recomputed for the plan's whole job; 0: not looked at

  [[nodiscard]] bool ok() const { return differences.empty(); }
};

/// The job of a plan file, fit to build the problem that the plan is judged in: it asks for the cost of the plan's own
/// micro-batches only, and leaves the constraints to judge_plan, so that breaking them is a difference and not a fault.
[[nodiscard]] Job job_to_judge(const PlanFile& file);

/// Holds a plan file against `problem`, made with job_to_judge: inputs, structure, constraints, and every predicted
/// number, with none of the search code. `file` gets its places filled in.
[[nodiscard]] Judgement judge_plan(const Problem& problem, PlanFile& file, const JudgeOptions& options = {});

}  // namespace hpplan
