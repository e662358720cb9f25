#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "app.hpp"
#include "base/text.hpp"
#include "emit/summary.hpp"
#include "io/plan_reader.hpp"
#include "option_checks.hpp"
#include "predict/judge.hpp"
#include "problem_inputs.hpp"
#include "verbs.hpp"

namespace hpplan {

namespace {

struct CheckOptions {
  std::string plan;
  ProblemInputs inputs;
  JudgeOptions judge;
  bool json = false;
};

ExitCode report(const CheckOptions& options, const PlanFile& file, const Judgement& judgement) {
  std::cout << (options.json ? judgement_json(judgement) : judgement_text(file, judgement));
  return judgement.ok() ? ExitCode::Done : ExitCode::NoFeasiblePlan;
}

/// A plan that departs from the format is a wrong plan: its faults are differences, with their positions.
Judgement format_faults(const InputError& error) {
  Judgement judgement;
  for (const Diagnostic& fault : error.diagnostics()) {
    const std::string place = fault.line > 0 ? concat(fault.file, ":", fault.line, ":", fault.column, ": ") : "";
    const std::string hint = fault.hint.empty() ? "" : concat("; ", fault.hint);
    judgement.differences.push_back({place + fault.field, fault.message + hint, "", ""});
  }
  return judgement;
}

ExitCode run_check(const CheckOptions& options) {
  const InputText input = read_input(options.plan);
  // What is no document or no plan at all is bad input, not a wrong plan: it throws here.
  const Document document = Document::parse(input.text, input.name);
  check_is_plan(document);
  PlanFile file;
  try {
    file = read_plan(document);
  } catch (const InputError& error) {
    return report(options, file, format_faults(error));
  }
  ProblemInputs inputs = options.inputs;
  if (inputs.model.empty()) inputs.model = file.problem.model.name;
  if (inputs.cluster.empty()) inputs.cluster = file.problem.cluster.name;
  const Problem problem = load_problem(inputs, job_to_judge(file));
  return report(options, file, judge_plan(problem, file, options.judge));
}

}  // namespace

void add_check_verb(CLI::App& app, AppContext& context) {
  const auto options = std::make_shared<CheckOptions>();
  CLI::App& verb = add_verb(app, context,
                            {"check", "Judges a plan: recomputes everything it says and prints each difference.",
                             "hpplan check plan.json --model gpt3-1.3b --cluster a100-3090-8"},
                            [options] { return run_check(*options); });
  verb.add_option("PLAN", options->plan, "plan file; - is standard input")->required()->type_name("FILE");
  add_input_options(verb, options->inputs, InputsNeeded::UnlessThePlanNamesThem);
  verb.add_option("--tolerance", options->judge.tolerance,
                  "largest relative difference of a time or rate (default 1e-6); sizes and counts must be equal")
      ->check(number_from(0.0, 1.0))
      ->type_name("SHARE");
  verb.add_flag("--json", options->json, "the result as JSON")->group("Output");
}

}  // namespace hpplan
