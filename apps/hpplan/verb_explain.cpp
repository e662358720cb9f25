#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "app.hpp"
#include "base/for_each_index.hpp"
#include "emit/explanation_text.hpp"
#include "emit/summary.hpp"
#include "io/plan_reader.hpp"
#include "option_checks.hpp"
#include "predict/judge.hpp"
#include "problem_inputs.hpp"
#include "search/explain.hpp"
#include "verbs.hpp"
#include "wait_policy.hpp"

namespace hpplan {

namespace {

struct ExplainInputs {
  std::string plan;
  ProblemInputs inputs;
  int threads = 0;             // 0: one per core
  double time_limit_s = 10.0;  // of each search
  bool json = false;
};

ExitCode run_explain(const ExplainInputs& options, const AppContext& context) {
  let_waiting_threads_sleep(context.arguments);
  const InputText input = read_input(options.plan);
  PlanFile file = parse_plan(input.text, input.name);
  ProblemInputs inputs = options.inputs;
  if (inputs.model.empty()) inputs.model = file.problem.model.name;
  if (inputs.cluster.empty()) inputs.cluster = file.problem.cluster.name;
  const Judgement judgement = judge_plan(load_problem(inputs, job_to_judge(file)), file, {});
  if (!judgement.ok()) {
    std::cout << judgement_text(file, judgement);
    std::cerr << input.name << ": error: the plan does not hold, so there is nothing to explain\n"
              << "  hint: `hpplan check` lists the same differences; plan again with `hpplan plan`\n";
    return ExitCode::NoFeasiblePlan;
  }
  ExplainOptions search;
  search.threads = options.threads > 0 ? options.threads : default_thread_count();
  search.new_stop = [&options] { return stop_after(options.time_limit_s); };
  if (!context.quiet && context.progress != ProgressMode::Never) {
    search.progress = [](const std::string& change) { std::cerr << "searching: " << change << "\n"; };
  }
  const Problem problem = load_problem(inputs, file.problem.job);
  const Explanation explanation = explain_plan(problem, file.plan, search);
  std::cout << (options.json ? explanation_json(file, explanation) : explanation_text(file, explanation));
  return ExitCode::Done;
}

}  // namespace

void add_explain_verb(CLI::App& app, AppContext& context) {
  const auto options = std::make_shared<ExplainInputs>();
  CLI::App& verb =
      add_verb(app, context,
               {"explain", "Says why a plan is as it is: what binds, what was rejected, what would change it.",
                "hpplan explain plan.json --time-limit 2"},
               [options, &context] { return run_explain(*options, context); });
  verb.add_option("PLAN", options->plan, "plan file; - is standard input")->required()->type_name("FILE");
  add_input_options(verb, options->inputs, InputsNeeded::UnlessThePlanNamesThem);
  verb.add_option("--time-limit", options->time_limit_s, "seconds for each alternative (default 10)")
      ->check(positive_number())
      ->type_name("S");
  verb.add_option("--threads", options->threads, "threads (default: one per core)")
      ->check(whole_number(1, 1024))
      ->type_name("N");
  verb.add_flag("--json", options->json, "the result as JSON")->group("Output");
}

}  // namespace hpplan
