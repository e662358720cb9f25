#include <algorithm>
#include <limits>
#include <map>
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

/// Whether the devices are a part of one node that a stage may take, or whole nodes.
bool is_port(const Problem& problem, const StagePlan& stage) {
  const int per_node = problem.cluster.node_groups[static_cast<std::size_t>(stage.node_group)].devices_per_node;
  const auto count = static_cast<int>(stage.devices.size());
  std::map<int, int> on_node;
  for (const DevicePlace& place : stage.devices) ++on_node[place.node];
  if (on_node.size() == 1 && count < per_node) return (count & (count - 1)) == 0 || per_node % count == 0;
  return std::all_of(on_node.begin(), on_node.end(), [&](const auto& node) { return node.second == per_node; });
}

/// Whether the split is one of the stage's devices, with each TP group inside a node.
bool is_split(const Problem& problem, const StagePlan& stage) {
  const auto& degrees = problem.costs.degrees(stage.node_group);
  const int per_node = problem.cluster.node_groups[static_cast<std::size_t>(stage.node_group)].devices_per_node;
  const auto count = static_cast<int>(stage.devices.size());
  return stage.tensor_parallel * stage.data_parallel == count &&
         std::find(degrees.begin(), degrees.end(), stage.tensor_parallel) != degrees.end() &&
         (count <= per_node || per_node % stage.tensor_parallel == 0);
}

/// Whether every stage holds a layer on devices that it may take and divides its micro-batch, and the pipelines make
/// the batch.
bool keeps_rules(const Problem& problem, const Pipelines& pipelines) {
  int samples = 0;
  for (const PipelinePlan& pipeline : pipelines) {
    samples += pipeline.micro_batch * pipeline.micro_batches;
    if (pipeline.micro_batches < 1) return false;
    for (const StagePlan& stage : pipeline.stages) {
      if (stage.layers.size() < 1 || pipeline.micro_batch % stage.data_parallel != 0) return false;
      if (!is_port(problem, stage) || !is_split(problem, stage)) return false;
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
      const StageQuery query{stage.node_group,     stage.tensor_parallel, stage.data_parallel,
                             pipeline.micro_batch, stage.layers,          in_flight};
      const auto predicted = predict_stage(problem, query);
      const auto* estimate = std::get_if<StageEstimate>(&predicted);
      if (estimate == nullptr) return kInfeasible;
      stage.recompute = recompute_ranges(problem, query, estimate->recompute);
    }
  }
  return evaluate(problem, std::move(pipelines)).iteration_time.value();
}

/// Layers dealt anew, as evenly as they go.
void deal_layers(const Problem& problem, PipelinePlan& pipeline) {
  const int layers = problem.model.layer_count();
  const auto stages = static_cast<int>(pipeline.stages.size());
  for (int s = 0; s < stages; ++s) {
    pipeline.stages[static_cast<std::size_t>(s)].layers = {layers * s / stages, layers * (s + 1) / stages};
  }
}

/// Another TP degree for the devices of a stage, if there is one.
void split_anew(const Problem& problem, Dice& dice, StagePlan& stage) {
  const auto& degrees = problem.costs.degrees(stage.node_group);
  const int tp = degrees[static_cast<std::size_t>(dice.whole(0, static_cast<int>(degrees.size()) - 1))];
  const auto devices = static_cast<int>(stage.devices.size());
  if (devices % tp != 0) return;
  stage.tensor_parallel = tp;
  stage.data_parallel = devices / tp;
}

/// One change of which devices work together: a stage halved, two stages joined, a stage made a pipeline of its own, or
/// two pipelines made one. It may break rules: judge() says so.
void change_structure(const Problem& problem, Dice& dice, Pipelines& pipelines) {
  const auto pick = [&](std::size_t count) {
    return static_cast<std::size_t>(dice.whole(0, static_cast<int>(count) - 1));
  };
  const std::size_t p = pick(pipelines.size());
  PipelinePlan& pipeline = pipelines[p];
  const std::size_t s = pick(pipeline.stages.size());
  StagePlan& stage = pipeline.stages[s];
  switch (dice.whole(0, 3)) {
    case 0: {
      if (stage.devices.size() < 2 || stage.layers.size() < 2) return;
      StagePlan second = stage;
      const auto half = static_cast<std::ptrdiff_t>(stage.devices.size() / 2);
      second.devices.erase(second.devices.begin(), second.devices.begin() + half);
      stage.devices.erase(stage.devices.begin() + half, stage.devices.end());
      stage.layers.last = second.layers.first = dice.whole(stage.layers.first + 1, stage.layers.last - 1);
      for (int k = 0; k < 3; ++k) split_anew(problem, dice, stage);
      for (int k = 0; k < 3; ++k) split_anew(problem, dice, second);
      pipeline.stages.insert(pipeline.stages.begin() + static_cast<std::ptrdiff_t>(s) + 1, second);
      return;
    }
    case 1: {
      if (s + 1 == pipeline.stages.size() || pipeline.stages[s + 1].node_group != stage.node_group) return;
      const StagePlan next = pipeline.stages[s + 1];
      stage.devices.insert(stage.devices.end(), next.devices.begin(), next.devices.end());
      std::sort(stage.devices.begin(), stage.devices.end());
      stage.layers.last = next.layers.last;
      pipeline.stages.erase(pipeline.stages.begin() + static_cast<std::ptrdiff_t>(s) + 1);
      for (int k = 0; k < 3; ++k) split_anew(problem, dice, stage);
      return;
    }
    case 2: {
      if (pipeline.stages.size() < 2 || pipeline.micro_batches < 2) return;
      PipelinePlan alone = pipeline;
      alone.stages = {stage};
      alone.micro_batches = dice.whole(1, pipeline.micro_batches - 1);
      pipeline.micro_batches -= alone.micro_batches;
      pipeline.stages.erase(pipeline.stages.begin() + static_cast<std::ptrdiff_t>(s));
      deal_layers(problem, pipeline);
      deal_layers(problem, alone);
      pipelines.push_back(std::move(alone));
      return;
    }
    default: {
      const std::size_t q = pick(pipelines.size());
      const int samples = pipelines[q].micro_batch * pipelines[q].micro_batches;
      if (q == p || samples % pipeline.micro_batch != 0) return;
      pipeline.micro_batches += samples / pipeline.micro_batch;
      pipeline.stages.insert(pipeline.stages.end(), pipelines[q].stages.begin(), pipelines[q].stages.end());
      if (static_cast<int>(pipeline.stages.size()) > problem.model.layer_count())
        return;  // an empty stage breaks rules
      deal_layers(problem, pipeline);
      pipelines.erase(pipelines.begin() + static_cast<std::ptrdiff_t>(q));
      return;
    }
  }
}

/// One small change: a layer to the neighbour, another split, micro-batches to another pipeline, two stages swapped,
/// or another micro-batch size. It may break rules: judge() says so.
void change(const Problem& problem, Dice& dice, Pipelines& pipelines) {
  const auto pick = [&](std::size_t count) {
    return static_cast<std::size_t>(dice.whole(0, static_cast<int>(count) - 1));
  };
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
    if (dice.chance(0.2)) change_structure(problem, dice, changed);
    for (int k = dice.whole(1, 3); k > 0; --k) change(problem, dice, changed);
    const double time = judge(problem, changed);
    if (!(time < now * dice.one_of({1.0, 1.0, 1.02, 1.2}))) continue;
    now = time;
    pipelines = std::move(changed);
    best = std::min(best, now);
  }
  return best;
}

/// Some way off from the plan: many changes, whatever they cost, as long as the rules are kept.
Pipelines shaken(const Problem& problem, Pipelines pipelines, Dice& dice) {
  for (int step = 0; step < 40; ++step) {
    Pipelines changed = pipelines;
    dice.chance(0.5) ? change_structure(problem, dice, changed) : change(problem, dice, changed);
    if (judge(problem, changed) < kInfeasible) pipelines = std::move(changed);
  }
  return pipelines;
}

}  // namespace

TEST_CASE(
    "no walk over layers, splits, stages and pipelines from anywhere beats a plan that is proved, and none a bound",
    "[search][property]") {
  int proved = 0;
  for (std::uint64_t seed = 4101; seed <= 4126; ++seed) {
    Inputs inputs = random_inputs(seed, {24, 3, 8, 48});
    if (inputs.cluster.device_count() < 12) continue;
    INFO("seed " << seed << ": " << describe(inputs));
    const Problem problem = inputs.problem();
    SearchOptions options;
    options.proof_budget = 10'000'000;
    const SearchResult result = find_plan(problem, options);
    if (result.plans.empty()) continue;
    const Plan& plan = result.plans.front();
    proved += result.report.proved ? 1 : 0;
    Dice dice(seed);
    for (int start = 0; start < 2; ++start) {
      const double reached = wander(problem, shaken(problem, plan.pipelines, dice), dice, 800);
      CHECK(reached >= plan.lower_bound.value() * (1.0 - 1e-9));
      if (result.report.proved) CHECK(reached >= plan.iteration_time.value() * (1.0 - 1e-9));
    }
  }
  CHECK(proved > 3);
}

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
