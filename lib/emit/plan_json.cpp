#include "emit/plan_json.hpp"

#include <nlohmann/json.hpp>

#include "emit/json_text.hpp"

namespace hpplan {

namespace {

using Json = nlohmann::ordered_json;

Json stamp_json(const InputStamp& stamp) { return {{"name", stamp.name}, {"digest", stamp.digest}}; }

Json limit_json(const CountLimit& limit) {
  Json json{{"min", limit.min}};
  if (limit.max >= 0) json["max"] = limit.max;
  return json;
}

Json constraints_json(const Constraints& constraints) {
  Json json{{"pipelines", limit_json(constraints.pipelines)},
            {"stages", limit_json(constraints.stages)},
            {"tensor_parallel", constraints.tensor_parallel},
            {"tensor_parallel_across_nodes", constraints.tensor_parallel_across_nodes},
            {"whole_nodes", constraints.whole_nodes},
            {"type_pure", constraints.type_pure},
            {"allow_recompute", constraints.allow_recompute}};
  for (const PlacementRule& rule : constraints.placement) json[to_text(rule.kind)].push_back(to_text(rule));
  return json;
}

Json problem_json(const PlanProblem& problem) {
  const Job& job = problem.job;
  Json json{{"model", stamp_json(problem.model)},
            {"cluster", stamp_json(problem.cluster)},
            {"profile", {{"names", problem.profiles}, {"digest", problem.profile_digest}}},
            {"global_batch", job.global_batch},
            {"tolerance", job.tolerance},
            {"micro_batch", job.micro_batches},
            {"schedule", job.schedules},
            {"memory_margin_bytes", job.memory_margin.count()},
            {"framework_overhead_bytes", job.framework_overhead.count()},
            {"optimizer_sharding", to_text(job.optimizer_sharding)},
            {"overlap_gradient_sync", job.overlap_gradient_sync},
            {"constraints", constraints_json(job.constraints)}};
  if (job.max_drift) json["max_drift"] = *job.max_drift;
  return json;
}

// Pairs are pushed, not listed in braces: nlohmann takes {{text, value}} for a map.
Json range_json(LayerRange range) {
  Json json = Json::array();
  json.push_back(range.first);
  json.push_back(range.last);
  return json;
}

Json device_json(const DeviceName& device) {
  Json json = Json::array();
  json.push_back(device.node);
  json.push_back(device.device);
  return json;
}

Json devices_json(const std::vector<DeviceName>& devices) {
  Json json = Json::array();
  for (const DeviceName& device : devices) json.push_back(device_json(device));
  return json;
}

Json recompute_json(const std::vector<RecomputeRange>& ranges) {
  Json json = Json::array();
  for (const RecomputeRange& range : ranges) {
    json.push_back({{"layers", range_json(range.layers)}, {"operators", range.operators}});
  }
  return json;
}

Json memory_json(const StageMemory& memory, Bytes capacity) {
  return {{"parameters", memory.parameters.count()}, {"gradients", memory.gradients.count()},
          {"optimizer", memory.optimizer.count()},   {"activations", memory.activations.count()},
          {"workspace", memory.workspace.count()},   {"other", memory.other.count()},
          {"total", memory.total().count()},         {"capacity", capacity.count()}};
}

Json chunks_json(const std::vector<ChunkPlan>& chunks, int layer_count) {
  Json json = Json::array();
  for (const ChunkPlan& chunk : chunks) {
    Json part{{"layers", range_json(chunk.layers)},
              {"forward_s", chunk.forward.value()},
              {"backward_s", chunk.backward.value()}};
    if (chunk.weight_gradient > Seconds{}) part["weight_gradient_s"] = chunk.weight_gradient.value();
    if (chunk.layers.last < layer_count) part["link_s"] = chunk.link.value();
    json.push_back(std::move(part));
  }
  return json;
}

/// One past the last layer that any stage holds.
int layer_count_of(const PipelinePlan& pipeline) { return pipeline.stages.back().layers.last; }

Json stage_json(const PipelinePlan& pipeline, const StagePlan& stage, const StagePlacement& placement, bool is_last) {
  Json json{{"node_group", placement.node_group},
            {"devices", devices_json(placement.devices)},
            {"ranks", placement.ranks},
            {"layers", range_json(stage.layers)},
            {"tensor_parallel", stage.tensor_parallel},
            {"data_parallel", stage.data_parallel},
            {"recompute", recompute_json(stage.recompute)},
            {"forward_s", stage.forward.value()},
            {"backward_s", stage.backward.value()}};
  if (stage.weight_gradient > Seconds{}) json["weight_gradient_s"] = stage.weight_gradient.value();
  if (!is_last) json["link_s"] = stage.link.value();
  if (!stage.chunks.empty()) json["chunks"] = chunks_json(stage.chunks, layer_count_of(pipeline));
  json["in_flight"] = stage.in_flight;
  if (stage.activation_cap > 0.0) json["activation_cap"] = stage.activation_cap;
  if (stage.weight_copies > 1) json["weight_copies"] = stage.weight_copies;
  if (pipeline.accumulation > 0) json["drift"] = stage.drift;
  json["memory_bytes"] = memory_json(stage.memory, stage.capacity);
  json["provenance"] = to_text(stage.provenance);
  return json;
}

Json pipelines_json(const PlanFile& file) {
  Json json = Json::array();
  for (std::size_t p = 0; p < file.plan.pipelines.size(); ++p) {
    const PipelinePlan& pipeline = file.plan.pipelines[p];
    Json stages = Json::array();
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
      stages.push_back(
          stage_json(pipeline, pipeline.stages[s], file.placements[p][s], s + 1 == pipeline.stages.size()));
    }
    Json entry{{"micro_batch", pipeline.micro_batch},
               {"micro_batches", pipeline.micro_batches},
               {"schedule", pipeline.schedule},
               {"time_s", pipeline.time.value()},
               {"bubble", pipeline.bubble}};
    if (pipeline.memory_limit > 0.0) entry["memory_limit"] = pipeline.memory_limit;
    if (pipeline.accumulation > 0) {
      entry["accumulation"] = pipeline.accumulation;
      entry["steady_samples_per_s"] = steady_samples_per_second(pipeline);
    }
    entry["stages"] = std::move(stages);
    json.push_back(std::move(entry));
  }
  return json;
}

Json gradient_sync_json(const GradientSync& sync) {
  Json groups = Json::array();
  for (const GradientGroup& group : sync.groups) {
    Json blocks = Json::array();
    for (const GradientBlock& block : group.blocks) {
      blocks.push_back({{"layer", block.layer}, {"begin", block.begin}, {"end", block.end}});
    }
    groups.push_back({{"ranks", group.ranks}, {"bytes", group.bytes.count()}, {"blocks", std::move(blocks)}});
  }
  return {{"method", to_text(sync.method)},
          {"time_s", sync.time.value()},
          {"device_wise_s", sync.device_wise.value()},
          {"tensor_wise_s", sync.tensor_wise.value()},
          {"block_wise_s", sync.block_wise.value()},
          {"groups", std::move(groups)}};
}

}  // namespace

std::string plan_json(const PlanFile& file) {
  const Plan& plan = file.plan;
  Json json{{"format", kPlanFormat},
            {"version", kPlanVersion},
            {"problem", problem_json(file.problem)},
            {"iteration_time_s", plan.iteration_time.value()},
            {"lower_bound_s", plan.lower_bound.value()},
            {"gap", file.figures.gap},
            {"complete", plan.complete},
            {"samples_per_s", file.figures.samples_per_s},
            {"tokens_per_s", file.figures.tokens_per_s},
            {"mfu", file.figures.mfu},
            {"pipeline_time_s", plan.pipeline_time.value()},
            {"gradient_sync_time_s", plan.gradient_sync_time.value()},
            {"optimizer_time_s", plan.optimizer_time.value()},
            {"pipelines", pipelines_json(file)},
            {"gradient_sync", gradient_sync_json(plan.gradient_sync)},
            {"balance",
             {{"inter_pipeline", plan.inter_pipeline_imbalance}, {"intra_pipeline", plan.intra_pipeline_imbalance}}},
            {"idle_devices", devices_json(file.idle_devices)},
            {"notes", plan.notes}};
  if (plan.bound_kind != BoundKind::Search) json["bound_kind"] = to_text(plan.bound_kind);
  return json_text(json);
}

}  // namespace hpplan
