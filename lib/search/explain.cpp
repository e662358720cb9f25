#include "search/explain.hpp"

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "predict/rate_bound.hpp"
#include "predict/stage.hpp"
#include "search/schedule_choice.hpp"
#include "search/stage_table.hpp"
#include "simulate/one_f_one_b.hpp"

namespace hpplan {

namespace {

const PipelinePlan& slowest_pipeline(const Plan& plan) {
  return *std::max_element(plan.pipelines.begin(), plan.pipelines.end(),
                           [](const PipelinePlan& a, const PipelinePlan& b) { return a.time < b.time; });
}

StageQuery query_of(const PipelinePlan& pipeline, const StagePlan& stage) {
  return {stage.node_group,     stage.tensor_parallel, stage.data_parallel,
          pipeline.micro_batch, stage.layers,          stage.in_flight};
}

TimeParts time_parts(const Problem& problem, const Plan& plan, const PipelinePlan& pipeline) {
  std::vector<StageTime> stages;
  for (const StagePlan& stage : pipeline.stages) stages.push_back({stage.forward, stage.backward, {}, stage.link});
  const auto time = [&] { return one_f_one_b_makespan(stages, pipeline.micro_batches); };
  TimeParts parts;
  parts.pipeline = static_cast<int>(&pipeline - plan.pipelines.data());
  const Seconds whole = time();
  for (StageTime& stage : stages) stage.link = Seconds{0.0};
  const Seconds unlinked = time();
  Seconds sum;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s].backward = stage_base(problem, query_of(pipeline, pipeline.stages[s])).backward;
    sum += stages[s].forward + stages[s].backward;
  }
  const Seconds kept = time();
  const Seconds mean = sum / static_cast<double>(stages.size());
  for (StageTime& stage : stages) stage = {mean / 3.0, mean * (2.0 / 3.0), {}, {}};
  const Seconds equal = time();
  parts.work = mean * pipeline.micro_batches;
  parts.fill = equal - parts.work;
  parts.imbalance = kept - equal;
  parts.recompute = unlinked - kept;
  parts.links = whole - unlinked;
  return parts;
}

/// Stage options of every TP degree, number of samples, layer range and in-flight depth up to the plan's deepest
/// pipeline.
std::vector<OptionCensus> census_of(const Problem& problem, const Plan& plan, int threads) {
  std::size_t depth = 1;
  for (const PipelinePlan& pipeline : plan.pipelines) depth = std::max(depth, pipeline.stages.size());
  StageRows rows(problem, static_cast<int>(depth), threads);
  const std::vector<int> samples = replica_samples(problem.job.micro_batches);
  std::vector<OptionCensus> census;
  for (int g = 0; g < problem.cluster.group_count(); ++g) {
    const std::string& type = problem.cluster.type_of(g).name;
    if (std::any_of(census.begin(), census.end(), [&](const OptionCensus& c) { return c.device_type == type; }))
      continue;
    OptionCensus counts;
    counts.device_type = type;
    std::vector<StageKey> keys;
    for (const int tp : problem.costs.degrees(g)) {
      for (const int s : samples) keys.push_back({g, tp, s, 1});
    }
    const std::vector<const StageRow*> found = rows.rows(keys);
    for (std::size_t k = 0; k < keys.size(); ++k) {
      for (int c = 0; c < rows.ranges().count(); ++c) {
        const Seconds base =
            stage_base(problem, {g, keys[k].tensor_parallel, 1, keys[k].samples, rows.ranges().example(c), 1}).backward;
        for (std::size_t w = 0; w < depth; ++w) {
          const double backward = found[k]->backward_of(c, static_cast<int>(w) + 1);
          ++counts.options;
          counts.memory += backward == kInfinity ? 1 : 0;
          counts.recompute += backward != kInfinity && backward > base.value() * (1.0 + 1e-12) ? 1 : 0;
        }
      }
    }
    census.push_back(counts);
  }
  return census;
}

void add_binding(const Problem& problem, const Plan& plan, Explanation& explanation) {
  const PipelinePlan& slowest = slowest_pipeline(plan);
  const auto time = [](const StagePlan& stage) { return stage.forward + stage.backward; };
  Seconds sum;
  for (std::size_t s = 0; s < slowest.stages.size(); ++s) {
    const StagePlan& stage = slowest.stages[s];
    sum += time(stage);
    if (explanation.slowest_stage_time < time(stage)) {
      explanation.slowest_stage = static_cast<int>(s);
      explanation.slowest_stage_time = time(stage);
      explanation.layer_time = time(stage) / static_cast<double>(stage.layers.last - stage.layers.first);
    }
  }
  explanation.mean_stage_time = sum / static_cast<double>(slowest.stages.size());
  explanation.slowest_pipeline = static_cast<int>(&slowest - plan.pipelines.data());
  bool first = true;
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    for (std::size_t s = 0; s < plan.pipelines[p].stages.size(); ++s) {
      const StagePlan& stage = plan.pipelines[p].stages[s];
      const Bytes free = stage.capacity - stage.memory.total();
      if (!first && !(free < explanation.free_memory)) continue;
      first = false;
      explanation.free_memory = free;
      explanation.tight_pipeline = static_cast<int>(p);
      explanation.tight_stage = static_cast<int>(s);
    }
  }
  if (slowest.schedule == "1f1b") explanation.parts = time_parts(problem, plan, slowest);
}

/// One change to a problem.
struct Change {
  std::string text;
  std::function<void(ClusterSpec&, Job&)> apply;
  bool only_adds = false;  // every plan stays possible as it is
};

void add_memory_and_nodes(const Problem& problem, std::vector<Change>& changes) {
  for (std::size_t t = 0; t < problem.cluster.device_types.size(); ++t) {
    changes.push_back({concat("1 GiB more on every ", problem.cluster.device_types[t].name),
                       [t](ClusterSpec& cluster, Job&) { cluster.device_types[t].memory += Bytes{1LL << 30}; }, true});
  }
  for (std::size_t g = 0; g < problem.cluster.node_groups.size(); ++g) {
    changes.push_back({concat("one more node of ", problem.cluster.node_groups[g].name),
                       [g](ClusterSpec& cluster, Job&) {
                         NodeGroup& group = cluster.node_groups[g];
                         group.node_names.push_back(concat(group.name, "-more"));
                         ++group.nodes;
                       },
                       true});
  }
}

void add_other_batches(const Problem& problem, const Plan& plan, std::vector<Change>& changes) {
  std::set<int> used;
  for (const PipelinePlan& pipeline : plan.pipelines) used.insert(pipeline.micro_batch);
  for (const int size : used) {
    if (problem.job.micro_batches.size() < 2) continue;
    changes.push_back({concat("without micro-batches of ", size),
                       [size](ClusterSpec&, Job& job) { std::erase(job.micro_batches, size); }});
  }
  for (const int size : used) {
    const int twice = 2 * size;
    const std::vector<int>& allowed = problem.job.micro_batches;
    if (twice > problem.job.global_batch || std::find(allowed.begin(), allowed.end(), twice) != allowed.end()) continue;
    changes.push_back({concat("with micro-batches of ", twice, " too"),
                       [twice](ClusterSpec&, Job& job) {
                         job.micro_batches.push_back(twice);
                         std::sort(job.micro_batches.begin(), job.micro_batches.end());
                       },
                       true});
  }
}

std::vector<Change> changes_of(const Problem& problem, const Plan& plan) {
  std::vector<Change> changes;
  const int pipelines = static_cast<int>(plan.pipelines.size());
  for (const int count : {pipelines - 1, pipelines + 1}) {
    if (count < 1 || count > problem.cluster.device_count() || !problem.job.constraints.pipelines.allows(count))
      continue;
    changes.push_back(
        {concat("with ", count, count == 1 ? " pipeline" : " pipelines"), [count](ClusterSpec&, Job& job) {
           job.constraints.pipelines = {count, count};
         }});
  }
  add_other_batches(problem, plan, changes);
  bool recomputes = false;
  std::set<int> types;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    for (const StagePlan& stage : pipeline.stages) {
      recomputes = recomputes || !stage.recompute.empty();
      types.insert(problem.cluster.node_groups[static_cast<std::size_t>(stage.node_group)].device_type);
    }
  }
  if (recomputes) {
    changes.push_back(
        {"without recomputation", [](ClusterSpec&, Job& job) { job.constraints.allow_recompute = false; }});
  }
  if (types.size() > 1 && !problem.job.constraints.type_pure) {
    changes.push_back(
        {"with one device type per pipeline", [](ClusterSpec&, Job& job) { job.constraints.type_pure = true; }});
  }
  add_memory_and_nodes(problem, changes);
  return changes;
}

Alternative answer(const std::string& change, const Problem& problem, const ExplainOptions& options,
                   SearchReport* report = nullptr) {
  if (options.progress) options.progress(change);
  SearchOptions search;
  search.threads = options.threads;
  if (options.new_stop) search.stop = options.new_stop();
  SearchResult result = find_scheduled_plan(problem, search).search;
  Alternative alternative;
  alternative.change = change;
  if (!result.plans.empty()) {
    alternative.time = result.plans.front().iteration_time;
    alternative.lower_bound = result.plans.front().lower_bound;
    alternative.ended_early = !result.plans.front().complete;
  }
  if (report != nullptr) *report = std::move(result.report);
  return alternative;
}

}  // namespace

Explanation explain_plan(const Problem& problem, const Plan& plan, const ExplainOptions& options) {
  Explanation explanation;
  add_binding(problem, plan, explanation);
  explanation.census = census_of(problem, plan, options.threads);
  SearchReport report;
  explanation.again = answer("the same problem", problem, options, &report);
  explanation.branches = report.branches;
  explanation.skipped = report.skipped;
  explanation.candidates = report.candidates;
  for (const Change& change : changes_of(problem, plan)) {
    ClusterSpec cluster = problem.cluster;
    Job job = problem.job;
    change.apply(cluster, job);
    const Problem changed = make_problem(problem.model, std::move(cluster), problem.profiles, std::move(job));
    Alternative alternative = answer(change.text, changed, options);
    // A search that was ended early may not have met the plan itself.
    if (change.only_adds && (!alternative.time || plan.iteration_time < *alternative.time)) {
      if (!alternative.time) alternative.lower_bound = rate_bound(changed);
      alternative.time = plan.iteration_time;
    }
    explanation.alternatives.push_back(std::move(alternative));
  }
  return explanation;
}

}  // namespace hpplan
