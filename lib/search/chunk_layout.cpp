#include "search/chunk_layout.hpp"

#include <algorithm>
#include <cstddef>

#include "predict/stage.hpp"

namespace hpplan {

namespace {

/// Share of a device that parameters, gradients and optimizer states may take when blocks are dealt anew: activations
/// need the rest.
constexpr double kStatesShare = 0.85;

int blocks_of(const ModelSpec& model, LayerRange layers) {
  return std::max(0, std::min(layers.last, model.layer_count() - 1) - std::max(layers.first, 1));
}

/// Parts in path order of equal numbers of blocks per stage, with both ends added.
std::optional<PipelinePlan> lay_out(const Problem& problem, const PipelinePlan& pipeline, Arrangement arrangement,
                                    int chunks, const std::vector<int>& blocks) {
  const int stages = static_cast<int>(pipeline.stages.size());
  PipelinePlan laid = pipeline;
  for (StagePlan& stage : laid.stages) stage.chunks.assign(static_cast<std::size_t>(chunks), {});
  const std::vector<PartPlace> path = paths_of(arrangement, stages, chunks).front();
  int next = 0;
  for (std::size_t k = 0; k < path.size(); ++k) {
    const std::size_t stage = static_cast<std::size_t>(path[k].device);
    int last = next + blocks[stage] / chunks;
    if (k == 0) ++last;
    if (k + 1 == path.size()) ++last;
    laid.stages[stage].chunks[static_cast<std::size_t>(path[k].chunk)].layers = {next, last};
    next = last;
  }
  if (next != problem.model.layer_count()) return std::nullopt;
  int first = 0;
  for (StagePlan& stage : laid.stages) {
    int size = 0;
    for (const ChunkPlan& chunk : stage.chunks) size += chunk.layers.size();
    stage.layers = {first, first + size};
    first += size;
  }
  return laid;
}

/// What dealing needs of a stage: time of an average block and of the ends it holds, blocks that its memory allows.
struct Dealt {
  double block_s = 0.0;
  double fixed_s = 0.0;
  int most = 0;
};

Dealt dealt_of(const Problem& problem, const PipelinePlan& pipeline, const StagePlan& stage, bool first, bool last) {
  const ModelSpec& model = problem.model;
  const int samples = pipeline.micro_batch / stage.data_parallel;
  const auto seconds = [&](int layer) {
    const LayerCost& cost = problem.costs.at(stage.node_group, stage.tensor_parallel, samples,
                                             model.layers[static_cast<std::size_t>(layer)]);
    return (cost.forward + cost.backward).value();
  };
  Dealt dealt;
  for (int layer = 1; layer + 1 < model.layer_count(); ++layer) dealt.block_s += seconds(layer);
  dealt.block_s /= model.block_count();
  if (first) dealt.fixed_s += seconds(0);
  if (last) dealt.fixed_s += seconds(model.layer_count() - 1);
  const StageQuery query{stage.node_group, stage.tensor_parallel, stage.data_parallel, pipeline.micro_batch, {}, 1};
  const LayerRange blocks{1, model.layer_count() - 1};
  const double states =
      state_memory(problem, stage.data_parallel, parameters_of(problem, query, {&blocks, 1})).total().value();
  const double room = kStatesShare * problem.capacity(stage.node_group).value();
  dealt.most = static_cast<int>(std::min(1e6, room / std::max(1.0, states / model.block_count())));
  return dealt;
}

}  // namespace

std::optional<PipelinePlan> deal_chunks(const Problem& problem, const PipelinePlan& pipeline, Arrangement arrangement,
                                        int chunks) {
  std::vector<int> blocks;
  for (const StagePlan& stage : pipeline.stages) {
    blocks.push_back(blocks_of(problem.model, stage.layers));
    if (blocks.back() == 0 || blocks.back() % chunks != 0) return std::nullopt;
  }
  return lay_out(problem, pipeline, arrangement, chunks, blocks);
}

std::optional<PipelinePlan> deal_chunks_anew(const Problem& problem, const PipelinePlan& pipeline,
                                             Arrangement arrangement, int chunks) {
  const int stages = static_cast<int>(pipeline.stages.size());
  int rounds = problem.model.block_count() / chunks;
  if (problem.model.block_count() % chunks != 0 || rounds < stages) return std::nullopt;
  const int last = paths_of(arrangement, stages, chunks).front().back().device;
  std::vector<Dealt> dealt;
  for (int s = 0; s < stages; ++s) {
    dealt.push_back(dealt_of(problem, pipeline, pipeline.stages[static_cast<std::size_t>(s)], s == 0, s == last));
  }
  std::vector<int> blocks(dealt.size(), chunks);
  for (rounds -= stages; rounds > 0; --rounds) {
    std::optional<std::size_t> best;
    const auto end = [&](std::size_t s) { return dealt[s].fixed_s + dealt[s].block_s * (blocks[s] + chunks); };
    for (std::size_t s = 0; s < dealt.size(); ++s) {
      if (blocks[s] + chunks > dealt[s].most) continue;
      if (!best || end(s) < end(*best)) best = s;
    }
    if (!best) return std::nullopt;
    blocks[*best] += chunks;
  }
  return lay_out(problem, pipeline, arrangement, chunks, blocks);
}

std::optional<PipelinePlan> add_replicas(const PipelinePlan& pipeline, Arrangement arrangement) {
  const int stages = static_cast<int>(pipeline.stages.size());
  if (stages % 2 != 0) return std::nullopt;
  PipelinePlan plan = pipeline;
  for (StagePlan& stage : plan.stages) {
    stage.chunks.assign(static_cast<std::size_t>(chunks_of(arrangement, stages)), {});
  }
  for (const std::vector<PartPlace>& path : paths_of(arrangement, stages, 1)) {
    for (std::size_t s = 0; s < path.size(); ++s) {
      StagePlan& stage = plan.stages[static_cast<std::size_t>(path[s].device)];
      stage.chunks[static_cast<std::size_t>(path[s].chunk)].layers = pipeline.stages[s].layers;
    }
  }
  return plan;
}

}  // namespace hpplan
