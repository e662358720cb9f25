#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "app.hpp"
#include "base/text.hpp"
#include "emit/export.hpp"
#include "emit/report_json.hpp"
#include "folder.hpp"
#include "io/plan_reader.hpp"
#include "load.hpp"
#include "load_table.hpp"
#include "predict/evaluate.hpp"
#include "predict/judge.hpp"
#include "predict/problem.hpp"
#include "verbs.hpp"

namespace hpplan {

namespace {

struct ExportOptions {
  std::string plan;
  std::string model;
  std::string cluster;
  std::vector<std::string> profiles;
  std::string target;
  std::string out;
  bool approximate = false;
  bool per_node = false;
  bool json = false;
};

std::string target_names() {
  std::vector<std::string> names;
  for (const ExportTarget& target : export_targets()) names.emplace_back(target.name);
  return join(names, "|");
}

/// The list of targets below the options, from the table that also does the work.
std::string target_help() {
  std::string text = "Targets:\n";
  for (const ExportTarget& target : export_targets()) {
    const std::string name = target.name;
    text += concat("  ", name, std::string(name.size() < 13 ? 13 - name.size() : 1, ' '), target.summary, "\n");
  }
  return text;
}

/// Throws InputError unless the file is about this model and cluster.
void check_inputs(const PlanFile& file, const std::string& plan, const ModelSpec& model, const ClusterSpec& cluster) {
  std::vector<Diagnostic> faults;
  const auto check = [&](const char* field, const InputStamp& stamp, const std::string& name, const std::string& digest,
                         const char* option) {
    if (stamp.digest == digest) return;
    faults.push_back(
        {plan, 0, 0, field,
         concat("the plan was made for ", stamp.name, " (", stamp.digest, "), not for ", name, " (", digest, ")"),
         concat("give ", option, " of the plan")});
  };
  check("problem.model", file.problem.model, model.name, model.digest, "the --model");
  check("problem.cluster", file.problem.cluster, cluster.name, cluster.digest, "the --cluster");
  if (!faults.empty()) throw InputError(faults);
}

/// Fills in the places of a plan. Throws InputError unless its decisions make sense on them: a framework would fail in
/// the middle of a launch. Its times may rest on profiles that are not given here, and are not looked at.
void check_decisions(const Problem& problem, PlanFile& file, const std::string& plan) {
  const Judgement judgement = judge_plan(problem, file);
  std::vector<Diagnostic> faults;
  for (const Difference& difference : judgement.differences) {
    if (judgement.recomputed && difference.field != "problem.global_batch") continue;
    faults.push_back({plan, 0, 0, difference.field,
                      concat(difference.found, difference.expected.empty() ? "" : " where ", difference.expected,
                             difference.expected.empty() ? "" : " is right"),
                      difference.remark});
  }
  if (!faults.empty()) throw InputError(faults);
}

Report report_of(const ExportResult& result, const ExportOptions& options, const std::vector<std::string>& paths) {
  std::vector<Report> changes;
  for (const ExportChange& change : result.changes) {
    changes.push_back(Report()
                          .add("change", change.text)
                          .add("iteration_time_before_s", change.before.value())
                          .add("iteration_time_after_s", change.after.value()));
  }
  return Report()
      .add("target", options.target)
      .add("folder", options.out)
      .add("files", paths)
      .add("changes", changes)
      .add("notes", result.notes);
}

ExitCode export_plan(const AppContext& context, const ExportOptions& options) {
  const ExportTarget& target = export_target(options.target);
  check_folder(options.out);
  InputText input = read_input(options.plan);
  const std::string name = input.name;
  PlanFile file = parse_plan(std::move(input.text), name);
  const ModelSpec model = load_model(options.model);
  const ClusterSpec cluster = load_cluster(options.cluster);
  check_inputs(file, name, model, cluster);

  const ProfileTable profiles = load_profile_table(options.profiles, model, cluster);
  check_decisions(make_problem(model, cluster, profiles, job_to_judge(file)), file, name);

  std::unique_ptr<Problem> problem;
  if (options.approximate) {
    problem = std::make_unique<Problem>(make_problem(model, cluster, profiles, file.problem.job));
  }
  const ExportRequest request{
      file.plan, model, cluster, name, options.approximate, options.per_node, [&](std::vector<PipelinePlan> pipelines) {
        return evaluate(*problem, std::move(pipelines));
      }};
  const ExportResult result = target.write(request);
  std::vector<std::pair<std::string, std::string>> files;
  for (const ExportFile& each : result.files) files.emplace_back(each.path, each.text);
  std::string changes;
  for (const ExportChange& change : result.changes) changes += concat(to_text(change), "\n");
  if (!changes.empty()) files.emplace_back("CHANGES.txt", changes);
  write_folder(options.out, files);

  for (const ExportChange& change : result.changes) print_note(context, "changed: " + to_text(change));
  for (const std::string& note : result.notes) print_note(context, "note: " + note);
  std::vector<std::string> paths;
  for (const auto& each : files) paths.push_back(concat(options.out, options.out.back() == '/' ? "" : "/", each.first));
  std::cout << (options.json ? report_json(report_of(result, options, paths)) : join(paths, "\n") + "\n");
  return ExitCode::Done;
}

}  // namespace

void add_export_verb(CLI::App& app, AppContext& context) {
  const auto options = std::make_shared<ExportOptions>();
  CLI::App& verb = add_verb(app, context,
                            {"export", "Writes the input files of a training framework for a plan.",
                             "hpplan export plan.json --model gpt3-1.3b --cluster a100-3090-8 --to torch --out launch"},
                            [&context, options] { return export_plan(context, *options); });
  verb.footer(concat(target_help(), "\n", verb.get_footer()));
  verb.add_option("plan", options->plan, "plan file, \"-\": standard input")->required()->type_name("FILE");
  verb.add_option("--model", options->model, "model of the plan")->required()->type_name("MODEL");
  verb.add_option("--cluster", options->cluster, "cluster of the plan")->required()->type_name("CLUSTER");
  verb.add_option("--profile", options->profiles, "profiles for the price of approximations; default: shipped ones")
      ->type_name("PROFILE");
  verb.add_option("--to", options->target, concat("target: ", target_names()))->required()->type_name("TARGET");
  verb.add_option("--out", options->out, "folder to write; it appears whole or not at all")
      ->required()
      ->type_name("FOLDER");
  verb.add_flag("--approximate", options->approximate,
                "replace what the target cannot carry, and state each change and its cost");
  verb.add_flag("--per-node", options->per_node,
                "megatron: one argument file per node where stages recompute differently");
  verb.add_flag("--json", options->json, "files, changes and notes as JSON");
}

}  // namespace hpplan
