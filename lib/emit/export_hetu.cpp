#include <algorithm>

#include "base/text.hpp"
#include "domain/cluster.hpp"
#include "emit/detail/export_support.hpp"
#include "emit/export.hpp"

namespace hpplan {

using detail::Approximation;
using detail::Refusals;

namespace {

/// A pipeline whose stages all have `d` replicas is `d` pipelines of a `d`-th of the micro-batch: the same samples on
/// the same devices, and the form that Hetu knows.
std::vector<PipelinePlan> without_replicas(const std::vector<PipelinePlan>& pipelines, Refusals& refusals) {
  std::vector<PipelinePlan> single;
  for (std::size_t i = 0; i < pipelines.size(); ++i) {
    const int replicas = pipelines[i].stages.front().data_parallel;
    bool equal = true;
    for (std::size_t s = 1; s < pipelines[i].stages.size(); ++s) {
      const int here = pipelines[i].stages[s].data_parallel;
      if (here == replicas) continue;
      equal = false;
      refusals.add(
          static_cast<int>(i), static_cast<int>(s), "data_parallel",
          concat(here, ", but stage 0 has ", replicas, "; the replicas of a pipeline are pipelines of their own"),
          "export --to torch or --to flagscale carries replicas per stage");
    }
    for (int replica = 0; equal && replica < replicas; ++replica) {
      PipelinePlan& copy = single.emplace_back(pipelines[i]);
      copy.micro_batch /= replicas;
      for (StagePlan& stage : copy.stages) {
        const auto first = stage.devices.begin() + replica * stage.tensor_parallel;
        stage.devices = std::vector<DevicePlace>(first, first + stage.tensor_parallel);
        stage.data_parallel = 1;
      }
    }
  }
  return single;
}

void check_pipelines(const std::vector<PipelinePlan>& pipelines, const ModelSpec& model, Refusals& refusals) {
  for (std::size_t i = 0; i < pipelines.size(); ++i) {
    if (pipelines[i].micro_batch != pipelines.front().micro_batch) {
      refusals.add(static_cast<int>(i), -1, "micro_batch",
                   concat(pipelines[i].micro_batch, " samples per replica, but pipeline 0 has ",
                          pipelines.front().micro_batch, "; one size holds for all"),
                   "plan with one --micro-batch, or export --to torch");
    }
    for (std::size_t s = 0; s < pipelines[i].stages.size(); ++s) {
      if (detail::blocks_of(pipelines[i].stages[s], model).size() > 0) continue;
      refusals.add(static_cast<int>(i), static_cast<int>(s), "layers", "no transformer layer on this stage",
                   "export --to torch carries it");
    }
  }
}

/// Slots of `width` ranks per stage, pipeline by pipeline; ranks a narrow stage leaves over stand for spare devices.
struct Slots {
  int width = 1;
  int count = 0;
  std::vector<int> devices;  // by rank
  std::vector<int> unused;   // ranks
};

Slots slots_of(const std::vector<PipelinePlan>& pipelines, const ClusterSpec& cluster,
               const std::vector<DevicePlace>& idle) {
  Slots slots;
  for (const PipelinePlan& pipeline : pipelines) {
    for (const StagePlan& stage : pipeline.stages) slots.width = std::max(slots.width, stage.tensor_parallel);
  }
  std::vector<int> spare;
  for (const DevicePlace& place : idle) spare.push_back(rank_of(cluster, place));
  int beyond = cluster.device_count();  // no device has these numbers: nothing runs there
  std::size_t next_spare = 0;
  for (const PipelinePlan& pipeline : pipelines) {
    for (const StagePlan& stage : pipeline.stages) {
      for (int t = 0; t < slots.width; ++t) {
        if (t < stage.tensor_parallel) {
          slots.devices.push_back(rank_of(cluster, stage.devices[static_cast<std::size_t>(t)]));
          continue;
        }
        slots.unused.push_back(static_cast<int>(slots.devices.size()));
        slots.devices.push_back(next_spare < spare.size() ? spare[next_spare++] : beyond++);
      }
    }
  }
  slots.count = static_cast<int>(slots.devices.size());
  return slots;
}

std::string layers_text(const std::vector<PipelinePlan>& pipelines, const ModelSpec& model) {
  std::vector<std::string> lists;
  for (const PipelinePlan& pipeline : pipelines) {
    std::vector<int> counts;
    for (const StagePlan& stage : pipeline.stages) counts.push_back(detail::blocks_of(stage, model).size());
    lists.push_back(concat("[", detail::numbers(counts), "]"));
  }
  return concat("[", join(lists, ", "), "]");
}

/// Indices of recomputed blocks per pipeline, counted from 0 over the transformer layers.
std::string recompute_text(const std::vector<PipelinePlan>& pipelines, const ModelSpec& model) {
  std::vector<std::string> lists;
  bool any = false;
  for (const PipelinePlan& pipeline : pipelines) {
    std::vector<int> indices;
    for (const StagePlan& stage : pipeline.stages) {
      const LayerRange blocks = detail::blocks_of(stage, model);
      for (int layer = blocks.first; layer < blocks.last; ++layer) {
        if (!detail::recomputed_operators(stage, layer).empty()) indices.push_back(layer - 1);
      }
    }
    any = any || !indices.empty();
    lists.push_back(concat("[", detail::numbers(indices), "]"));
  }
  if (!any) return "";
  return concat("  recompute:\n    recompute_granularity: full\n    recompute_layer_idxs_list: [", join(lists, ", "),
                "]\n");
}

std::string strategy_text(const ExportRequest& request, const std::vector<PipelinePlan>& pipelines,
                          const Slots& slots) {
  std::size_t depth = 0;
  std::vector<int> micro_batches;
  std::vector<int> sequences;
  for (const PipelinePlan& pipeline : pipelines) {
    depth = std::max(depth, pipeline.stages.size());
    micro_batches.push_back(pipeline.micro_batches);
    sequences.push_back(request.model.sequence);
  }
  const std::vector<int> ones(pipelines.size(), 1);
  std::string text = concat("# micro_batch_size of the trainer: ", pipelines.front().micro_batch, "\nds_parallel:\n");
  const auto add = [&](const char* key, const auto& value) { text += concat("  ", key, ": ", value, "\n"); };
  add("hetero", "true");
  add("dp", pipelines.size());
  add("cp", 1);
  add("tp", slots.width);
  add("pp", depth);
  add("zero", "true");
  add("num_layers", request.model.block_count());
  add("num_gpus", slots.count);
  add("gpus_per_stage", slots.width);
  text += "  rank_to_device_mapping:\n";
  for (std::size_t rank = 0; rank < slots.devices.size(); ++rank) {
    text += concat("    ", rank, ": ", slots.devices[rank], "\n");
  }
  add("unused_rank", concat("[", detail::numbers(slots.unused), "]"));
  add("hetero_layers", layers_text(pipelines, request.model));
  add("micro_batch_num_list", concat("[", detail::numbers(micro_batches), "]"));
  add("seq_len_list", concat("[", detail::numbers(sequences), "]"));
  add("cp_list", concat("[", detail::numbers(ones), "]"));
  return text + recompute_text(pipelines, request.model);
}

std::string device_text(const ClusterSpec& cluster) {
  std::string text = "# device\tnode\tindex\n";
  for (int rank = 0; rank < cluster.device_count(); ++rank) {
    const DevicePlace place = place_of_rank(cluster, rank);
    text += concat(rank, "\t", node_name(cluster, place), "\t", place.device, "\n");
  }
  return text;
}

}  // namespace

ExportResult export_hetu(const ExportRequest& request) {
  Refusals refusals(request, "hetu");
  Approximation work(request, refusals);
  (void)detail::uniform_block(request.model, refusals);
  work.require_schedule({"1f1b"});
  work.require_whole_layers();
  refusals.finish();
  const std::vector<PipelinePlan> pipelines = without_replicas(work.pipelines(), refusals);
  refusals.finish();
  check_pipelines(pipelines, request.model, refusals);
  refusals.finish();

  const Slots slots = slots_of(pipelines, request.cluster, request.plan.idle_devices);
  ExportResult result;
  result.files = {{"strategy.yaml", strategy_text(request, pipelines, slots)},
                  {"devices.tsv", device_text(request.cluster)}};
  result.changes = work.changes();
  result.notes.push_back(concat("set the trainer's micro_batch_size to ", pipelines.front().micro_batch));
  if (!slots.unused.empty()) {
    result.notes.push_back(concat(slots.unused.size(), " ranks are unused; their device numbers from ",
                                  request.cluster.device_count(), " on do not exist"));
  }
  return result;
}

}  // namespace hpplan
