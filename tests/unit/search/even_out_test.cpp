#include "search/even_out.hpp"

#include "search/engine.hpp"
#include "search/plan_shape.hpp"
#include "support/catch.hpp"
#include "support/search_pieces.hpp"

namespace hpplan::testing {

namespace {

/// One node of four equal devices, ten equal blocks of 10 + 20 ms a sample, ends that take next to nothing, no links.
Inputs ten_blocks() {
  Inputs inputs = random_inputs(2, {4, 1, 4, 8});
  inputs.model.layers.assign(12, 1);
  inputs.model.layers.front() = 0;
  inputs.model.layers.back() = 2;
  inputs.cluster.node_groups.resize(1);
  NodeGroup& group = inputs.cluster.node_groups[0];
  group.nodes = 1;
  group.devices_per_node = 4;
  group.node_names = {"n"};
  group.intra_node = {BytesPerSecond{1e18}, Seconds{0.0}};
  inputs.cluster.device_types[0].memory = Bytes{1LL << 40};
  DeviceProfile profile;
  profile.device_type = inputs.cluster.device_types[0].name;
  profile.model = inputs.model.name;
  for (const LayerKind& kind : inputs.model.kinds) {
    const bool block = kind.role == LayerRole::Block;
    const std::string name = kind.role == LayerRole::Embedding ? "embedding"
                             : kind.role == LayerRole::Head    ? "head"
                                                               : kind.name;
    profile.points[name][1][1].forward = Seconds{block ? 0.010 : 1e-9};
    profile.points[name][1][1].backward = Seconds{block ? 0.020 : 2e-9};
  }
  inputs.profiles = {profile};
  inputs.job.micro_batches = {1};
  inputs.job.global_batch = 8;
  inputs.job.constraints = {};
  inputs.job.constraints.stages = {4, 4};
  return inputs;
}

}  // namespace

TEST_CASE("of plans that take the same time the most even one is chosen", "[search]") {
  // 10 blocks on 4 stages: 3, 3, 2, 2 in some order; 3, 3, 3, 1 takes as long, as the sum and the slowest are the same.
  const SearchResult result = find_plan(ten_blocks().problem(), {});
  REQUIRE(result.plans.size() == 1);
  REQUIRE(result.plans[0].pipelines.size() == 1);
  std::vector<int> blocks;
  for (const StagePlan& stage : result.plans[0].pipelines[0].stages) blocks.push_back(stage.layers.size());
  --blocks.front();
  --blocks.back();
  std::sort(blocks.begin(), blocks.end());
  CHECK(blocks == std::vector<int>{2, 2, 3, 3});
}

TEST_CASE("evening out moves single layers while that costs no time", "[search]") {
  Pieces pieces(ten_blocks());
  Candidate uneven{1, {}};
  int first = 0;
  for (const int size : {4, 3, 3, 2}) {  // with the ends: blocks 3, 3, 3, 1
    uneven.stages.push_back({0, {1, 1}, {first, first + size}});
    first += size;
  }
  const Realised before = realise(pieces.tables, {uneven}, kInfinity, 1);
  const Realised after = even_out(pieces.tables, before, before.time * (1.0 + 1e-9), 100);
  CHECK(after.time <= before.time * (1.0 + 1e-9));
  CHECK(unevenness(pieces.tables, after.pipelines[0]) < unevenness(pieces.tables, uneven));
  // Times 3, 3, 2, 2 of mean 2.5: 4 (0.2)^2.
  CHECK(unevenness(pieces.tables, after.pipelines[0]) == Approx(0.16).epsilon(1e-3));
  CHECK(even_out(pieces.tables, before, before.time * (1.0 + 1e-9), 0).pipelines == before.pipelines);
}

}  // namespace hpplan::testing
