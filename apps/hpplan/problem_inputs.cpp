#include "problem_inputs.hpp"

#include <algorithm>
#include <set>

#include <CLI/CLI.hpp>

#include "app.hpp"
#include "base/text.hpp"
#include "io/job_reader.hpp"
#include "load.hpp"
#include "load_table.hpp"

namespace hpplan {

namespace {

/// "tp8 bs1, tp8 bs2 and 5 more".
std::string gap_list(const std::vector<ProfileGap>& gaps) {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(gaps.size(), kShown); ++i) {
    names.push_back(concat("tp", gaps[i].tensor_parallel, " bs", gaps[i].samples));
  }
  const std::string text = join(names, ", ");
  return gaps.size() <= kShown ? text : concat(text, " and ", gaps.size() - kShown, " more");
}

void add_gap_notes(const Problem& problem, const DeviceType& type, const std::vector<int>& degrees,
                   std::vector<std::string>& notes) {
  const auto gaps = problem.profiles.gaps(problem.model, type, degrees, replica_samples(problem.job.micro_batches));
  for (const Provenance kind : {Provenance::Interpolated, Provenance::Modelled}) {
    std::vector<ProfileGap> of_kind;
    std::copy_if(gaps.begin(), gaps.end(), std::back_inserter(of_kind),
                 [&](const ProfileGap& gap) { return gap.instead == kind; });
    if (of_kind.empty()) continue;
    notes.push_back(concat(type.name, ": the profile lacks ", gap_list(of_kind), "; these are ", to_text(kind)));
  }
}

Problem with_profiles(const ProblemInputs& inputs, ModelSpec model, ClusterSpec cluster, const Job& job) {
  ProfileTable profiles = load_profile_table(inputs.profiles, model, cluster);
  return make_problem(std::move(model), std::move(cluster), std::move(profiles), job);
}

/// What is said where profiles were given and none of them fits; "" where one does.
std::string unused_profiles_note(const Problem& problem) {
  std::set<std::string> pairs;
  for (const DeviceProfile& profile : problem.profiles.profiles()) {
    const auto& types = problem.cluster.device_types;
    const bool fits =
        profile.model == problem.model.name &&
        std::any_of(types.begin(), types.end(), [&](const auto& type) { return type.name == profile.device_type; });
    if (fits) return "";  // used, or refused with a note of its own
    pairs.insert(concat(profile.model, " on ", profile.device_type));
  }
  if (pairs.empty()) return "";
  constexpr std::size_t kShown = 4;
  std::vector<std::string> shown(pairs.begin(), pairs.end());
  if (shown.size() > kShown) {
    shown.resize(kShown);
    shown.push_back(concat(pairs.size() - kShown, " more"));
  }
  return concat("none of the profiles given is used: they are of ", join(shown, ", "));
}

}  // namespace

void add_input_options(CLI::App& verb, ProblemInputs& inputs, InputsNeeded needed) {
  const bool always = needed == InputsNeeded::Always;
  const std::string fallback = always ? "" : " (default: the shipped one that the plan names)";
  CLI::Option* model = verb.add_option("--model", inputs.model,
                                       "model: a file or the name of a shipped one, such as gpt3-13b" + fallback);
  CLI::Option* cluster = verb.add_option("--cluster", inputs.cluster,
                                         "cluster: a file or the name of a shipped one, such as b2-b4-64" + fallback);
  verb.add_option("--profile", inputs.profiles,
                  "measured times: a file or folder, repeatable (default: shipped profiles that match; the rest is "
                  "modelled)")
      ->type_name("PROFILE")
      ->group("Input");
  model->type_name("MODEL");
  cluster->type_name("CLUSTER");
  for (CLI::Option* option : {model, cluster}) {
    option->group("Input");
    if (always) option->required();
  }
}

Problem load_problem(const ProblemInputs& inputs, const Job& job) {
  ModelSpec model = load_model(inputs.model);
  ClusterSpec cluster = load_cluster(inputs.cluster);
  return with_profiles(inputs, std::move(model), std::move(cluster), job);
}

Problem load_problem_to_plan(const ProblemInputs& inputs, const Job& job) {
  ModelSpec model = load_model(inputs.model);
  ClusterSpec cluster = load_cluster(inputs.cluster);
  const std::vector<Diagnostic> faults = job_faults(job, model, cluster);
  if (!faults.empty()) throw InputError(faults);
  return with_profiles(inputs, std::move(model), std::move(cluster), job);
}

std::vector<std::string> profile_notes(const Problem& problem) {
  std::vector<std::string> notes;
  std::set<std::string> seen;
  for (int g = 0; g < problem.cluster.group_count(); ++g) {
    const DeviceType& type = problem.cluster.type_of(g);
    if (!seen.insert(type.name).second) continue;
    const DeviceProfile* profile = problem.profiles.find(problem.model, type);
    if (profile == nullptr) {
      notes.push_back(
          concat(type.name, ": no profile of ", problem.model.name, "; times are modelled from the device's figures"));
      continue;
    }
    if (profile->synthesized) notes.push_back(concat(type.name, ": the profile is synthesized, not measured"));
    const std::vector<std::string> ends = problem.profiles.unmeasured_ends(problem.model, type);
    if (!ends.empty())
      notes.push_back(concat(type.name, ": the profile has no ", join(ends, " and no "), "; modelled instead"));
    add_gap_notes(problem, type, problem.costs.degrees(g), notes);
  }
  for (const DeviceProfile& profile : problem.profiles.profiles()) {
    const std::string fault = profile.model == problem.model.name ? profile_fault(profile, problem.model) : "";
    if (!fault.empty()) notes.push_back(concat("profile of ", profile.device_type, " not used: ", fault));
  }
  if (std::string note = unused_profiles_note(problem); !note.empty()) notes.push_back(std::move(note));
  return notes;
}

}  // namespace hpplan
