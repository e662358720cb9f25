#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "predict/evaluate.hpp"
#include "predict/stage.hpp"
#include "search/engine.hpp"
#include "support/catch.hpp"
#include "support/random_problems.hpp"

namespace hpplan::testing {

namespace {

constexpr double kInfeasible = std::numeric_limits<double>::infinity();

using Pipelines = std::vector<PipelinePlan>;

/// Whether every stage holds a layer and divides its micro-batch, and the pipelines make the batch.
bool keeps_rules(const Problem& problem, const Pipelines& pipelines) {
  int samples = 0;
  for (const PipelinePlan& pipeline : pipelines) {
    samples += pipeline.micro_batch * pipeline.micro_batches;
    for (const StagePlan& stage : pipeline.stages) {
      if (stage.layers.size() < 1 || pipeline.micro_batch % stage.data_parallel != 0) return false;
    }
  }
  return samples == problem.job.global_batch;
}

/// Iteration time of the decisions with the cheapest recomputation; infinity where they break a rule or do not fit.
double judge(const Problem& problem, Pipelines pipelines) {
  if (!keeps_rules(problem, pipelines)) return kInfeasible;
  for (PipelinePlan& pipeline : pipelines) {
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
      StagePlan& stage = pipeline.stages[s];
      const int in_flight = std::min(pipeline.micro_batches, static_cast<int>(pipeline.stages.size() - s));
      const StageQuery query{stage.node_group, stage.tensor_parallel, stage.data_parallel, pipeline.micro_batch,
                             stage.layers, in_flight};
      const auto predicted = predict_stage(problem, query);
      const auto* estimate = std::get_if<StageEstimate>(&predicted);
      if (estimate == nullptr) return kInfeasible;
      stage.recompute = recompute_ranges(problem, query, estimate->recompute);
    }
  }
  return evaluate(problem, std::move(pipelines)).iteration_time.value();
}

/// One small change: a layer to the neighbour, another split, micro-batches to another pipeline, two stages swapped,
/// or another micro-batch size. It may break rules: judge() says so.
void change(const Problem& problem, Dice& dice, Pipelines& pipelines) {
  const auto pick = [&](std::size_t count) { return static_cast<std::size_t>(dice.whole(0, static_cast<int>(count) - 1)); };
  PipelinePlan& pipeline = pipelines[pick(pipelines.size())];
  const std::size_t s = pick(pipeline.stages.size());
  StagePlan& stage = pipeline.stages[s];
  switch (dice.whole(0, 4)) {
    case 0: {
      if (s + 1 == pipeline.stages.size()) return;
      const int moved = dice.one_of({-2, -1, 1, 2});
      stage.layers.last += moved;
      pipeline.stages[s + 1].layers.first += moved;
      return;
    }
    case 1: {
      const auto& degrees = problem.costs.degrees(stage.node_group);
      const auto devices = static_cast<int>(stage.devices.size());
      const int tp = degrees[pick(degrees.size())];
      const int per_node = problem.cluster.node_groups[static_cast<std::size_t>(stage.node_group)].devices_per_node;
      if (devices % tp != 0 || (devices > per_node && per_node % tp != 0)) return;
      if (devices / tp > problem.job.micro_batches.back()) return;
      stage.tensor_parallel = tp;
      stage.data_parallel = devices / tp;
      return;
    }
    case 2: {
      PipelinePlan& other = pipelines[pick(pipelines.size())];
      if (pipeline.micro_batches <= other.micro_batch) return;
      pipeline.micro_batches -= other.micro_batch;
      other.micro_batches += pipeline.micro_batch;
      return;
    }
    case 3: {
      PipelinePlan& other = pipelines[pick(pipelines.size())];
      StagePlan& stranger = other.stages[pick(other.stages.size())];
      std::swap(stage.layers, stranger.layers);
      std::swap(stage, stranger);
      return;
    }
    default: {
      const int b = problem.job.micro_batches[pick(problem.job.micro_batches.size())];
      const int samples = pipeline.micro_batch * pipeline.micro_batches;
      if (samples % b != 0) return;
      pipeline.micro_batch = b;
      pipeline.micro_batches = samples / b;
      return;
    }
  }
}

/// Best time that many small changes reach, now and then accepting a slower plan.
double wander(const Problem& problem, Pipelines pipelines, Dice& dice, int steps) {
  double now = judge(problem, pipelines);
  double best = now;
  for (int step = 0; step < steps; ++step) {
    Pipelines changed = pipelines;
    for (int k = dice.whole(1, 3); k > 0; --k) change(problem, dice, changed);
    const double time = judge(problem, changed);
    if (!(time < now * dice.one_of({1.0, 1.0, 1.02, 1.2}))) continue;
    now = time;
    pipelines = std::move(changed);
    best = std::min(best, now);
  }
  return best;
}

}  // namespace

TEST_CASE("no walk from a plan ever beats its bound, nor a plan that is proved", "[search][property]") {
  for (std::uint64_t seed = 4001; seed <= 4024; ++seed) {
    const Inputs inputs = random_inputs(seed, {16, 3, 12, 48});
    INFO("seed " << seed << ": " << describe(inputs));
    const Problem problem = inputs.problem();
    SearchOptions options;
    options.met = 3;
    options.proof_budget = 3'000'000;
    const SearchResult result = find_plan(problem, options);
    Dice dice(seed);
    for (const Plan& plan : result.plans) {
      CHECK(judge(problem, plan.pipelines) <= plan.iteration_time.value() * (1.0 + 1e-12));
      const double reached = wander(problem, plan.pipelines, dice, 1500);
      CHECK(reached >= plan.lower_bound.value() * (1.0 - 1e-9));
      if (result.report.proved) CHECK(reached >= result.plans.front().iteration_time.value() * (1.0 - 1e-9));
    }
  }
}

}  // namespace hpplan::testing
