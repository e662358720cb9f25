#include "schedule/octopipe.hpp"

#include <string>
#include <vector>

#include "base/diagnostic.hpp"
#include "support/catch.hpp"
#include "support/schedules.hpp"

using namespace hpplan;
using namespace hpplan::testing;

namespace {

/// Nemotron-Nano-v2-9B in ticks of 0.01 ms: F, B and W of each kind of layer (schedules.md 6.5).
OctoProblem nemotron() {
  OctoProblem problem;
  problem.device_count = 4;
  problem.micro_batches = 8;
  const auto add = [&](const char* name, double forward, double backward, double weight_gradient) {
    problem.layers.push_back({name, Seconds{forward}, Seconds{backward}, Seconds{weight_gradient}});
  };
  add("embedding", 76, 287, 0);
  for (const char kind : std::string("M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-")) {
    if (kind == 'M') add("mamba", 268, 430, 176);
    if (kind == '-') add("mlp", 185, 191, 169);
    if (kind == '*') add("attention", 193, 245, 65);
  }
  add("head", 1422, 1571, 6);
  return problem;
}

std::vector<double> busy_of(const Simulation& simulation) {
  std::vector<double> busy;
  for (const Seconds time : simulation.busy) busy.push_back(time.value());
  return busy;
}

}  // namespace

TEST_CASE("Nemotron under 1F1B with even layers takes 133121 ticks", "[octopipe]") {
  ScheduleRequest request = equal_stages(4, 8, 1, 1);
  const double forward[] = {3330, 3104, 3104, 4593};
  const double backward[] = {7295, 6416, 6416, 8339};
  for (std::size_t s = 0; s < 4; ++s) {
    request.times[s].forward = Seconds{forward[s]};
    request.times[s].backward = Seconds{backward[s]};
  }
  const Simulation result = run("1f1b", request);
  CHECK(result.makespan == Seconds{133121});
  CHECK(busy_of(result) == std::vector<double>{85000, 76160, 76160, 103456});
}

TEST_CASE("64 equal layers in 8 stages, round robin on 4 devices, breadth first: 456 units, each device busy 384",
          "[octopipe]") {
  // A stage of 8 layers has F 8 and B 16: a device works 8 * 2 * 24 = 384; the fill of half a device's stages adds 3 *
  // 24
  const Simulation result = run("interleaved", with_chunks(equal_stages(4, 8, 16, 32), 2));
  CHECK(result.makespan == Seconds{456});
  CHECK(busy_of(result) == std::vector<double>{384, 384, 384, 384});
}

TEST_CASE("Nemotron: the published 24-stage plan takes 89870 ticks under the dispatch rule", "[octopipe]") {
  const OctoProblem problem = nemotron();
  const std::vector<int> sizes = {2, 2, 2, 2, 2, 2, 2, 3, 2, 3, 2, 3, 2, 3, 3, 2, 3, 3, 2, 2, 2, 3, 3, 1};
  OctoPlan plan;
  int next = 1;  // the embedding goes with the first stage
  for (const int size : sizes) {
    plan.first_layer.push_back(plan.first_layer.empty() ? 0 : next);
    next += size;
  }
  plan.device.resize(sizes.size());
  const std::vector<std::vector<std::size_t>> stages = {
      {0, 4, 8, 12, 16, 19, 20}, {1, 5, 9, 13, 17, 21}, {2, 6, 10, 14, 18, 22}, {3, 7, 11, 15, 23}};
  for (std::size_t d = 0; d < stages.size(); ++d) {
    for (const std::size_t s : stages[d]) plan.device[s] = static_cast<int>(d);
  }
  const Schedule schedule = make_octopipe_schedule(problem, plan);
  CHECK(fault_of(schedule) == "");
  const Simulation result = simulate(schedule);
  CHECK(result.makespan == Seconds{89870});
  CHECK(busy_of(result) == std::vector<double>{86392, 84880, 84728, 84776});
  CHECK(octopipe_lower_bound(problem) <= result.makespan);
}

TEST_CASE("Nemotron: our tuner's plan is no slower than the published one", "[octopipe]") {
  const OctoProblem problem = nemotron();
  const OctoPlan plan = tune_octopipe(problem);
  const Schedule schedule = make_octopipe_schedule(problem, plan);
  CHECK(fault_of(schedule) == "");
  const Simulation result = simulate(schedule);
  CHECK(result.makespan <= Seconds{89870});
  CHECK(result.makespan >= octopipe_lower_bound(problem));
  for (const std::vector<int>& row : message_slots(schedule, result)) {
    for (const int slots : row) CHECK(slots <= 8 * static_cast<int>(plan.device.size()));
  }
}

TEST_CASE("the balanced partition has the least sum of squares of all", "[octopipe]") {
  // 3 1 4 1 5 9 in 3 stages: all 10 partitions by hand of two loops
  std::vector<LayerTime> layers;
  for (const double time : {3, 1, 4, 1, 5, 9}) layers.push_back({"", Seconds{time}, Seconds{}, Seconds{}});
  const auto cost = [&](const std::vector<int>& first) {
    double sum = 0.0;
    for (std::size_t s = 0; s < first.size(); ++s) {
      const std::size_t end = s + 1 < first.size() ? static_cast<std::size_t>(first[s + 1]) : layers.size();
      double time = 0.0;
      for (std::size_t k = static_cast<std::size_t>(first[s]); k < end; ++k) time += layers[k].forward.value();
      sum += time * time;
    }
    return sum;
  };
  double least = 1e300;
  for (int a = 1; a < 5; ++a) {
    for (int b = a + 1; b < 6; ++b) least = std::min(least, cost({0, a, b}));
  }
  CHECK(cost(balanced_partition(layers, 3)) == least);
}

TEST_CASE("octopipe keeps to a memory limit, and refuses one below its own share", "[octopipe]") {
  ScheduleRequest request = equal_stages(2, 6, 0, 0);
  for (int k = 0; k < 6; ++k) request.layers.push_back({"layer", Seconds{1}, Seconds{1}, Seconds{1}});
  request.memory_limit = 2.0;
  const Schedule schedule = make_schedule_of("octopipe", request);
  for (const double held : simulate(schedule).peak_activations) CHECK(held <= 2.0 + 1e-9);
  request.memory_limit = 0.5;
  CHECK_THROWS_AS(make_schedule_of("octopipe", request), InputError);
}

TEST_CASE("octopipe on even layers loses at most 10 % against its bound", "[octopipe]") {
  ScheduleRequest request = equal_stages(2, 8, 0, 0);
  for (int k = 0; k < 8; ++k) request.layers.push_back({"layer", Seconds{1}, Seconds{1}, Seconds{1}});
  const Schedule schedule = make_schedule_of("octopipe", request);
  CHECK(simulate(schedule).makespan / schedule.lower_bound < 1.10);
}
