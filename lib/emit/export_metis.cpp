#include "base/text.hpp"
#include "emit/detail/export_support.hpp"
#include "emit/export.hpp"

namespace hpplan {

using detail::Approximation;
using detail::OnePipeline;
using detail::Refusals;

/// One row of the table that Metis prints: rank, cost(ms), node_sequence, device_groups, strategies(dp, tp), batches,
/// layer_partition.
ExportResult export_metis(const ExportRequest& request) {
  Refusals refusals(request, "metis");
  Approximation work(request, refusals);
  work.require_schedule({"1f1b"});
  for (std::size_t i = 0; i < work.pipelines().size(); ++i) {
    for (std::size_t s = 0; s < work.pipelines()[i].stages.size(); ++s) {
      if (work.pipelines()[i].stages[s].recompute.empty()) continue;
      refusals.add(static_cast<int>(i), static_cast<int>(s), "recompute", "the form has no place for recomputation",
                   "export --to torch carries it");
    }
  }
  const OnePipeline pipeline = detail::merge_pipelines(work.pipelines(), refusals);
  refusals.finish();

  std::vector<std::string> types;
  std::vector<int> groups;
  std::vector<std::string> strategies;
  std::vector<int> partition{pipeline.stages.front().layers.first};
  for (const StagePlan& stage : pipeline.stages) {
    const std::string& type = request.cluster.type_of(stage.node_group).name;
    if (types.empty() || types.back() != type) types.push_back(type);
    groups.push_back(static_cast<int>(stage.devices.size()));
    strategies.push_back(concat("(", stage.data_parallel, ", ", stage.tensor_parallel, ")"));
    partition.push_back(stage.layers.last);
  }
  const std::string text = concat("1, ", significant(request.plan.iteration_time.value() * 1e3, 8), ", (",
                                  join(types, ", "), "), [", detail::numbers(groups), "], [", join(strategies, ", "),
                                  "], ", pipeline.micro_batches, ", [", detail::numbers(partition), "]\n");
  ExportResult result;
  result.files = {{"metis.txt", text},
                  detail::LaunchTable(request.cluster, detail::places_of(pipeline.stages)).rank_file()};
  result.changes = work.changes();
  return result;
}

}  // namespace hpplan
