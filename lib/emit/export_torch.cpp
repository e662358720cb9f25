#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "base/text.hpp"
#include "emit/detail/export_support.hpp"
#include "emit/export.hpp"
#include "schedule/table.hpp"
#include "simulate/plan_schedule.hpp"

namespace hpplan {

using detail::LaunchTable;
using detail::Refusals;
using nlohmann::ordered_json;

namespace {

char letter_of(OpKind kind) {
  switch (kind) {
    case OpKind::Forward: return 'F';
    case OpKind::Backward: return 'B';
    case OpKind::BackwardInput: return 'I';
    case OpKind::WeightGradient: return 'W';
    case OpKind::Update: return 'U';
  }
  check_invariant(false, "known op kind");
  return ' ';
}

/// The op order of a pipeline; refuses what one row per stage of synchronous ops cannot say.
Schedule schedule_of(const PipelinePlan& pipeline, int number, Refusals& refusals) {
  const ScheduleFamily& family = schedule_family(pipeline.schedule);
  if (family.arrangement != Arrangement::OnePerDevice || family.stepping != Stepping::Synchronous) {
    refusals.add(number, -1, "schedule",
                 concat("\"", pipeline.schedule, "\" has several stages per device or weight versions"),
                 "plan with --schedule 1f1b, gpipe or zb-h1");
    return {};
  }
  return make_schedule_of(pipeline.schedule, schedule_request_of(pipeline));
}

/// compute_only form: PyTorch adds the communication itself. Row = stage.
std::string csv_of(const Schedule& schedule) {
  std::string text;
  for (const std::vector<Op>& program : schedule.programs) {
    std::vector<std::string> cells;
    for (const Op& op : program) {
      if (op.kind == OpKind::Update) continue;  // the optimizer is the driver's
      cells.push_back(concat(schedule.stage(op.stage).model_stage, letter_of(op.kind), op.micro_batch));
    }
    text += join(cells, ",") + "\n";
  }
  return text;
}

ordered_json stage_json(const StagePlan& stage, const LaunchTable& launch) {
  ordered_json json;
  json["layers"] = {stage.layers.first, stage.layers.last};
  json["tensor_parallel"] = stage.tensor_parallel;
  json["data_parallel"] = stage.data_parallel;
  std::vector<int> ranks;
  for (const DevicePlace& place : stage.devices) ranks.push_back(launch.rank_of_place(place));
  json["ranks"] = ranks;
  json["recompute"] = ordered_json::array();
  for (const RecomputeRange& range : stage.recompute) {
    json["recompute"].push_back({{"layers", {range.layers.first, range.layers.last}}, {"operators", range.operators}});
  }
  return json;
}

ordered_json pipeline_json(const PipelinePlan& pipeline, int number, int samples, const LaunchTable& launch) {
  ordered_json json;
  json["csv"] = concat("pipeline_", number, ".csv");
  json["schedule"] = pipeline.schedule;
  json["micro_batch"] = pipeline.micro_batch;
  json["micro_batches"] = pipeline.micro_batches;
  // With a mean loss per micro-batch and unscaled gradients, the sum over all micro-batches is then the mean over the
  // global batch.
  json["gradient_weight"] = static_cast<double>(pipeline.micro_batch) / samples;
  json["stages"] = ordered_json::array();
  for (const StagePlan& stage : pipeline.stages) json["stages"].push_back(stage_json(stage, launch));
  return json;
}

ordered_json gradient_json(const ExportRequest& request, const LaunchTable& launch) {
  ordered_json groups = ordered_json::array();
  for (const GradientGroup& group : request.plan.gradient_sync.groups) {
    std::vector<int> ranks;
    for (const int rank : group.ranks) ranks.push_back(launch.rank_of_place(place_of_rank(request.cluster, rank)));
    ordered_json blocks = ordered_json::array();
    for (const GradientBlock& block : group.blocks) {
      blocks.push_back({{"layer", block.layer}, {"begin", block.begin}, {"end", block.end}});
    }
    groups.push_back({{"ranks", ranks}, {"bytes", group.bytes.count()}, {"blocks", blocks}});
  }
  return {{"method", to_text(request.plan.gradient_sync.method)}, {"groups", groups}};
}

ordered_json rank_json(const LaunchTable& launch, const ClusterSpec& cluster) {
  ordered_json ranks = ordered_json::array();
  for (const DevicePlace& place : launch.places()) ranks.push_back({node_name(cluster, place), place.device});
  return ranks;
}

}  // namespace

ExportResult export_torch(const ExportRequest& request) {
  Refusals refusals(request, "torch");
  const LaunchTable launch(request.cluster, detail::places_of(request.plan.pipelines));
  int samples = 0;
  for (const PipelinePlan& pipeline : request.plan.pipelines) samples += pipeline.micro_batch * pipeline.micro_batches;

  ExportResult result;
  ordered_json manifest;
  manifest["format"] = "hpplan-torch";
  manifest["version"] = 1;
  manifest["model"] = request.model.name;
  manifest["layer_count"] = request.model.layer_count();
  manifest["global_batch"] = samples;
  manifest["world_size"] = launch.world_size();
  manifest["ranks"] = rank_json(launch, request.cluster);
  manifest["pipelines"] = ordered_json::array();
  for (std::size_t i = 0; i < request.plan.pipelines.size(); ++i) {
    const PipelinePlan& pipeline = request.plan.pipelines[i];
    const int number = static_cast<int>(i);
    result.files.push_back({concat("pipeline_", number, ".csv"), csv_of(schedule_of(pipeline, number, refusals))});
    manifest["pipelines"].push_back(pipeline_json(pipeline, number, samples, launch));
  }
  refusals.finish();
  manifest["gradient_sync"] = gradient_json(request, launch);
  result.files.push_back({"manifest.json", manifest.dump(2) + "\n"});
  result.files.push_back(launch.rank_file());
  result.notes.emplace_back(
      "use a mean loss per micro-batch, scale_grads=False, and multiply gradients by gradient_weight");
  return result;
}

}  // namespace hpplan
