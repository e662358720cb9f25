#include "search/node_load.hpp"

#include <algorithm>
#include <vector>

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

TEST_CASE("a kind of layer that the model does not use changes no load", "[search]") {
  // Every other block has an eighth of the width, the rest eight experts of which one runs: a gradient that is large
  // for its time.
  const auto loads = [](Inputs inputs, bool with_unused) {
    inputs.profiles.clear();
    std::vector<LayerKind>& kinds = inputs.model.kinds;
    std::vector<int>& layers = inputs.model.layers;
    const LayerKind block = kinds[1];
    LayerKind low = block;
    low.name = "low";
    low.mlp->ffn = std::max(1, low.mlp->ffn / 8);
    LayerKind high = block;
    high.name = "high";
    high.mlp->experts = 8;
    high.mlp->top_k = 1;
    LayerKind unused = block;
    unused.name = "unused";
    const LayerKind embedding = kinds[static_cast<std::size_t>(layers.front())];
    const LayerKind head = kinds[static_cast<std::size_t>(layers.back())];
    kinds = with_unused ? std::vector{embedding, low, unused, high, head} : std::vector{embedding, low, high, head};
    const int last = static_cast<int>(kinds.size()) - 1;
    for (std::size_t l = 0; l < layers.size(); ++l) layers[l] = l % 2 == 1 ? 1 : last - 1;
    layers.front() = 0;
    layers.back() = last;
    Pieces pieces(inputs);
    std::vector<double> shares;
    const NodeLoad load(pieces.tables, 0.05);
    for (int c = 0; c < pieces.tables.ranges().count(); ++c) {
      const LayerRange range = pieces.tables.ranges().example(c);
      if (range.first == 0) shares.push_back(load.share(0, c));
    }
    return shares;
  };
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Inputs inputs = random_inputs(seed, {24, 3, 8, 48});
    if (inputs.model.kinds.size() < 2 || !inputs.model.kinds[1].mlp) continue;
    INFO("seed " << seed << ": " << describe(inputs));
    CHECK(loads(inputs, true) == loads(inputs, false));
    ++compared;
  }
  CHECK(compared > 20);
}

}  // namespace hpplan::testing
