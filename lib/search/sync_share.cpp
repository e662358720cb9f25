#include "search/sync_share.hpp"

#include <algorithm>

#include "predict/gradient_sync.hpp"

namespace hpplan {

double own_sync_share(const SearchTables& tables, const StageTable& stages, int variant, int range_class,
                      const OtherReplicas& others) {
  const Problem& problem = tables.problem();
  if (problem.job.overlap_gradient_sync) return 0.0;
  const Variant& v = stages.variants()[static_cast<std::size_t>(variant)];
  const Port& port = tables.space().ports[static_cast<std::size_t>(v.port)];
  const int replicas = v.split.data_parallel + others.pipelines.first - 1;
  SyncShape shape{port.group, port.devices, v.split.tensor_parallel, replicas, others.spread};
  // A pipeline holds a layer once, but the tied head of the model holds the embedding again.
  const LayerRange range = tables.ranges().example(range_class);
  const bool tied = problem.model.tied_embeddings && (range.first == 0 || range.last == tables.ranges().layers());
  if (!tied) shape.taken = others.taken;
  const double share = gradient_sync_lower_bound(problem, shape, stages.held(variant, range_class)).value();
  const int node = problem.cluster.node_groups[static_cast<std::size_t>(port.group)].devices_per_node;
  const bool one_node = others.load != nullptr && port.devices <= node;
  return one_node ? std::max(share, others.load->share(port.group, range_class)) : share;
}

double stage_tail(SearchTables& tables, int micro_batch, const CandidateStage& stage, const OtherReplicas& others) {
  const StageTable& stages = tables.stages(micro_batch);
  const int variant = stages.variant_of(stage.port, stage.split);
  const int range = tables.ranges().of(stage.layers.first, stage.layers.last);
  return stages.optimizer(variant, range) + own_sync_share(tables, stages, variant, range, others);
}

double pipeline_tail(SearchTables& tables, const Candidate& pipeline, OtherReplicas others,
                     std::span<const int> taken) {
  double most = 0.0;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    if (!taken.empty()) others.taken = taken[s];
    most = std::max(most, stage_tail(tables, pipeline.micro_batch, pipeline.stages[s], others));
  }
  return most;
}

}  // namespace hpplan
