#include "search/plan_shape.hpp"

#include <algorithm>

namespace hpplan {

PlanShape shape_of(const Space& space, std::span<const Candidate> pipelines) {
  PlanShape shape;
  for (const Candidate& pipeline : pipelines) {
    std::vector<StageShape>& stages = shape.emplace_back();
    for (const CandidateStage& stage : pipeline.stages) {
      stages.push_back({space.ports[static_cast<std::size_t>(stage.port)], stage.split, stage.layers});
    }
  }
  std::sort(shape.begin(), shape.end());
  return shape;
}

PlanShape shape_of(const Plan& plan) {
  PlanShape shape;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    std::vector<StageShape>& stages = shape.emplace_back();
    for (const StagePlan& stage : pipeline.stages) {
      stages.push_back({{stage.node_group, static_cast<int>(stage.devices.size())},
                        {stage.tensor_parallel, stage.data_parallel},
                        stage.layers});
    }
  }
  std::sort(shape.begin(), shape.end());
  return shape;
}

}  // namespace hpplan
