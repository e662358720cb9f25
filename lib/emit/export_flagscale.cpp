#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "emit/detail/export_support.hpp"
#include "emit/export.hpp"

namespace hpplan {

using detail::Approximation;
using detail::LaunchTable;
using detail::OnePipeline;
using detail::Refusals;

namespace {

/// How hosts are told apart. FlagScale sorts ranks by the first mesh that carries their label, so a label may not come
/// back after another one: either every mesh has a label of its own and whole hosts, or all share one label.
enum class Labels { PerMesh, Shared };

std::string label_of(Labels labels, int stage) { return labels == Labels::PerMesh ? concat("mesh", stage) : "any"; }

/// Runs of ranks per node; refuses a node whose ranks are not consecutive, which a hostfile cannot say.
std::vector<LaunchTable::Run> node_runs(const LaunchTable& launch, const OnePipeline& pipeline,
                                        const ClusterSpec& cluster, Refusals& refusals) {
  std::vector<LaunchTable::Run> runs = launch.runs();
  std::map<std::string, std::size_t> first_run;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (first_run.emplace(runs[i].node, i).second) continue;
    int stage = 0;
    int last = 0;
    for (const StagePlan& plan : pipeline.stages) {
      last += static_cast<int>(plan.devices.size());
      if (runs[i].first_rank < last) break;
      ++stage;
    }
    refusals.add(0, stage, "devices",
                 concat("node ", runs[i].node, " holds ranks that do not follow each other; ranks go host by host"),
                 "plan with --whole-nodes, or export --to torch");
  }
  (void)cluster;
  return runs;
}

Labels labels_for(const OnePipeline& pipeline) {
  std::map<std::pair<int, int>, int> stage_of_node;
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    for (const DevicePlace& place : pipeline.stages[static_cast<std::size_t>(s)].devices) {
      const auto known = stage_of_node.emplace(std::pair(place.group, place.node), s).first;
      if (known->second != s) return Labels::Shared;
    }
  }
  return Labels::PerMesh;
}

/// Embedding and head share one matrix: FlagScale reduces its gradient between the first and the last mesh.
bool check_tied(const OnePipeline& pipeline, Refusals& refusals) {
  const StagePlan& first = pipeline.stages.front();
  const StagePlan& last = pipeline.stages.back();
  const int stage = pipeline.stage_count() - 1;
  if (first.tensor_parallel != last.tensor_parallel) {
    refusals.add(0, stage, "tensor_parallel",
                 concat(last.tensor_parallel, ", but stage 0 has ", first.tensor_parallel,
                        "; tied embeddings need the same degree at both ends"),
                 "untie the embeddings, or plan with one --tensor-parallel degree");
  }
  const int larger = std::max(first.data_parallel, last.data_parallel);
  const int smaller = std::min(first.data_parallel, last.data_parallel);
  if (larger % smaller != 0) {
    refusals.add(0, stage, "data_parallel",
                 concat(last.data_parallel, ", but stage 0 has ", first.data_parallel,
                        "; with tied embeddings one must divide the other"),
                 "untie the embeddings, or export --to torch");
  }
  return larger != smaller;
}

std::string recompute_rows(const OnePipeline& pipeline, const ModelSpec& model, int value_if_any) {
  std::vector<std::string> rows;
  for (const StagePlan& stage : pipeline.stages) {
    const int count = detail::full_recompute_count(stage, model);
    const int value = count == 0 ? 0 : value_if_any < 0 ? count : value_if_any;
    rows.push_back(concat("[1, ", pipeline.micro_batches, ", ", value, "]"));
  }
  return concat("[", join(rows, ", "), "]");
}

/// All three lists together: a list of numbers without one of granularities is taken in silence. Method 1 is "block":
/// the first layers of a stage.
std::string recompute_text(const OnePipeline& pipeline, const ModelSpec& model) {
  int most = 0;
  for (const StagePlan& stage : pipeline.stages) most = std::max(most, detail::full_recompute_count(stage, model));
  if (most == 0) return "";
  return concat(
      "  recompute:\n    recompute_granularity: full\n    recompute_method: block\n    recompute_num_layers: ", most,
      "\n    recompute_granularity_per_stage_micro_batch: ", recompute_rows(pipeline, model, 1),
      "\n    recompute_method_per_stage_micro_batch: ", recompute_rows(pipeline, model, 1),
      "\n    recompute_num_layers_per_stage_micro_batch: ", recompute_rows(pipeline, model, -1), "\n");
}

std::string hetero_text(const OnePipeline& pipeline, const ModelSpec& model, Labels labels) {
  std::vector<std::string> meshes;
  std::vector<std::string> types;
  std::vector<int> split;
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    const StagePlan& stage = pipeline.stages[static_cast<std::size_t>(s)];
    // One mesh per stage: a mesh of several stages and replicas is linked wrongly to the next one.
    meshes.push_back(concat(stage.tensor_parallel, ", 1, 1, ", stage.data_parallel, ", 1"));
    types.push_back(label_of(labels, s));
    split.push_back(detail::blocks_of(stage, model).size());
  }
  return concat("  hetero:\n    enable_hetero: true\n    hetero_pipeline_layer_split: [", detail::numbers(split),
                "]\n    hetero_process_meshes: [", join(meshes, ",  "), "]\n    hetero_device_types: [",
                join(types, ", "), "]\n    hetero_current_device_type: ", types.front(),
                "\n    standalone_embedding_stage: false\n");
}

std::string model_text(const OnePipeline& pipeline, const ModelSpec& model, const LayerKind& block) {
  std::string text = "model:\n";
  const auto add = [&](const char* key, const auto& value) { text += concat("  ", key, ": ", value, "\n"); };
  add("num_layers", model.block_count());
  add("hidden_size", model.hidden);
  add("ffn_hidden_size", block.mlp->ffn);
  add("num_attention_heads", block.attention->heads);
  if (block.attention->kv_heads != block.attention->heads) {
    add("group_query_attention", "true");
    add("num_query_groups", block.attention->kv_heads);
  }
  if (block.mlp->experts > 0) {
    add("num_experts", block.mlp->experts);
    add("moe_router_topk", block.mlp->top_k);
  }
  add("seq_length", model.sequence);
  add("max_position_embeddings", model.sequence);
  add("micro_batch_size", pipeline.micro_batch / pipeline.stages.front().data_parallel);
  add("global_batch_size", pipeline.micro_batch * pipeline.micro_batches);
  if (!model.tied_embeddings) add("untie_embeddings_and_output_weights", "true");
  if (block.mlp->gated) add("swiglu", "true");
  if (!block.mlp->bias) add("disable_bias_linear", "true");
  if (model.norm == NormKind::RmsNorm) add("normalization", "RMSNorm");
  return text;
}

/// `CUDA_VISIBLE_DEVICES` of hosts that do not use their first devices in order.
std::string device_choices(const std::vector<LaunchTable::Run>& runs) {
  std::string text;
  for (const LaunchTable::Run& run : runs) {
    bool plain = true;
    for (std::size_t i = 0; i < run.devices.size(); ++i) plain = plain && run.devices[i] == static_cast<int>(i);
    if (plain) continue;
    text +=
        concat("      ", run.node, ":\n        CUDA_VISIBLE_DEVICES: \"", detail::numbers(run.devices, ","), "\"\n");
  }
  return text.empty() ? "" : concat("    node_specific:\n", text);
}

std::string hostfile_text(const std::vector<LaunchTable::Run>& runs, const OnePipeline& pipeline, Labels labels) {
  std::string text;
  for (const LaunchTable::Run& run : runs) {
    int stage = 0;
    int last = static_cast<int>(pipeline.stages.front().devices.size());
    while (run.first_rank >= last)
      last += static_cast<int>(pipeline.stages[static_cast<std::size_t>(++stage)].devices.size());
    text += concat(run.node, " slots=", run.devices.size(), " type=", label_of(labels, stage), "\n");
  }
  return text;
}

void check_flagscale_stages(const OnePipeline& pipeline, const ModelSpec& model, Refusals& refusals) {
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    if (detail::blocks_of(pipeline.stages[static_cast<std::size_t>(s)], model).size() > 0) continue;
    refusals.add(0, s, "layers", "no transformer layer on this stage", "export --to megatron or --to torch carries it");
  }
}

}  // namespace

ExportResult export_flagscale(const ExportRequest& request) {
  Refusals refusals(request, "flagscale");
  Approximation work(request, refusals);
  const LayerKind* const block = detail::uniform_block(request.model, refusals);
  OnePipeline pipeline = detail::merge_pipelines(work.pipelines(), refusals);
  check_flagscale_stages(pipeline, request.model, refusals);
  const bool shares_part = request.model.tied_embeddings && check_tied(pipeline, refusals);
  const LaunchTable launch(request.cluster, detail::places_of(pipeline.stages));
  const std::vector<LaunchTable::Run> runs = node_runs(launch, pipeline, request.cluster, refusals);
  work.require_schedule({"1f1b"});
  work.require_whole_layers();
  refusals.finish();
  pipeline = detail::merge_pipelines(work.pipelines(), refusals);

  const Labels labels = labels_for(pipeline);
  std::string train = concat("system:\n  tensor_model_parallel_size: ", pipeline.stages.front().tensor_parallel,
                             "\n  pipeline_model_parallel_size: ", pipeline.stage_count(),
                             "\n  sequence_parallel: ", request.model.sequence_parallel ? "true" : "false",
                             "\n  use_distributed_optimizer: true\n");
  train += hetero_text(pipeline, request.model, labels);
  if (shares_part) train += "    use_partial_reduce_for_shared_embedding: true\n";
  train += recompute_text(pipeline, request.model);
  train += model_text(pipeline, request.model, *block) + "data: {}\n";

  ExportResult result;
  const std::string run = concat(
      "defaults:\n  - train: hetero\n  - _self_\n\nexperiment:\n  exp_name: hpplan\n"
      "  exp_dir: ./outputs\n  task:\n    type: train\n    backend: megatron\n"
      "    entrypoint: ./flagscale/train/train_gpt.py\n  runner:\n    hostfile: ./hostfile\n"
      "    rdzv_backend: static\n  envs:\n    CUDA_DEVICE_MAX_CONNECTIONS: 1\n",
      device_choices(runs), "\naction: run\n");
  result.files = {{"config.yaml", run},
                  {"train/hetero.yaml", train},
                  {"hostfile", hostfile_text(runs, pipeline, labels)},
                  launch.rank_file()};
  result.changes = work.changes();
  result.notes.emplace_back("data, optimizer and tokenizer keys are left for you to add to train/hetero.yaml");
  return result;
}

}  // namespace hpplan
