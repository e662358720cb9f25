#include "search/schedule_fit.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "predict/evaluate.hpp"
#include "predict/link.hpp"
#include "predict/planned_stage.hpp"
#include "schedule/octopipe.hpp"
#include "search/chunk_layout.hpp"

namespace hpplan {

namespace {

/// Rounds of "recompute more, since it still does not fit": the first is exact for one part per stage.
constexpr int kMemoryRounds = 8;
/// Numbers of chunks tried for interleaved.
constexpr int kLoopChunks[] = {2, 3, 4};
/// Limits tried for zb-auto, in stages: those of ZB-1p and ZB-2p, and one between.
constexpr double kMemoryLimits[] = {1.0, 1.5, 2.0};
/// Share of the tuner's usual search that one pipeline of a plan gets.
constexpr double kTunerEffort = 0.25;

/// Layers of all parts by kind, with their ways to save memory.
std::vector<RecomputeItem> items_of(const Problem& problem, const PipelinePlan& pipeline, const StagePlan& stage) {
  std::vector<RecomputeItem> items;
  for (const LayerRange& part : held_parts(stage)) {
    for (const RecomputeItem& item : recompute_items(problem, part_query(pipeline, stage, part))) {
      const auto known =
          std::find_if(items.begin(), items.end(), [&](const RecomputeItem& other) { return other.kind == item.kind; });
      if (known == items.end()) {
        items.push_back(item);
      } else {
        known->layers += item.layers;
      }
    }
  }
  return items;
}

/// Lays `counts` over the layers of all parts.
std::vector<RecomputeRange> lay_recompute(const Problem& problem, const PipelinePlan& pipeline, const StagePlan& stage,
                                          std::vector<RecomputeCount> counts) {
  std::vector<RecomputeRange> ranges;
  for (const LayerRange& part : held_parts(stage)) {
    const StageQuery query = part_query(pipeline, stage, part);
    const std::vector<RecomputeRange> own = recompute_ranges(problem, query, counts);
    for (const RecomputeCount& used : recompute_counts(problem, query, own)) {
      for (RecomputeCount& count : counts) {
        if (count.kind == used.kind && count.choice == used.choice) count.layers -= used.layers;
      }
    }
    ranges.insert(ranges.end(), own.begin(), own.end());
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const RecomputeRange& a, const RecomputeRange& b) { return a.layers < b.layers; });
  return ranges;
}

/// Sets the recomputation that frees `excess` bytes of the stage, as held at its peak. False if nothing frees as much.
bool recompute_for(const Problem& problem, const PipelinePlan& pipeline, StagePlan& stage, Bytes excess) {
  const std::vector<RecomputeItem> items = items_of(problem, pipeline, stage);
  // With chunks, an average one: the rounds of `fit` correct what this gets wrong.
  const int parts = std::max(1, static_cast<int>(stage.chunks.size()));
  const auto selection = cheapest_recompute(items, std::max(1, stage.in_flight / parts), excess);
  if (!selection) return false;
  stage.recompute = lay_recompute(problem, pipeline, stage, selection->counts);
  return true;
}

bool within_drift(const Problem& problem, const PipelinePlan& pipeline) {
  const int limit = problem.job.max_drift.value_or(0);
  return pipeline.accumulation == 0 || std::all_of(pipeline.stages.begin(), pipeline.stages.end(),
                                                   [&](const StagePlan& stage) { return stage.drift <= limit; });
}

/// Chunks bring layers to other devices than the stages of 1F1B do.
bool within_rules(const Problem& problem, const PipelinePlan& pipeline) {
  return std::all_of(pipeline.stages.begin(), pipeline.stages.end(), [&](const StagePlan& stage) {
    const std::vector<LayerRange> parts = held_parts(stage);
    return std::all_of(parts.begin(), parts.end(),
                       [&](const LayerRange& part) { return problem.places.may_hold(stage.node_group, part); });
  });
}

std::optional<PipelinePlan> fit_memory(const Problem& problem, PipelinePlan pipeline) {
  if (!within_rules(problem, pipeline)) return std::nullopt;
  std::vector<Bytes> excess(pipeline.stages.size());
  std::vector<int> decided;
  for (const StagePlan& stage : pipeline.stages) decided.push_back(stage.in_flight);
  for (int round = 0; round < kMemoryRounds; ++round) {
    for (std::size_t s = 0; s < decided.size(); ++s) pipeline.stages[s].in_flight = decided[s];
    evaluate_pipeline(problem, pipeline);
    bool fits = true;
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
      StagePlan& stage = pipeline.stages[s];
      const Bytes over = stage.memory.total() - stage.capacity;
      if (over <= Bytes{0}) continue;
      fits = false;
      excess[s] = excess[s] + over;
      if (!recompute_for(problem, pipeline, stage, excess[s])) return std::nullopt;
    }
    if (fits) return within_drift(problem, pipeline) ? std::optional(pipeline) : std::nullopt;
  }
  return std::nullopt;
}

/// Raises or lowers what stage `s` may hold, and its neighbours' as the order of 1f1b-adaptive asks.
std::vector<int> changed_holdings(std::vector<int> held, std::size_t s, int by, int most) {
  held[s] = std::clamp(held[s] + by, 1, most);
  for (std::size_t j = 0; j < s; ++j) held[j] = std::max(held[j], held[s]);
  for (std::size_t j = s + 1; j < held.size(); ++j) held[j] = std::min(held[j], held[s]);
  return held;
}

/// Steepest descent from what 1F1B holds: one stage more or less at a time, while the time falls.
std::optional<PipelinePlan> fit_in_flight(const Problem& problem, const PipelinePlan& pipeline) {
  const std::size_t stages = pipeline.stages.size();
  const auto fit_with = [&](const std::vector<int>& held) {
    PipelinePlan plan = pipeline;
    for (std::size_t s = 0; s < stages; ++s) plan.stages[s].in_flight = held[s];
    return fit_memory(problem, std::move(plan));
  };
  std::vector<int> held;
  for (std::size_t s = 0; s < stages; ++s) {
    held.push_back(std::min(pipeline.micro_batches, static_cast<int>(stages - s)));
  }
  std::optional<PipelinePlan> best = fit_with(held);
  // Where 1F1B's numbers do not fit at all, start from the fewest.
  if (!best) best = fit_with(held = std::vector<int>(stages, 1));
  if (!best) return std::nullopt;
  for (std::size_t moves = 0; moves < 4 * stages; ++moves) {
    std::optional<PipelinePlan> next;
    std::vector<int> next_held;
    for (std::size_t s = 0; s < stages; ++s) {
      for (const int by : {1, 2, -1}) {
        std::vector<int> trial = changed_holdings(held, s, by, pipeline.micro_batches);
        if (trial == held) continue;
        std::optional<PipelinePlan> plan = fit_with(trial);
        if (!plan || (next && plan->time >= next->time)) continue;
        next = std::move(plan);
        next_held = std::move(trial);
      }
    }
    if (!next || next->time >= best->time * (1.0 - 1e-9)) break;
    best = std::move(next);
    held = std::move(next_held);
  }
  return best;
}

LayerTime layer_time(const Problem& problem, const PipelinePlan& pipeline, const StagePlan& stage, int layer) {
  const LayerCost& cost =
      problem.costs.at(stage.node_group, stage.tensor_parallel, pipeline.micro_batch / stage.data_parallel,
                       problem.model.layers[static_cast<std::size_t>(layer)]);
  return {problem.model.kind_of(layer).name, cost.forward, cost.backward - cost.weight_gradient, cost.weight_gradient};
}

OctoProblem octopipe_problem(const Problem& problem, const PipelinePlan& pipeline) {
  OctoProblem octo;
  octo.device_count = static_cast<int>(pipeline.stages.size());
  octo.micro_batches = pipeline.micro_batches;
  octo.effort = kTunerEffort;
  const auto total = [](const LayerTime& time) { return time.forward + time.backward + time.weight_gradient; };
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    std::vector<LayerTime>& layers = octo.device_layers.emplace_back();
    for (int k = 0; k < problem.model.layer_count(); ++k) {
      layers.push_back(layer_time(problem, pipeline, pipeline.stages[s], k));
      const auto at = static_cast<std::size_t>(k);
      if (s == 0) octo.layers.push_back(layers.back());
      if (total(layers.back()) < total(octo.layers[at])) octo.layers[at] = layers.back();
    }
    if (s > 0) {
      octo.link =
          std::max(octo.link, link_time(problem, pipeline.stages[s - 1], pipeline.stages[s], pipeline.micro_batch));
    }
  }
  return octo;
}

/// Layers whose activations the tightest device can hold beside an even share of the model's states.
double activation_room(const Problem& problem, const PipelinePlan& pipeline) {
  double least = 1e300;
  for (const StagePlan& stage : pipeline.stages) {
    const LayerRange all{0, problem.model.layer_count()};
    const StageBase base = stage_base(problem, part_query(pipeline, stage, all));
    const double stages = static_cast<double>(pipeline.stages.size());
    const double states = (base.memory.parameters + base.memory.gradients + base.memory.optimizer).value() / stages;
    const double room =
        problem.capacity(stage.node_group).value() - states - base.memory.other.value() - base.memory.workspace.value();
    least = std::min(least, room / std::max(1.0, base.saved.value() / problem.model.block_count()));
  }
  return least;
}

PipelinePlan with_octopipe(const PipelinePlan& pipeline, const OctoProblem& octo, const OctoPlan& found) {
  PipelinePlan plan = pipeline;
  for (StagePlan& stage : plan.stages) stage.chunks.clear();
  for (std::size_t s = 0; s < found.first_layer.size(); ++s) {
    const bool is_last = s + 1 == found.first_layer.size();
    const int last = is_last ? static_cast<int>(octo.layers.size()) : found.first_layer[s + 1];
    ChunkPlan chunk;
    chunk.layers = {found.first_layer[s], last};
    plan.stages[static_cast<std::size_t>(found.device[s])].chunks.push_back(chunk);
  }
  int first = 0;
  for (std::size_t d = 0; d < plan.stages.size(); ++d) {
    StagePlan& stage = plan.stages[d];
    int size = 0;
    for (const ChunkPlan& chunk : stage.chunks) size += chunk.layers.size();
    stage.layers = {first, first + size};
    first += size;
    stage.activation_cap = found.cap.empty() ? 0.0 : found.cap[d];
  }
  return plan;
}

/// Partition, placement and order by the tuner: without a limit, and under what the tightest device can hold.
std::optional<PipelinePlan> fit_octopipe(const Problem& problem, const PipelinePlan& pipeline,
                                         const std::function<bool()>& stop) {
  OctoProblem octo = octopipe_problem(problem, pipeline);
  octo.stop = stop;
  std::optional<PipelinePlan> best;
  const double room = activation_room(problem, pipeline);
  const double share = static_cast<double>(octo.layers.size()) / octo.device_count;
  for (const double limit : {0.0, room, 0.7 * room}) {
    if (limit != 0.0 && limit < share) continue;
    octo.memory_limit = limit;
    try {
      std::optional<PipelinePlan> plan = fit_memory(problem, with_octopipe(pipeline, octo, tune_octopipe(octo)));
      if (plan && (!best || plan->time < best->time)) best = std::move(plan);
    } catch (const InputError&) {  // no plan within the limit
      continue;
    }
    // Without recomputation a limit can only cost time.
    const bool recomputes = best && std::any_of(best->stages.begin(), best->stages.end(),
                                                [](const StagePlan& stage) { return !stage.recompute.empty(); });
    if (best && (!recomputes || (stop && stop()))) break;
  }
  return best;
}

/// The pipeline under family `name`, cleared of what other families decided.
PipelinePlan under(const PipelinePlan& pipeline, const std::string& name) {
  PipelinePlan plan = pipeline;
  plan.schedule = name;
  plan.memory_limit = 0.0;
  plan.accumulation = 0;
  for (StagePlan& stage : plan.stages) {
    stage.recompute.clear();
    stage.chunks.clear();
    stage.activation_cap = 0.0;
  }
  return plan;
}

void add_variants(const Problem& problem, const PipelinePlan& plan, const ScheduleFamily& family,
                  std::vector<ScheduleVariant>& variants) {
  const int stages = static_cast<int>(plan.stages.size());
  // The orders of V schedules are searched, as that of zb-auto is.
  const bool is_costly = family.arrangement == Arrangement::Vee && std::string(family.name) != "dualpipe-v";
  const auto add = [&](std::optional<PipelinePlan> skeleton) {
    if (skeleton) variants.push_back({std::move(*skeleton), is_costly});
  };
  const auto add_dealt = [&](int chunks) {
    add(deal_chunks(problem, plan, family.arrangement, chunks));
    add(deal_chunks_anew(problem, plan, family.arrangement, chunks));
  };
  const std::string name = family.name;
  switch (family.arrangement) {
    case Arrangement::OnePerDevice:
      if (name == "zb-auto") {
        for (const double limit : kMemoryLimits) {
          variants.push_back({plan, true});
          variants.back().skeleton.memory_limit = limit * stages;
        }
      } else {
        variants.push_back({plan, name == "1f1b-adaptive"});
      }
      break;
    case Arrangement::Loop:
      for (const int chunks : kLoopChunks) {
        if (stages > 1) add_dealt(chunks);
      }
      break;
    case Arrangement::Vee:
      if (stages > 1) add_dealt(2);
      break;
    case Arrangement::TwoWay:
    case Arrangement::Ring: add(add_replicas(plan, family.arrangement)); break;
    case Arrangement::Free:
      if (stages > 1) variants.push_back({plan, true});
      break;
  }
}

}  // namespace

std::vector<ScheduleVariant> schedule_variants(const Problem& problem, const PipelinePlan& pipeline) {
  std::vector<ScheduleVariant> variants;
  for (const std::string& name : problem.job.schedules) {
    add_variants(problem, under(pipeline, name), schedule_family(name), variants);
  }
  return variants;
}

namespace {

/// Throws InputError where the schedule refuses the counts.
std::optional<PipelinePlan> fit_or_refuse(const Problem& problem, const ScheduleVariant& variant, int micro_batches,
                                          const std::function<bool()>& stop) {
  PipelinePlan pipeline = variant.skeleton;
  pipeline.micro_batches = micro_batches;
  const ScheduleFamily& family = schedule_family(pipeline.schedule);
  if (family.stepping == Stepping::Asynchronous) pipeline.accumulation = micro_batches;
  if (family.arrangement == Arrangement::Free) return fit_octopipe(problem, pipeline, stop);
  if (pipeline.schedule == "1f1b-adaptive") return fit_in_flight(problem, pipeline);
  return fit_memory(problem, std::move(pipeline));
}

}  // namespace

std::optional<PipelinePlan> fit(const Problem& problem, const ScheduleVariant& variant, int micro_batches,
                                const std::function<bool()>& stop) {
  try {
    return fit_or_refuse(problem, variant, micro_batches, stop);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

std::string refusal(const Problem& problem, const ScheduleVariant& variant, int micro_batches) {
  try {
    if (fit_or_refuse(problem, variant, micro_batches, {})) return "";
  } catch (const InputError& error) {
    const Diagnostic& fault = error.diagnostics().front();
    return concat(fault.field, fault.field.empty() ? "" : ": ", fault.message, fault.hint.empty() ? "" : "; ",
                  fault.hint);
  }
  const bool drifts = schedule_family(variant.skeleton.schedule).stepping == Stepping::Asynchronous;
  return concat("its devices cannot hold it, even with recomputation",
                drifts ? ", or it drifts more than allowed" : "");
}

}  // namespace hpplan
