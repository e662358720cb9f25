#pragma once

#include <string>
#include <vector>

#include "domain/plan_file.hpp"
#include "predict/problem.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace hpplan {

/// What `plan` and the verbs that judge plans take: files, or names of shipped files.
struct ProblemInputs {
  std::string model;
  std::string cluster;
  std::vector<std::string> profiles;  // empty: shipped ones that match
};

enum class InputsNeeded { Always, UnlessThePlanNamesThem };

/// Adds --model, --cluster and --profile.
void add_input_options(CLI::App& verb, ProblemInputs& inputs, InputsNeeded needed);

/// The problem that `inputs` and `job` state.
[[nodiscard]] Problem load_problem(const ProblemInputs& inputs, const Job& job);

/// The same for a job that is to be planned: InputError with every contradiction between job, model and cluster. A plan
/// to be judged is not refused for its job; what is wrong in it is a difference.
[[nodiscard]] Problem load_problem_to_plan(const ProblemInputs& inputs, const Job& job);

/// What is not measured in a problem, and whether profiles of the user go unused: one line each, for a plan's notes.
[[nodiscard]] std::vector<std::string> profile_notes(const Problem& problem);

}  // namespace hpplan
