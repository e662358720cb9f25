#include <algorithm>
#include <limits>

#include "search/engine.hpp"
#include "support/catch.hpp"
#include "support/random_problems.hpp"

namespace hpplan::testing {

namespace {

/// Time of the plan found for the inputs; infinity if none.
double planned_time(const Inputs& inputs) {
  const SearchResult result = find_plan(inputs.problem(), {});
  if (result.plans.empty()) return std::numeric_limits<double>::infinity();
  CHECK(result.report.proved);  // otherwise the comparisons below say nothing
  return result.plans.front().iteration_time.value();
}

constexpr double kRounding = 1.0 + 1e-9;

}  // namespace

TEST_CASE("more memory never gives a slower plan", "[search][property]") {
  for (std::uint64_t seed = 3001; seed <= 3060; ++seed) {
    Inputs inputs = random_inputs(seed);
    INFO("seed " << seed << ": " << describe(inputs));
    const double before = planned_time(inputs);
    for (DeviceType& type : inputs.cluster.device_types) type.memory = Bytes{type.memory.count() * 5 / 4};
    CHECK(planned_time(inputs) <= before * kRounding);
  }
}

TEST_CASE("one more node never gives a slower plan", "[search][property]") {
  for (std::uint64_t seed = 3101; seed <= 3160; ++seed) {
    Inputs inputs = random_inputs(seed, {5, 2, 5, 12});
    INFO("seed " << seed << ": " << describe(inputs));
    const double before = planned_time(inputs);
    NodeGroup& group = inputs.cluster.node_groups.front();
    ++group.nodes;
    group.node_names.push_back("one-more");
    CHECK(planned_time(inputs) <= before * kRounding);
  }
}

TEST_CASE("one more micro-batch size never gives a slower plan", "[search][property]") {
  for (std::uint64_t seed = 3201; seed <= 3260; ++seed) {
    Inputs inputs = random_inputs(seed);
    INFO("seed " << seed << ": " << describe(inputs));
    const double before = planned_time(inputs);
    for (const int size : {1, 3, 8}) {
      auto& sizes = inputs.job.micro_batches;
      if (std::count(sizes.begin(), sizes.end(), size) == 0) sizes.push_back(size);
    }
    CHECK(planned_time(inputs) <= before * kRounding);
  }
}

TEST_CASE("a limit of pipelines that no plan reaches changes no time", "[search][property]") {
  // Without a limit, pipelines that two half pipelines can replace are left out of closures.
  for (std::uint64_t seed = 3401; seed <= 3460; ++seed) {
    Inputs inputs = random_inputs(seed, {6, 2, 5, 12});
    for (const int size : {1, 2, 4}) {
      auto& sizes = inputs.job.micro_batches;
      if (std::count(sizes.begin(), sizes.end(), size) == 0) sizes.push_back(size);
    }
    INFO("seed " << seed << ": " << describe(inputs));
    const double before = planned_time(inputs);
    inputs.job.constraints.pipelines.max = inputs.cluster.device_count();
    const double limited = planned_time(inputs);
    CHECK(limited <= before * kRounding);
    CHECK(before <= limited * kRounding);
  }
}

TEST_CASE("twice the times give twice the step time", "[search][property]") {
  for (std::uint64_t seed = 3301; seed <= 3360; ++seed) {
    Inputs inputs = random_inputs(seed);
    if (inputs.profiles.empty()) continue;           // the model's launch times are constants
    inputs.job.constraints.allow_recompute = false;  // the times of single operators are modelled
    INFO("seed " << seed << ": " << describe(inputs));
    const double before = planned_time(inputs);
    if (before == std::numeric_limits<double>::infinity()) continue;
    CHECK(planned_time(twice_as_slow(inputs)) == Approx(2.0 * before).epsilon(1e-9));
  }
}

TEST_CASE("names of layer kinds, device types, node groups and nodes change nothing", "[search][property]") {
  for (std::uint64_t seed = 3401; seed <= 3440; ++seed) {
    const Inputs inputs = random_inputs(seed);
    Inputs renamed = inputs;
    for (LayerKind& kind : renamed.model.kinds) {
      if (kind.role == LayerRole::Block) kind.name = "z" + kind.name;
    }
    for (DeviceType& type : renamed.cluster.device_types) type.name = "z" + type.name;
    for (NodeGroup& group : renamed.cluster.node_groups) {
      group.name = "z" + group.name;
      std::reverse(group.node_names.begin(), group.node_names.end());
    }
    for (DeviceProfile& profile : renamed.profiles) {
      profile.device_type = "z" + profile.device_type;
      for (const char* name : {"block", "other"}) {
        auto points = profile.points.extract(name);
        if (points.empty()) continue;
        points.key() = std::string("z") + name;
        profile.points.insert(std::move(points));
      }
    }
    INFO("seed " << seed << ": " << describe(inputs));
    CHECK(planned_time(renamed) == planned_time(inputs));
  }
}

}  // namespace hpplan::testing
