#include "predict/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "domain/operators.hpp"
#include "predict/gradient_sync.hpp"
#include "predict/planned_stage.hpp"
#include "predict/stage.hpp"
#include "simulate/plan_schedule.hpp"

namespace hpplan {

namespace {

double coefficient_of_variation(const std::vector<double>& values) {
  if (values.size() < 2) return 0.0;
  const double count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (mean == 0.0) return 0.0;
  double square = 0.0;
  for (const double value : values) square += (value - mean) * (value - mean);
  return std::sqrt(square / count) / mean;
}

std::vector<DevicePlace> idle_devices(const ClusterSpec& cluster, const std::vector<PipelinePlan>& pipelines) {
  std::vector<bool> used(static_cast<std::size_t>(cluster.device_count()), false);
  for (const PipelinePlan& pipeline : pipelines) {
    for (const StagePlan& stage : pipeline.stages) {
      for (const DevicePlace& place : stage.devices) used[static_cast<std::size_t>(rank_of(cluster, place))] = true;
    }
  }
  std::vector<DevicePlace> idle;
  for (int rank = 0; rank < cluster.device_count(); ++rank) {
    if (!used[static_cast<std::size_t>(rank)]) idle.push_back(place_of_rank(cluster, rank));
  }
  return idle;
}

/// End of the last backward of every device that is used.
std::vector<Seconds> device_ends(const Problem& problem, const Plan& plan) {
  std::vector<Seconds> ends(static_cast<std::size_t>(problem.cluster.device_count()));
  for (const PipelinePlan& pipeline : plan.pipelines) {
    const PlannedRun run = run_planned(pipeline);
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
      for (const DevicePlace& place : pipeline.stages[s].devices) {
        ends[static_cast<std::size_t>(rank_of(problem.cluster, place))] = run.simulation.last_end[s];
      }
    }
  }
  return ends;
}

/// What the drain does not hide. A group starts when all its devices have ended their backwards and earlier calls;
/// groups are served in the order in which they become ready.
Seconds exposed_sync(const Problem& problem, const Plan& plan) {
  if (!problem.job.overlap_gradient_sync) return plan.gradient_sync.time;
  std::vector<Seconds> free = device_ends(problem, plan);
  std::vector<std::pair<Seconds, std::size_t>> order;
  for (std::size_t g = 0; g < plan.gradient_sync.groups.size(); ++g) {
    Seconds ready;
    for (const int rank : plan.gradient_sync.groups[g].ranks)
      ready = std::max(ready, free[static_cast<std::size_t>(rank)]);
    order.emplace_back(ready, g);
  }
  std::sort(order.begin(), order.end());
  Seconds end = plan.pipeline_time;
  for (const auto& [ready, g] : order) {
    const GradientGroup& group = plan.gradient_sync.groups[g];
    Seconds start = ready;
    for (const int rank : group.ranks) start = std::max(start, free[static_cast<std::size_t>(rank)]);
    const Seconds finish = start + all_reduce_time(problem, group.ranks, group.bytes);
    for (const int rank : group.ranks) free[static_cast<std::size_t>(rank)] = finish;
    end = std::max(end, finish);
  }
  return std::min(plan.gradient_sync.time, end - plan.pipeline_time);
}

}  // namespace

void evaluate_pipeline(const Problem& problem, PipelinePlan& pipeline) {
  set_stage_times(problem, pipeline);
  const PlannedRun run = run_planned(pipeline);
  pipeline.time = run.simulation.makespan;
  double busy = 0.0;
  double devices = 0.0;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    StagePlan& stage = pipeline.stages[s];
    stage.in_flight = run.simulation.peak_in_flight[s];
    stage.weight_copies = run.weight_copies[s];
    stage.drift = run.drift[s];
    stage.memory = planned_memory(problem, pipeline, stage, run.holdings[s], stage.weight_copies);
    stage.capacity = problem.capacity(stage.node_group);
    const double width = static_cast<double>(stage.devices.size());
    busy += width * run.simulation.busy[s].value();
    devices += width;
  }
  pipeline.bubble = 1.0 - busy / (devices * pipeline.time.value());
}

Seconds plan_optimizer_time(const Problem& problem, const std::vector<PipelinePlan>& pipelines) {
  Seconds slowest;
  for (const PipelinePlan& pipeline : pipelines) {
    for (const StagePlan& stage : pipeline.stages) {
      const double parameters = parameters_of(problem, pipeline, stage);
      slowest = std::max(
          slowest, optimizer_time(problem, stage.node_group, stage.tensor_parallel, stage.data_parallel, parameters));
    }
  }
  return slowest;
}

Plan evaluate(const Problem& problem, std::vector<PipelinePlan> pipelines) {
  Plan plan;
  plan.pipelines = std::move(pipelines);
  std::vector<double> times;
  for (PipelinePlan& pipeline : plan.pipelines) {
    evaluate_pipeline(problem, pipeline);
    times.push_back(pipeline.time.value());
    std::vector<double> stage_sums;
    for (const StagePlan& stage : pipeline.stages) stage_sums.push_back((stage.forward + stage.backward).value());
    plan.intra_pipeline_imbalance.push_back(coefficient_of_variation(stage_sums));
    plan.pipeline_time = std::max(plan.pipeline_time, pipeline.time);
  }
  plan.inter_pipeline_imbalance = coefficient_of_variation(times);
  plan.gradient_sync = predict_gradient_sync(problem, plan.pipelines);
  plan.gradient_sync_time = exposed_sync(problem, plan);
  plan.optimizer_time = plan_optimizer_time(problem, plan.pipelines);
  plan.iteration_time = plan.pipeline_time + plan.gradient_sync_time + plan.optimizer_time;
  plan.idle_devices = idle_devices(problem.cluster, plan.pipelines);
  return plan;
}

double samples_per_second(const Problem& problem, const Plan& plan) {
  return problem.job.global_batch / plan.iteration_time.value();
}

double model_flop_utilisation(const Problem& problem, const Plan& plan) {
  double peak = 0.0;
  for (int g = 0; g < problem.cluster.group_count(); ++g) {
    peak += problem.cluster.node_groups[static_cast<std::size_t>(g)].device_count() *
            problem.cluster.type_of(g).peak.value();
  }
  return model_flop_per_sample(problem.model).value() * samples_per_second(problem, plan) / peak;
}

}  // namespace hpplan
