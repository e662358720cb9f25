#include "search/space.hpp"

#include "search/engine.hpp"
#include "search/stage_table.hpp"
#include "support/catch.hpp"
#include "support/models.hpp"
#include "support/random_problems.hpp"

namespace hpplan::testing {

namespace {

std::vector<int> sizes(int nodes, int devices_per_node, bool whole_nodes = false) {
  NodeGroup group;
  group.nodes = nodes;
  group.devices_per_node = devices_per_node;
  Constraints constraints;
  constraints.whole_nodes = whole_nodes;
  return port_sizes(group, constraints);
}

}  // namespace

TEST_CASE("a stage takes a power of two or a divisor of a node, the node, or whole nodes", "[search]") {
  CHECK(sizes(1, 4) == std::vector<int>{1, 2, 4});
  CHECK(sizes(1, 6) == std::vector<int>{1, 2, 3, 4, 6});  // 3 divides 6, 4 is a power of two
  CHECK(sizes(1, 7) == std::vector<int>{1, 2, 4, 7});     // 3 and 5 are neither
  CHECK(sizes(3, 8) == std::vector<int>{1, 2, 4, 8, 16, 24});
  CHECK(sizes(3, 1) == std::vector<int>{1, 2, 3});
}

TEST_CASE("with whole nodes only, no stage takes a part of a node", "[search]") {
  CHECK(sizes(2, 6, true) == std::vector<int>{6, 12});
}

TEST_CASE("adding devices adds the indices of resource vectors, and an overflow is no vector", "[search]") {
  const ResourceSpace space({4, 6}, {2, 1});  // 0, 2, 4 devices of the first group, 0..6 of the second
  CHECK(space.vectors().size() == 3 * 7);
  const int index = space.step(0, 2) + space.step(1, 5);
  REQUIRE(space.valid(index));
  CHECK(space.count(index, 0) == 2);
  CHECK(space.count(index, 1) == 5);
  CHECK_FALSE(space.valid(index + space.step(1, 2)));  // 7 of 6
  CHECK(space.contains(space.full(), index));
  CHECK_FALSE(space.contains(index, space.full()));
}

TEST_CASE("a group that no stage can use adds no resource vectors", "[search]") {
  // One head and one sample: a stage is one device. Ports of two devices and more leave nothing of the larger group,
  // and of the one-device group its only port.
  Inputs inputs = random_inputs(1, {2, 2, 2, 4});
  inputs.model = gpt_model(2, 8, 1, 4, 16);
  inputs.profiles.clear();
  inputs.job.micro_batches = {1};
  inputs.job.global_batch = 4;
  NodeGroup small = inputs.cluster.node_groups[0];
  small.nodes = small.devices_per_node = 1;
  small.node_names = {"a"};
  NodeGroup large = small;
  large.devices_per_node = 40;
  large.node_names = {"b"};
  inputs.cluster.node_groups = {small, large};
  inputs.cluster.group_links.assign(2, std::vector<Link>(2, small.inter_node));
  for (DeviceType& type : inputs.cluster.device_types) type.memory = Bytes{1LL << 40};
  const Problem problem = inputs.problem();
  CHECK(make_space(problem).resources.vectors().size() == 2 * 41);
  CHECK(make_space(problem, 2).resources.vectors().size() == 2);
  CHECK(find_plan(problem, {}).plans.size() == 1);
}

TEST_CASE("ranges of equal layers are one class unless they begin or end the model", "[search]") {
  // embedding, 4 equal blocks, head: inner ranges of 1..4 blocks (4), from the embedding with 0..4 blocks (5),
  // to the head with 0..4 blocks (5), and the whole model (1)
  const RangeClasses ranges(gpt_model(4, 64, 4));
  CHECK(ranges.count() == 4 + 5 + 5 + 1);
  CHECK(ranges.of(1, 3) == ranges.of(3, 5));
  CHECK(ranges.of(0, 2) != ranges.of(1, 3));
}

TEST_CASE("ranges that hold different kinds are different classes, in any order of their layers", "[search]") {
  ModelSpec model = gpt_model(4, 64, 4);
  LayerKind other = model.kinds[1];
  other.name = "other";
  model.kinds.push_back(other);
  model.layers = {0, 1, 3, 1, 1, 2};
  const RangeClasses ranges(model);
  CHECK(ranges.of(1, 3) == ranges.of(2, 4));  // block + other = other + block
  CHECK(ranges.of(1, 3) != ranges.of(3, 5));  // block + other, two blocks
}

}  // namespace hpplan::testing
