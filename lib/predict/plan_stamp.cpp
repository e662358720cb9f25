#include "predict/plan_stamp.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/text.hpp"
#include "predict/evaluate.hpp"

namespace hpplan {

PlanProblem stamp_problem(const Problem& problem) {
  PlanProblem stamp;
  stamp.model = {problem.model.name, problem.model.digest};
  stamp.cluster = {problem.cluster.name, problem.cluster.digest};
  stamp.job = problem.job;
  std::vector<std::string> digests;
  for (const DeviceType& type : problem.cluster.device_types) {
    const DeviceProfile* profile = problem.profiles.find(problem.model, type);
    if (profile == nullptr) continue;
    const std::string name = concat(profile->device_type, "/", profile->model);
    if (std::find(stamp.profiles.begin(), stamp.profiles.end(), name) != stamp.profiles.end()) continue;
    stamp.profiles.push_back(name);
    digests.push_back(profile->digest);
  }
  stamp.profile_digest = join(digests, "+");
  return stamp;
}

PlanFigures plan_figures(const Problem& problem, const Plan& plan) {
  const double rate = samples_per_second(problem, plan);
  return {plan.gap(), rate, rate * problem.model.sequence, model_flop_utilisation(problem, plan)};
}

PlanFile make_plan_file(const Problem& problem, const Plan& plan) {
  check_invariant(plan.lower_bound > Seconds{0.0}, "a plan with a lower bound");
  PlanFile file;
  file.problem = stamp_problem(problem);
  file.plan = plan;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    std::vector<StagePlacement>& placements = file.placements.emplace_back();
    for (const StagePlan& stage : pipeline.stages) placements.push_back(placement_of(problem.cluster, stage));
  }
  for (const DevicePlace& place : plan.idle_devices) file.idle_devices.push_back(name_of(problem.cluster, place));
  file.figures = plan_figures(problem, plan);
  return file;
}

}  // namespace hpplan
