#include "predict/gradient_sync.hpp"

#include <numeric>

#include "support/builders.hpp"
#include "support/catch.hpp"

using namespace hpplan;
using namespace hpplan::testing;

namespace {

GroupSpec nodes(int count, int devices, double inter_GBps, double intra_GBps = 200.0) {
  GroupSpec group;
  group.nodes = count;
  group.devices_per_node = devices;
  group.inter_GBps = inter_GBps;
  group.intra_GBps = intra_GBps;
  return group;
}

Problem on(const GroupSpec& group) {
  ProblemSpec spec;
  spec.groups = {group};
  spec.model.blocks = 1;
  spec.model.block_parameters = 1200.0;  // 4800 B of gradient
  spec.model.hidden = 2;
  spec.model.vocabulary = 2;
  return problem_of(spec);
}

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<const GradientGroup*> groups_of_layer(const GradientSync& sync, int layer) {
  std::vector<const GradientGroup*> found;
  for (const GradientGroup& group : sync.groups) {
    for (const GradientBlock& block : group.blocks) {
      if (block.layer == layer) found.push_back(&group);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("A17: a ring over 100 Gb/s takes 2 (n-1)/n of the payload: 0.24 s", "[all-reduce]") {
  // 4 nodes of 1, 2e9 B, 100 Gb/s = 12.5 GB/s: 2 * 3/4 * 2e9 / 12.5e9 = 0.24 s; 100 GB/s: 0.03 s
  CHECK(all_reduce_time(on(nodes(4, 1, 12.5)), first_ranks(4), Bytes{2'000'000'000}).value() == Approx(0.240));
  CHECK(all_reduce_time(on(nodes(4, 1, 100)), first_ranks(4), Bytes{2'000'000'000}).value() == Approx(0.030));
}

TEST_CASE("A18: an All-Reduce between nodes follows the outer link and ignores the inner one", "[all-reduce]") {
  // 2 nodes of 1, 1e9 B: 2 * 1/2 * 1e9 / 10e9 = 0.1 s; at 5 GB/s 0.2 s
  const Bytes size{1'000'000'000};
  CHECK(all_reduce_time(on(nodes(2, 1, 10)), first_ranks(2), size).value() == Approx(0.100));
  CHECK(all_reduce_time(on(nodes(2, 1, 5)), first_ranks(2), size).value() == Approx(0.200));
  CHECK(all_reduce_time(on(nodes(2, 1, 10, 2000)), first_ranks(2), size).value() == Approx(0.100));
}

TEST_CASE("inside a node the inner link counts, with 2 (n-1) latencies", "[all-reduce]") {
  // 4 devices, 8e9 B, 200 GB/s: 2 * 3/4 * 8e9 / 200e9 = 0.06 s, and 6 latencies of 1 ms
  GroupSpec group = nodes(1, 4, 10);
  group.intra_latency_s = 1e-3;
  CHECK(all_reduce_time(on(group), first_ranks(4), Bytes{8'000'000'000}).value() == Approx(0.060 + 0.006));
  CHECK(all_reduce_time(on(group), first_ranks(1), Bytes{8'000'000'000}) == Seconds{0.0});
}

TEST_CASE("over whole nodes the hierarchical All-Reduce beats the flat ring", "[all-reduce]") {
  // 2 nodes of 4, 4e9 B; inside 200 GB/s, 20 GB/s per node = 5 GB/s per device.
  //   flat          2 * 7/8 * 4e9 / 5e9                        = 1.4 s
  //   hierarchical  2 * 3/4 * 4e9 / 200e9 + 2 * 1/2 * 1e9 / 5e9 = 0.03 + 0.2 = 0.23 s
  CHECK(all_reduce_time(on(nodes(2, 4, 20)), first_ranks(8), Bytes{4'000'000'000}).value() == Approx(0.23));
  // 3 ranks on one node and 2 on the other: only the flat ring is left. 2 * 4/5 * 4e9 / 5e9 = 1.28 s
  CHECK(all_reduce_time(on(nodes(2, 4, 20)), std::vector<int>{0, 1, 2, 4, 5}, Bytes{4'000'000'000}).value() ==
        Approx(1.28));
}

TEST_CASE("a layer's gradient is cut at the union of all shard boundaries", "[gradient-sync]") {
  // TP 2 on ranks 0,1 against TP 3 on ranks 2,3,4: cuts at 1/3, 1/2, 2/3.
  const Problem made = on(nodes(1, 6, 10));
  std::vector<PipelinePlan> pipelines{pipeline_of(made, 1, 4, {{0, 0, 0, 2, 1, {0, 3}}}),
                                      pipeline_of(made, 1, 4, {{0, 0, 2, 3, 1, {0, 3}}})};
  const GradientSync sync = predict_gradient_sync(made, pipelines);
  const auto groups = groups_of_layer(sync, 1);
  REQUIRE(groups.size() == 4);
  const std::vector<std::vector<int>> ranks{{0, 2}, {0, 3}, {1, 3}, {1, 4}};
  // 4800 B cut in sixths: 2/6, 1/6, 1/6, 2/6
  const std::vector<double> ends{1.0 / 3, 0.5, 2.0 / 3, 1.0};
  double begin = 0.0;
  for (std::size_t k = 0; k < groups.size(); ++k) {
    CHECK(groups[k]->ranks == ranks[k]);
    for (const GradientBlock& block : groups[k]->blocks) {
      if (block.layer != 1) continue;
      CHECK(block.begin == Approx(begin));
      CHECK(block.end == Approx(ends[k]));
    }
    begin = ends[k];
  }
}

TEST_CASE("every byte of a layer is reduced once per copy", "[gradient-sync]") {
  const Problem made = on(nodes(1, 6, 10));
  std::vector<PipelinePlan> pipelines{pipeline_of(made, 1, 4, {{0, 0, 0, 2, 1, {0, 3}}}),
                                      pipeline_of(made, 1, 4, {{0, 0, 2, 3, 1, {0, 3}}})};
  Bytes reduced;
  for (const GradientGroup& group : predict_gradient_sync(made, pipelines).groups) reduced += group.bytes;
  CHECK(reduced == layer_gradient_bytes(made.model, 0) + layer_gradient_bytes(made.model, 1) +
                       layer_gradient_bytes(made.model, 2));
}

TEST_CASE("blocks with the same devices are merged into one call", "[gradient-sync]") {
  // Two equal pipelines of one stage: one group per shard, with all three layers in it.
  const Problem made = on(nodes(1, 4, 10));
  std::vector<PipelinePlan> pipelines{pipeline_of(made, 1, 4, {{0, 0, 0, 2, 1, {0, 3}}}),
                                      pipeline_of(made, 1, 4, {{0, 0, 2, 2, 1, {0, 3}}})};
  const GradientSync sync = predict_gradient_sync(made, pipelines);
  REQUIRE(sync.groups.size() == 2);
  CHECK(sync.groups[0].ranks == std::vector<int>{0, 2});
  CHECK(sync.groups[1].ranks == std::vector<int>{1, 3});
  CHECK(sync.groups[0].blocks.size() == 3);
  CHECK(sync.tensor_wise >= sync.block_wise);
}

TEST_CASE("replicas inside a stage reduce with each other", "[gradient-sync]") {
  const Problem made = on(nodes(1, 4, 10));
  std::vector<PipelinePlan> pipelines{pipeline_of(made, 2, 4, {{0, 0, 0, 2, 2, {0, 3}}})};
  const GradientSync sync = predict_gradient_sync(made, pipelines);
  REQUIRE(sync.groups.size() == 2);
  // TP groups are consecutive: replicas are ranks 0,1 and 2,3, so shard 0 is on 0 and 2.
  CHECK(sync.groups[0].ranks == std::vector<int>{0, 2});
}

TEST_CASE("a single copy of every layer has nothing to reduce", "[gradient-sync]") {
  const Problem made = on(nodes(1, 4, 10));
  std::vector<PipelinePlan> pipelines{pipeline_of(made, 1, 4, {{0, 0, 0, 4, 1, {0, 3}}})};
  const GradientSync sync = predict_gradient_sync(made, pipelines);
  CHECK(sync.groups.empty());
  CHECK(sync.time == Seconds{0.0});
}

TEST_CASE("a tied embedding is reduced between the first and the last stage", "[gradient-sync]") {
  ProblemSpec spec;
  spec.model.tied = true;
  const Problem problem = problem_of(spec);
  std::vector<PipelinePlan> pipelines{pipeline_of(problem, 1, 4, {{0, 0, 0, 1, 1, {0, 3}}, {0, 0, 1, 1, 1, {3, 6}}})};
  const GradientSync sync = predict_gradient_sync(problem, pipelines);
  REQUIRE(sync.groups.size() == 1);
  CHECK(sync.groups[0].ranks == std::vector<int>{0, 1});
  REQUIRE(sync.groups[0].blocks.size() == 1);
  CHECK(sync.groups[0].blocks[0].layer == 0);
}
