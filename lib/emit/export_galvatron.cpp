#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "emit/detail/export_support.hpp"
#include "emit/export.hpp"

namespace hpplan {

using detail::Approximation;
using detail::OnePipeline;
using detail::Refusals;

namespace {

void check_galvatron_stages(const OnePipeline& pipeline, const ModelSpec& model, Refusals& refusals) {
  const std::size_t devices = pipeline.stages.front().devices.size();
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    const StagePlan& stage = pipeline.stages[static_cast<std::size_t>(s)];
    if (stage.devices.size() != devices) {
      refusals.add(0, s, "devices",
                   concat(stage.devices.size(), " devices, but stage 0 has ", devices, "; all stages have as many"),
                   "export --to flagscale or --to torch carries stages of different size");
    }
    if (detail::blocks_of(stage, model).size() == 0) {
      refusals.add(0, s, "layers", "no transformer layer on this stage",
                   "export --to megatron or --to torch carries it");
    }
  }
  const StagePlan& last = pipeline.stages.back();
  if (last.tensor_parallel != pipeline.stages.front().tensor_parallel) {
    refusals.add(0, pipeline.stage_count() - 1, "tensor_parallel",
                 concat(last.tensor_parallel, ", but stage 0 has ", pipeline.stages.front().tensor_parallel,
                        "; embedding and head share one degree (vtp)"),
                 "export --to flagscale carries a degree per stage");
  }
}

}  // namespace

ExportResult export_galvatron(const ExportRequest& request) {
  Refusals refusals(request, "galvatron");
  Approximation work(request, refusals);
  OnePipeline pipeline = detail::merge_pipelines(work.pipelines(), refusals);
  check_galvatron_stages(pipeline, request.model, refusals);
  work.require_schedule({"1f1b", "gpipe"});
  work.require_whole_layers();
  refusals.finish();
  pipeline = detail::merge_pipelines(work.pipelines(), refusals);

  std::vector<int> division;
  std::vector<int> tensor_parallel;
  std::vector<int> checkpoint;
  for (const StagePlan& stage : pipeline.stages) {
    const LayerRange blocks = detail::blocks_of(stage, request.model);
    division.push_back(blocks.size());
    for (int layer = blocks.first; layer < blocks.last; ++layer) {
      tensor_parallel.push_back(stage.tensor_parallel);
      checkpoint.push_back(detail::recomputed_operators(stage, layer).empty() ? 0 : 1);
    }
  }
  const std::size_t layers = tensor_parallel.size();
  nlohmann::ordered_json strategy;
  strategy["pp_deg"] = pipeline.stage_count();
  // Lists are written as comma texts: Galvatron's reader knows no other form.
  strategy["tp_sizes_enc"] = detail::numbers(tensor_parallel, ",");
  strategy["tp_consecutive_flags"] = detail::numbers(std::vector<int>(layers, 1), ",");
  strategy["dp_types_enc"] = detail::numbers(std::vector<int>(layers, 0), ",");
  strategy["checkpoint"] = detail::numbers(checkpoint, ",");
  strategy["global_bsz"] = pipeline.micro_batch * pipeline.micro_batches;
  strategy["chunks"] = pipeline.micro_batches;
  strategy["pp_division"] = detail::numbers(division, ",");
  strategy["pipeline_type"] = pipeline.schedule == "gpipe" ? "gpipe" : "pipedream_flush";
  strategy["default_dp_type"] = "ddp";
  strategy["vtp"] = pipeline.stages.front().tensor_parallel;
  strategy["vsp"] = 0;

  ExportResult result;
  result.files = {{"galvatron_config.json", strategy.dump(4) + "\n"},
                  detail::LaunchTable(request.cluster, detail::places_of(pipeline.stages)).rank_file()};
  result.changes = work.changes();
  return result;
}

}  // namespace hpplan
