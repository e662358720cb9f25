#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <thread>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "app.hpp"
#include "base/text.hpp"
#include "effort_option.hpp"
#include "emit/plan_json.hpp"
#include "emit/run_report.hpp"
#include "emit/summary.hpp"
#include "interrupt.hpp"
#include "io/job_reader.hpp"
#include "io/quantity.hpp"
#include "option_checks.hpp"
#include "predict/plan_stamp.hpp"
#include "problem_inputs.hpp"
#include "schedule_names.hpp"
#include "search/schedule_choice.hpp"
#include "verbs.hpp"
#include "wait_policy.hpp"

namespace hpplan {

namespace {

using Clock = std::chrono::steady_clock;

struct PlanOptions {
  ProblemInputs inputs;
  Job job;
  SearchOptions search;
  std::string pipelines;
  std::string stages;
  std::string memory_margin;
  std::string framework_overhead;
  std::string optimizer_sharding = "none";
  std::string in_flight = "standard";
  double time_limit_s = 0.0;  // 0: none
  std::string out;
  std::string report;
  bool json = false;
  bool no_cpc = false;
  bool no_ses = false;
  bool no_oso = false;
  bool no_dpo = false;
  int effort = 1;
  bool no_recompute = false;
  std::vector<std::string> forbid;
  std::vector<std::string> force;
};

[[noreturn]] void refuse_option(const std::string& option, const std::string& message, const std::string& hint) {
  throw InputError(Diagnostic{"", 0, 0, option, message, hint});
}

Bytes parse_bytes(const std::string& option, const std::string& text, Bytes fallback) {
  if (text.empty()) return fallback;
  const auto parsed = parse_quantity<Bytes>(text);
  if (const auto* fault = std::get_if<QuantityFault>(&parsed)) refuse_option(option, fault->message, fault->hint);
  return std::get<Bytes>(parsed);
}

Job make_job(const PlanOptions& options) {
  Job job = options.job;
  const InFlight in_flight = options.in_flight == "adaptive" ? InFlight::Adaptive : InFlight::Standard;
  job.schedules = wanted_schedules("--schedule", options.job, in_flight);
  if (!options.pipelines.empty()) job.constraints.pipelines = parse_count_limit("--pipelines", options.pipelines);
  if (!options.stages.empty()) job.constraints.stages = parse_count_limit("--stages", options.stages);
  job.constraints.allow_recompute = !options.no_recompute;
  job.constraints.placement = parse_placement_rules(RuleKind::Forbid, options.forbid);
  for (PlacementRule& rule : parse_placement_rules(RuleKind::Force, options.force)) {
    job.constraints.placement.push_back(std::move(rule));
  }
  job.memory_margin = parse_bytes("--memory-margin", options.memory_margin, job.memory_margin);
  job.framework_overhead = parse_bytes("--framework-overhead", options.framework_overhead, job.framework_overhead);
  job.optimizer_sharding = options.optimizer_sharding == to_text(OptimizerSharding::None)
                               ? OptimizerSharding::None
                               : OptimizerSharding::StageDataParallel;
  return job;
}

SearchOptions search_options(const PlanOptions& options, Clock::time_point start, Progress& progress) {
  SearchOptions search = options.search;
  search.cache_pipelines = !options.no_cpc;
  search.skip_early = !options.no_ses;
  search.order_search = !options.no_oso;
  search.dynamic_programming = !options.no_dpo;
  search.set_effort(options.effort);
  if (options.time_limit_s > 0.0) {
    // A clock counts to some hundred years.
    const std::chrono::duration<double> limit(std::min(options.time_limit_s, 1e9));
    const auto end = start + std::chrono::duration_cast<Clock::duration>(limit);
    search.stop = [end] { return Clock::now() >= end || InterruptGuard::asked_to_end(); };
  } else {
    search.stop = [] { return InterruptGuard::asked_to_end(); };
  }
  search.progress = [&progress](const SearchProgress& state) {
    progress.update(
        static_cast<std::size_t>(state.work), 0,
        concat(std::isfinite(state.incumbent_s) ? "best " + pretty(Seconds{state.incumbent_s}) : "no plan yet",
               ", bound ", pretty(Seconds{state.bound_s})));
  };
  return search;
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

RunReport make_report(const ScheduledSearch& scheduled, int threads) {
  const SearchResult& result = scheduled.search;
  const SearchReport& search = result.report;
  RunReport report;
  report.feasible = !result.plans.empty();
  report.proved = search.proved;
  report.threads = threads;
  report.counts = {{"branches", search.branches},           {"tables", search.tables},
                   {"tables_reused", search.tables_reused}, {"transitions", search.transitions},
                   {"candidates", search.candidates},       {"skipped", search.skipped},
                   {"improvements", search.improvements},   {"tied", search.tied}};
  report.counts.push_back({"work", search.work});
  report.counts.push_back({"busiest_thread", search.busiest});
  if (scheduled.fits > 0) report.counts.push_back({"schedule_fits", scheduled.fits});
  for (const Plan& plan : result.plans) report.iteration_times_s.push_back(plan.iteration_time.value());
  report.rejections = search.rejections;
  return report;
}

TextStyle style_of(int descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool plain = (no_color != nullptr && *no_color != '\0') || isatty(descriptor) == 0;
  return plain ? TextStyle::Plain : TextStyle::Coloured;
}

/// The plans after the best one, each with what is proved of it.
std::string alternatives_text(const SearchResult& result) {
  const std::vector<Plan>& plans = result.plans;
  std::string out;
  for (std::size_t k = 1; k < plans.size(); ++k) {
    std::size_t stages = 0;
    for (const PipelinePlan& pipeline : plans[k].pipelines) stages += pipeline.stages.size();
    const double gap = plans[k].gap();
    const std::string proof = gap <= 1e-9 ? "proved" : concat("no other is more than ", percent(gap, 2), " faster");
    out += concat("  next best ", k + 1, ": ", pretty(plans[k].iteration_time), " (+",
                  percent(plans[k].iteration_time / plans[0].iteration_time - 1.0, 2), "), ", plans[k].pipelines.size(),
                  plans[k].pipelines.size() == 1 ? " pipeline, " : " pipelines, ", stages,
                  stages == 1 ? " stage, " : " stages, ", proof, "\n");
  }
  if (result.report.exhausted) out += "  there is no other plan\n";
  return out;
}

ExitCode run_plan(const PlanOptions& options, const AppContext& context) {
  let_waiting_threads_sleep(context.arguments);
  for (const std::string& path : {options.out, options.report}) {
    if (!path.empty()) check_output(path);
  }
  const Clock::time_point start = Clock::now();
  const Problem problem = load_problem_to_plan(options.inputs, make_job(options));
  const double load_s = seconds_since(start);
  ScheduledSearch scheduled;
  {
    const InterruptGuard guard;
    Progress progress(context, "search");
    scheduled = find_scheduled_plan(problem, search_options(options, start, progress));
  }
  SearchResult& result = scheduled.search;
  RunReport report = make_report(scheduled, options.search.threads);
  report.wall_s = {{"load", load_s}, {"search", seconds_since(start) - load_s}};
  if (!options.report.empty()) write_output(options.report, run_report_json(report));
  if (result.plans.empty()) {
    const bool ended_early = result.report.stopped && report.rejections.empty();
    std::cerr << (ended_early ? "no plan was found before the search was ended: give it more time\n"
                              : census_text(report.rejections));
    if (options.json && options.out.empty() && options.report != "-") std::cout << run_report_json(report);
    return ExitCode::NoFeasiblePlan;
  }
  Plan& best = result.plans.front();
  for (std::string& note : profile_notes(problem)) best.notes.push_back(std::move(note));
  const PlanFile file = make_plan_file(problem, best);
  if (!options.out.empty()) write_output(options.out, plan_json(file));
  if (options.out.empty() && options.json) std::cout << plan_json(file);
  const bool summary_is_result = options.out.empty() && !options.json && options.report != "-";
  const std::string summary =
      plan_summary(file, style_of(summary_is_result ? STDOUT_FILENO : STDERR_FILENO)) + alternatives_text(result);
  if (summary_is_result) {
    std::cout << summary;
  } else {
    print_note(context, summary.substr(0, summary.size() - 1));
  }
  return ExitCode::Done;
}

void add_job_options(CLI::App& verb, PlanOptions& options) {
  Job& job = options.job;
  verb.add_option("--global-batch", job.global_batch, "samples per optimizer step")
      ->required()
      ->type_name("N")
      ->check(whole_number(1, kMaxGlobalBatch))
      ->group("Job");
  verb.add_option("--micro-batch", job.micro_batches, "allowed micro-batch sizes in samples (default 1,2,4,...,64)")
      ->delimiter(',')
      ->type_name("LIST")
      ->check(whole_number(1, 65536))
      ->group("Job");
  verb.add_option("--schedule", job.schedules,
                  "allowed schedules (default 1f1b): names of `hpplan schedule --help`, or all-synchronous")
      ->delimiter(',')
      ->type_name("FAMILIES")
      ->group("Job");
  verb.add_option("--in-flight", options.in_flight,
                  "standard (default), or adaptive: 1f1b may hold more micro-batches where links stall it, fewer where "
                  "memory is short")
      ->check(one_of({"standard", "adaptive"}))
      ->type_name("standard|adaptive")
      ->group("Job");
  verb.add_option("--max-drift", job.max_drift,
                  "asynchronous schedules: updates allowed between a micro-batch's forward and its backward")
      ->type_name("N")
      ->check(whole_number(0))
      ->group("Job");
  verb.add_option("--memory-margin", options.memory_margin,
                  "memory kept free on every device (default 0), such as \"2 GB\"")
      ->type_name("SIZE")
      ->group("Job");
  verb.add_option("--framework-overhead", options.framework_overhead,
                  "memory that context and libraries take on every device (default 1 GiB)")
      ->type_name("SIZE")
      ->group("Job");
  verb.add_option("--optimizer-sharding", options.optimizer_sharding,
                  "none (default), or stage-data-parallel: states divided over a stage's replicas")
      ->check(one_of({"none", "stage-data-parallel"}))
      ->type_name("none|stage-data-parallel")
      ->group("Job");
  verb.add_flag("--overlap", job.overlap_gradient_sync, "hide the gradient All-Reduce in the pipelines' drain")
      ->group("Job");
}

void add_constraint_options(CLI::App& verb, PlanOptions& options) {
  Constraints& limits = options.job.constraints;
  const char* group = "Constraints";
  verb.add_option("--pipelines", options.pipelines, "number of pipelines (default any)")
      ->type_name("N|MIN..MAX")
      ->group(group);
  verb.add_option("--stages", options.stages, "stages per pipeline (default any)")
      ->type_name("N|MIN..MAX")
      ->group(group);
  verb.add_option("--tensor-parallel", limits.tensor_parallel, "allowed tensor-parallel degrees (default any)")
      ->delimiter(',')
      ->type_name("LIST")
      ->check(whole_number(1))
      ->group(group);
  verb.add_flag("--tensor-parallel-across-nodes", limits.tensor_parallel_across_nodes,
                "tensor parallelism may leave a node")
      ->group(group);
  verb.add_flag("--whole-nodes", limits.whole_nodes, "stages use whole nodes only")->group(group);
  verb.add_flag("--type-pure", limits.type_pure, "a pipeline uses one device type only")->group(group);
  verb.add_option(
          "--forbid", options.forbid,
          "what devices may not hold, such as \"type=rtx-3090 stage=first\" or \"layers=1-4 group=a100\"; or devices "
          "not to use: node=NAME, device=NODE:INDEX; repeatable")
      ->type_name("RULE")
      ->allow_extra_args(false)
      ->group(group);
  verb.add_option(
          "--force", options.force,
          "what only these devices may hold, such as \"stage=last type=a100\"; node=NAME: use no other; repeatable")
      ->type_name("RULE")
      ->allow_extra_args(false)
      ->group(group);
  verb.add_flag("--no-recompute", options.no_recompute, "never recompute activations")->group(group);
}

void add_search_options(CLI::App& verb, PlanOptions& options) {
  const char* group = "Search";
  options.search.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  verb.add_option("--tolerance", options.job.tolerance,
                  "accept a plan within (1 + ALPHA) of the optimum (default 0: exact)")
      ->type_name("ALPHA")
      ->check(number_from(0.0, kMaxTolerance))
      ->group(group);
  verb.add_option("--time-limit", options.time_limit_s,
                  "end the search after S seconds with the best plan so far; so do Ctrl-C and SIGTERM")
      ->type_name("S")
      ->check(positive_number())
      ->group(group);
  add_effort_option(verb, options.effort)->group(group);
  verb.add_option("--threads", options.search.threads, "threads (default: all cores); the plan does not depend on it")
      ->type_name("N")
      ->check(whole_number(1, 1024))
      ->group(group);
  verb.add_option(
          "--top", options.search.top,
          "also show the next best plans, K in all (default 1), each with what is proved of it; no two have the same "
          "stages (devices, split, layers) in all pipelines")
      ->type_name("K")
      ->check(whole_number(1, 1000))
      ->group(group);
  verb.add_flag("--no-cpc", options.no_cpc,
                "do not cache stages and pipelines (slower; a plan that is proved stays the same)")
      ->group(group);
  verb.add_flag("--no-ses", options.no_ses,
                "do not skip early what a bound rules out (slower; a plan that is proved stays the same)")
      ->group(group);
  verb.add_flag("--no-oso", options.no_oso,
                "do not look at what is promising first (slower; a plan that is proved stays the same)")
      ->group(group);
  verb.add_flag("--no-dpo", options.no_dpo,
                "enumerate plans instead of dynamic programming (for some ten devices; set a --time-limit)")
      ->group(group);
}

}  // namespace

void add_plan_verb(CLI::App& app, AppContext& context) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App& verb = add_verb(
      app, context,
      {"plan", "Finds the fastest plan: pipelines, stages, layers, tensor and data parallelism, recomputation.",
       "hpplan plan --model gpt3-1.3b --cluster a100-3090-8 --global-batch 128 --out plan.json"},
      [options, &context] { return run_plan(*options, context); });
  add_input_options(verb, options->inputs, InputsNeeded::Always);
  add_job_options(verb, *options);
  add_constraint_options(verb, *options);
  add_search_options(verb, *options);
  verb.add_option("--out", options->out, "write the plan as JSON; - is standard output")
      ->type_name("FILE")
      ->group("Output");
  verb.add_option("--report", options->report, "write how the search went, as JSON")
      ->type_name("FILE")
      ->group("Output");
  verb.add_flag("--json", options->json, "without --out: the plan as JSON instead of a summary")->group("Output");
}

}  // namespace hpplan
