#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>

#include <CLI/CLI.hpp>

#include "app.hpp"
#include "base/for_each_index.hpp"
#include "base/text.hpp"
#include "effort_option.hpp"
#include "emit/report_json.hpp"
#include "emit/sweep_summary.hpp"
#include "io/digest.hpp"
#include "io/job_reader.hpp"
#include "io/sweep_reader.hpp"
#include "load.hpp"
#include "load_table.hpp"
#include "option_checks.hpp"
#include "predict/evaluate.hpp"
#include "schedule_names.hpp"
#include "search/schedule_choice.hpp"
#include "sweep/runner.hpp"
#include "verbs.hpp"
#include "wait_policy.hpp"

namespace hpplan {

namespace {

struct SweepOptions {
  std::string spec;
  std::string out;
  std::string shard;
  int threads = 0;
  double time_limit = 0.0;
  int effort = 1;
  std::vector<std::string> results;
  std::string csv;
  std::string svg;
  bool retry_broken = false;
  bool json = false;
};

/// Inputs of all points, each file read once.
class Inputs {
 public:
  struct Loaded {
    ModelSpec model;
    ClusterSpec cluster;
    ProfileTable profiles;
    std::string profile_text;  // digests
  };

  [[nodiscard]] const Loaded& of(const SweepPoint& point) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::string key =
        concat(point.model, "\n", point.cluster, "\n", join(point.profiles, "\n"), "\n", point.sequence);
    const auto found = loaded_.find(key);
    if (found != loaded_.end()) return *found->second;
    auto loaded = std::make_unique<Loaded>();
    loaded->model = load_model(point.model);
    if (point.sequence > 0) {
      loaded->model.sequence = point.sequence;
      loaded->model.digest = model_digest(loaded->model);
    }
    loaded->cluster = load_cluster(point.cluster);
    loaded->profiles = load_profile_table(point.profiles, loaded->model, loaded->cluster);
    for (const DeviceProfile& profile : loaded->profiles.profiles()) loaded->profile_text += profile.digest + " ";
    return *loaded_.emplace(key, std::move(loaded)).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Loaded>> loaded_;
};

std::string limit_text(const CountLimit& limit) { return concat(limit.min, "..", limit.max); }

/// Everything of a job that an answer depends on.
std::string job_text(const Job& job) {
  std::string text = concat("batch ", job.global_batch, " tolerance ", shortest(job.tolerance), " margin ",
                            job.memory_margin.count(), " overhead ", job.framework_overhead.count(), " sharding ",
                            static_cast<int>(job.optimizer_sharding), " overlap ", job.overlap_gradient_sync,
                            " schedules ", join(job.schedules, ","), " drift ", job.max_drift.value_or(-1), " micro");
  for (const int size : job.micro_batches) text += concat(" ", size);
  const Constraints& limits = job.constraints;
  text += concat(" pipelines ", limit_text(limits.pipelines), " stages ", limit_text(limits.stages), " across ",
                 limits.tensor_parallel_across_nodes, " whole ", limits.whole_nodes, " pure ", limits.type_pure,
                 " recompute ", limits.allow_recompute, " tp");
  for (const int degree : limits.tensor_parallel) text += concat(" ", degree);
  for (const PlacementRule& rule : limits.placement) text += concat(" ", to_text(rule.kind), " ", to_text(rule));
  return text;
}

/// "2x (4 stages, b 8, m 64, 1f1b)", equal pipelines together.
std::string plan_text(const Plan& plan) {
  std::vector<std::pair<std::string, int>> kinds;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    const std::string text =
        concat("(", pipeline.stages.size(), pipeline.stages.size() == 1 ? " stage" : " stages", ", b ",
               pipeline.micro_batch, ", m ", pipeline.micro_batches, ", ", pipeline.schedule, ")");
    const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.first == text; });
    if (found == kinds.end()) {
      kinds.emplace_back(text, 1);
    } else {
      ++found->second;
    }
  }
  std::vector<std::string> words;
  for (const auto& [text, count] : kinds) words.push_back(count == 1 ? text : concat(count, "x ", text));
  return join(words, " + ");
}

SweepOutcome outcome_of(const Problem& problem, const SearchResult& result) {
  SweepOutcome outcome;
  outcome.devices = problem.cluster.device_count();
  if (result.plans.empty()) {
    outcome.status = SweepStatus::Infeasible;
    const std::string none = result.report.stopped ? "no plan was found within the time limit" : "no plan is feasible";
    outcome.reason = result.report.rejections.empty() ? none : result.report.rejections.front().text;
    return outcome;
  }
  const Plan& plan = result.plans.front();
  outcome.status = SweepStatus::Planned;
  outcome.iteration_time = plan.iteration_time;
  outcome.lower_bound = plan.lower_bound;
  outcome.samples_per_second = samples_per_second(problem, plan);
  outcome.used_devices = outcome.devices - static_cast<int>(plan.idle_devices.size());
  outcome.pipelines = static_cast<int>(plan.pipelines.size());
  outcome.plan = plan_text(plan);
  return outcome;
}

SweepOutcome plan_point(Inputs& inputs, const SweepPoint& point, const SweepOptions& sweep) {
  const Inputs::Loaded& loaded = inputs.of(point);
  const std::vector<Diagnostic> faults = job_faults(point.job, loaded.model, loaded.cluster);
  if (!faults.empty()) throw InputError(faults);
  Job job = point.job;
  job.schedules = wanted_schedules("schedule", job);
  const Problem problem = make_problem(loaded.model, loaded.cluster, loaded.profiles, std::move(job));
  SearchOptions options;
  options.set_effort(sweep.effort);
  if (sweep.time_limit > 0.0) options.stop = stop_after(sweep.time_limit);
  return outcome_of(problem, find_scheduled_plan(problem, options).search);
}

SweepShard shard_of(const std::string& text) {
  if (text.empty()) return {};
  const std::size_t slash = text.find('/');
  const auto number = [&](const std::string& digits) {
    const bool plain =
        !digits.empty() && digits.size() < 7 && digits.find_first_not_of("0123456789") == std::string::npos;
    return plain ? std::stoi(digits) : 0;
  };
  const SweepShard shard{number(text.substr(0, slash)),
                         slash == std::string::npos ? 0 : number(text.substr(slash + 1))};
  if (shard.number >= 1 && shard.number <= shard.count) return shard;
  throw InputError(Diagnostic{"", 0, 0, "--shard", concat("\"", text, "\" is no part of a whole"),
                              "write 1/4 to 4/4 for four parts"});
}

/// "12.3 lines/s, 1 min 5 s left".
std::string rate_text(double seconds, std::size_t done, std::size_t total) {
  const double rate = static_cast<double>(done) / std::max(seconds, 1e-3);
  const auto left = static_cast<long>(static_cast<double>(total - done) / rate + 0.5);
  const std::string minutes = left >= 60 ? concat(left / 60, " min ") : "";
  return concat(significant(rate, 3), " points/s, ", minutes, left % 60, " s left");
}

Report report_of(const SweepSummary& summary, const std::string& results) {
  return Report()
      .add("results", results)
      .add("points", summary.points)
      .add("lines_from_before", summary.kept)
      .add("broken_lines_tried_again", summary.retried)
      .add("problems_planned_now", summary.computed)
      .add("planned", summary.planned)
      .add("infeasible", summary.infeasible)
      .add("broken", summary.broken);
}

ExitCode run(const AppContext& context, const SweepOptions& options) {
  let_waiting_threads_sleep(context.arguments);
  if (options.spec.empty() || options.out.empty()) {
    throw InputError(Diagnostic{"", 0, 0, options.spec.empty() ? "SPEC" : "--out", "missing",
                                "hpplan sweep SPEC --out results.jsonl"});
  }
  InputText input = read_input(options.spec);
  const std::vector<SweepPoint> points = parse_sweep(std::move(input.text), std::move(input.name));
  Inputs inputs;
  Progress progress(context, "sweep");
  const auto start = std::chrono::steady_clock::now();
  SweepRunOptions run_options;
  run_options.results = options.out;
  run_options.shard = shard_of(options.shard);
  run_options.retry_broken = options.retry_broken;
  run_options.threads = options.threads > 0 ? options.threads : default_thread_count();
  run_options.key = [&](const SweepPoint& point) {
    const Inputs::Loaded& loaded = inputs.of(point);
    return concat(loaded.model.digest, " ", loaded.cluster.digest, " ", loaded.profile_text, job_text(point.job));
  };
  run_options.plan = [&](const SweepPoint& point) { return plan_point(inputs, point, options); };
  run_options.progress = [&](std::size_t done, std::size_t total) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    progress.update(done, total, rate_text(seconds, done, total));
  };
  const SweepSummary summary = run_sweep(points, run_options);
  const std::string retried = summary.retried > 0 ? concat(summary.retried, " broken ones tried again, ") : "";
  print_note(context, concat(summary.points, " points, ", summary.kept, " lines from before, ", retried,
                             summary.computed, " problems planned now; in ", options.out, ": ", summary.planned,
                             " planned, ", summary.infeasible, " infeasible, ", summary.broken, " broken"));
  if (options.json && options.out != "-") std::cout << report_json(report_of(summary, options.out));
  if (summary.broken > 0) return ExitCode::BadInput;
  return summary.infeasible > 0 ? ExitCode::NoFeasiblePlan : ExitCode::Done;
}

ExitCode summarize(const SweepOptions& options) {
  std::vector<SweepLine> lines;
  std::map<int, std::string> files;
  for (const std::string& path : options.results) {
    const InputText input = read_input(path);
    for (SweepLine& line : parse_sweep_results(input.text, input.name)) {
      const auto [first, is_new] = files.emplace(line.index, input.name);
      if (!is_new) {
        throw InputError(Diagnostic{input.name, 0, 0, "", concat("point ", line.index, " is also in ", first->second),
                                    "give the parts of one sweep, each once"});
      }
      lines.push_back(std::move(line));
    }
  }
  if (!options.csv.empty()) write_output(options.csv, sweep_csv(lines));
  if (!options.svg.empty()) write_output(options.svg, sweep_svg(lines));
  if (options.json) {
    std::sort(lines.begin(), lines.end(), [](const SweepLine& a, const SweepLine& b) { return a.index < b.index; });
    std::vector<std::string> texts;
    for (const SweepLine& line : lines) texts.push_back(sweep_line_text(line));
    std::cout << "[" << join(texts, ",\n ") << "]\n";
  } else if (options.csv.empty() && options.svg.empty()) {
    std::cout << sweep_table(std::move(lines));
  }
  return ExitCode::Done;
}

}  // namespace

void add_sweep_verb(CLI::App& app, AppContext& context) {
  const auto options = std::make_shared<SweepOptions>();
  const auto summarizes = std::make_shared<bool>(false);
  // CLI11 runs the callback of the outer verb last: it decides between both.
  CLI::App& verb = add_verb(
      app, context,
      {"sweep", "Plans many problems from one file, in parallel, and can be stopped and resumed at any moment.",
       "hpplan sweep configs/sweeps/small.yaml --out results.jsonl && hpplan sweep summarize results.jsonl"},
      [&context, options, summarizes] { return *summarizes ? summarize(*options) : run(context, *options); });
  verb.add_option("spec", options->spec, "sweep file, \"-\": standard input")->type_name("FILE");
  verb.add_option(
          "--out", options->out,
          "file that results are appended to, one JSON object per line; \"-\": standard output, nothing is resumed")
      ->type_name("FILE");
  verb.add_option("--shard", options->shard, "only part I of N, as I/N; equal problems are in the same part")
      ->type_name("I/N");
  verb.add_option("--threads", options->threads, "problems planned at the same time; default: one per core")
      ->type_name("N")
      ->check(whole_number(1, 1024));
  verb.add_flag("--retry-broken", options->retry_broken,
                "plan points again whose inputs were broken, once they are mended");
  verb.add_option("--time-limit", options->time_limit, "seconds for one problem; default: none")
      ->type_name("S")
      ->check(positive_number());
  add_effort_option(verb, options->effort);
  verb.add_flag("--json", options->json, "how many points came to what, as JSON on standard output");
  CLI::App& summary = add_verb(verb, context,
                               {"summarize", "Shows results as a table, or writes them as CSV or as a picture.",
                                "hpplan sweep summarize part1.jsonl part2.jsonl --svg times.svg"},
                               [options] { return summarize(*options); });
  summary.preparse_callback([summarizes](std::size_t) { *summarizes = true; });
  summary.add_option("results", options->results, "results files, all parts of one sweep")
      ->required()
      ->type_name("FILE");
  summary.add_option("--csv", options->csv, "file to write, \"-\": standard output")->type_name("FILE");
  summary.add_option("--svg", options->svg, "file to write, \"-\": iteration time against devices")->type_name("FILE");
  summary.add_flag("--json", options->json, "all lines as one JSON list, in the order of the points");
}

}  // namespace hpplan
