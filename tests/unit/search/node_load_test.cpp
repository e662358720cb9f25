#include "search/node_load.hpp"

#include "search/realise.hpp"
#include "search/simple_plans.hpp"
#include "support/catch.hpp"
#include "support/random_problems.hpp"
#include "support/search_pieces.hpp"

namespace hpplan::testing {

TEST_CASE("no plan syncs faster than the layers on one of its nodes let it", "[search][property]") {
  int loads = 0;
  double tightest = 0.0;
  for (std::uint64_t seed = 901; seed <= 1100; ++seed) {
    Inputs inputs = random_inputs(seed, {24, 3, 8, 48});
    inputs.job.overlap_gradient_sync = false;
    INFO("seed " << seed << ": " << describe(inputs));
    Pieces pieces(inputs);
    if (pieces.space.ports.empty()) continue;
    int tried = 0;
    for (const SimplePlan& simple : simple_plans(pieces.tables)) {
      if (++tried > 12) break;
      const Realised realised = realise(pieces.tables, simple.pipelines, kInfinity, 1 + tried % 4);
      if (realised.time == kInfinity) continue;
      const Plan plan = finish(pieces.problem, pieces.space, realised);
      const NodeLoad load(pieces.tables, plan.pipeline_time.value());
      for (const PipelinePlan& pipeline : plan.pipelines) {
        for (const StagePlan& stage : pipeline.stages) {
          const NodeGroup& group = pieces.problem.cluster.node_groups[static_cast<std::size_t>(stage.node_group)];
          if (static_cast<int>(stage.devices.size()) > group.devices_per_node) continue;
          const double share =
              load.share(stage.node_group, pieces.tables.ranges().of(stage.layers.first, stage.layers.last));
          CHECK(share <= plan.gradient_sync.time.value() * (1.0 + 1e-9));
          if (share == 0.0) continue;
          ++loads;
          tightest = std::max(tightest, share / plan.gradient_sync.time.value());
        }
      }
    }
  }
  CHECK(loads > 500);
  CHECK(tightest > 0.2);
}

TEST_CASE("a node that runs all of its layers' batch alone has no load", "[search]") {
  Inputs inputs = random_inputs(905, {24, 3, 8, 48});
  Pieces pieces(inputs);
  const NodeLoad load(pieces.tables, 1e6);
  for (int group = 0; group < pieces.problem.cluster.group_count(); ++group) {
    for (int c = 0; c < pieces.tables.ranges().count(); ++c) CHECK(load.share(group, c) == 0.0);
  }
}

}  // namespace hpplan::testing
