#include "predict/planned_stage.hpp"

#include <algorithm>

#include "predict/link.hpp"

namespace hpplan {

namespace {

StageEstimate estimate_part(const Problem& problem, const PipelinePlan& pipeline, const StagePlan& stage,
                            LayerRange part) {
  const StageQuery query = part_query(pipeline, stage, part);
  return estimate_stage(problem, query, recompute_counts(problem, query, recompute_inside(stage, part)));
}

void set_links(const Problem& problem, PipelinePlan& pipeline) {
  const auto stage_of = [&](const PartPlace& part) -> StagePlan& {
    return pipeline.stages[static_cast<std::size_t>(part.device)];
  };
  for (const std::vector<PartPlace>& path : part_paths(pipeline)) {
    for (std::size_t k = 0; k + 1 < path.size(); ++k) {
      StagePlan& from = stage_of(path[k]);
      const bool stays = path[k].device == path[k + 1].device;
      const Seconds link = stays ? Seconds{} : link_time(problem, from, stage_of(path[k + 1]), pipeline.micro_batch);
      if (!from.chunks.empty()) from.chunks[static_cast<std::size_t>(path[k].chunk)].link = link;
    }
  }
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    StagePlan& stage = pipeline.stages[s];
    stage.link = Seconds{};
    if (s + 1 < pipeline.stages.size()) {
      stage.link = link_time(problem, stage, pipeline.stages[s + 1], pipeline.micro_batch);
    }
  }
}

}  // namespace

std::vector<LayerRange> held_parts(const StagePlan& stage) {
  if (stage.chunks.empty()) return {stage.layers};
  std::vector<LayerRange> parts;
  for (const ChunkPlan& chunk : stage.chunks) parts.push_back(chunk.layers);
  return parts;
}

StageQuery part_query(const PipelinePlan& pipeline, const StagePlan& stage, LayerRange part) {
  return {stage.node_group, stage.tensor_parallel, stage.data_parallel, pipeline.micro_batch, part, 1};
}

std::vector<RecomputeRange> recompute_inside(const StagePlan& stage, LayerRange part) {
  std::vector<RecomputeRange> ranges;
  for (const RecomputeRange& range : stage.recompute) {
    const LayerRange both{std::max(range.layers.first, part.first), std::min(range.layers.last, part.last)};
    if (both.size() > 0) ranges.push_back({both, range.operators});
  }
  return ranges;
}

double parameters_of(const Problem& problem, const PipelinePlan& pipeline, const StagePlan& stage) {
  const std::vector<LayerRange> parts = held_parts(stage);
  return parameters_of(problem, part_query(pipeline, stage, stage.layers), parts);
}

void set_stage_times(const Problem& problem, PipelinePlan& pipeline) {
  const ScheduleFamily& family = schedule_family(pipeline.schedule);
  const bool splits = family.backward == BackwardOps::Split;
  for (StagePlan& stage : pipeline.stages) {
    stage.forward = stage.backward = stage.weight_gradient = Seconds{};
    stage.provenance = Provenance::Measured;
    const std::vector<LayerRange> parts = held_parts(stage);
    for (std::size_t c = 0; c < parts.size(); ++c) {
      const StageEstimate estimate = estimate_part(problem, pipeline, stage, parts[c]);
      const Seconds weight = splits ? estimate.weight_gradient : Seconds{};
      if (!stage.chunks.empty()) {
        stage.chunks[c] = {parts[c], estimate.forward, estimate.backward, weight, Seconds{}};
      }
      stage.provenance = std::max(stage.provenance, estimate.provenance);
      // A micro-batch passes one replica: the first is the stage's own.
      if (c > 0 && holds_replicas(family.arrangement)) continue;
      stage.forward += estimate.forward;
      stage.backward += estimate.backward;
      stage.weight_gradient += weight;
    }
  }
  set_links(problem, pipeline);
}

StageMemory planned_memory(const Problem& problem, const PipelinePlan& pipeline, const StagePlan& stage,
                           const Holdings& holdings, int weight_copies) {
  const std::vector<LayerRange> parts = held_parts(stage);
  const StageQuery whole = part_query(pipeline, stage, stage.layers);
  StageMemory memory = state_memory(problem, stage.data_parallel, parameters_of(problem, whole, parts));
  memory.parameters = memory.parameters * weight_copies;
  memory.other = problem.job.framework_overhead;
  std::vector<Bytes> saved;
  Bytes buffers;
  Bytes live;
  for (const LayerRange& part : parts) {
    const StageEstimate estimate = estimate_part(problem, pipeline, stage, part);
    const Bytes own_buffers = communication_buffers(problem.model, part_query(pipeline, stage, part));
    saved.push_back(estimate.memory.activations);
    buffers += own_buffers;
    live = std::max(live, estimate.memory.workspace - own_buffers);
  }
  memory.workspace = buffers + live;
  for (const std::vector<int>& held : holdings) {
    Bytes bytes;
    for (std::size_t c = 0; c < parts.size(); ++c) bytes += saved[c] * held[c];
    memory.activations = std::max(memory.activations, bytes);
  }
  return memory;
}

}  // namespace hpplan
