// Mistakes that users of such tools met, each with the right answer, planned end to end over times that the test
// states. The number of a case is the one under which it is collected; other tests with "A.." in their names hold the
// cases about files, options, memory and schedules.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/text.hpp"
#include "predict/evaluate.hpp"
#include "search/engine.hpp"
#include "support/builders.hpp"
#include "support/catch.hpp"

using namespace hpplan;
using namespace hpplan::literals;
using namespace hpplan::testing;

namespace {

/// One pipeline of `stages` stages of one device each, of one sample per micro-batch, over `blocks` equal blocks of
/// 10 ms forward and 20 ms backward.
ProblemSpec one_pipeline(int blocks, int stages, int micro_batches) {
  ProblemSpec spec;
  spec.groups[0].devices_per_node = stages;
  spec.groups[0].intra_GBps = 1e9;
  spec.model.blocks = blocks;
  spec.model.block_parameters = 1.0;
  spec.job.global_batch = micro_batches;
  spec.job.micro_batches = {1};
  spec.job.constraints.pipelines = {1, 1};
  spec.job.constraints.stages = {stages, stages};
  spec.job.constraints.tensor_parallel = {1};
  return spec;
}

std::vector<Plan> plans_of(const Problem& problem) { return find_plan(problem, {}).plans; }

Plan plan_of(const Problem& problem) {
  std::vector<Plan> plans = plans_of(problem);
  REQUIRE_FALSE(plans.empty());
  return plans.front();
}

/// Blocks of each stage: embedding and head left out.
std::vector<int> block_counts(const Problem& problem, const PipelinePlan& pipeline) {
  std::vector<int> counts;
  for (const StagePlan& stage : pipeline.stages) {
    const int first = std::max(stage.layers.first, 1);
    const int last = std::min(stage.layers.last, problem.model.layer_count() - 1);
    counts.push_back(last - first);
  }
  return counts;
}

std::vector<int> sorted(std::vector<int> counts) {
  std::sort(counts.begin(), counts.end());
  return counts;
}

/// `times` times `count`.
std::vector<int> repeated(int count, int times) { return std::vector<int>(static_cast<std::size_t>(times), count); }

std::vector<int> joined(std::vector<int> a, const std::vector<int>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Seconds time_of(const Problem& problem, const std::vector<int>& block_counts, int micro_batches) {
  std::vector<StageSpec> stages;
  int first = 0;
  for (std::size_t s = 0; s < block_counts.size(); ++s) {
    const bool is_last = s + 1 == block_counts.size();
    const int last = first + block_counts[s] + (s == 0 ? 1 : 0) + (is_last ? 1 : 0);
    stages.push_back({0, 0, static_cast<int>(s), 1, 1, {first, last}});
    first = last;
  }
  return evaluate(problem, {pipeline_of(problem, 1, micro_batches, stages)}).pipelines[0].time;
}

}  // namespace

TEST_CASE("A01, A03, A04: layers that do not divide over the stages are all kept, with no empty and no overfull stage",
          "[cases]") {
  // The even split of 30 over 4 is 8, 8, 7, 7; the fullest stage of the plan holds no more than that of the even split.
  const auto [blocks, stages, fullest] = GENERATE(
      table<int, int, int>({{30, 4, 8}, {7, 2, 4}, {62, 4, 16}, {40, 16, 3}, {5, 4, 2}, {42, 16, 3}, {38, 8, 5}}));
  CAPTURE(blocks, stages);
  const int micro_batches = 64;
  const Problem problem = problem_of(one_pipeline(blocks, stages, micro_batches));
  const Plan plan = plan_of(problem);
  REQUIRE(plan.pipelines.size() == 1);
  int next = 0;
  for (const StagePlan& stage : plan.pipelines[0].stages) {
    CHECK(stage.layers.first == next);
    next = stage.layers.last;
  }
  CHECK(next == blocks + 2);
  const std::vector<int> counts = sorted(block_counts(problem, plan.pipelines[0]));
  CAPTURE(counts);
  CHECK(counts.size() == static_cast<std::size_t>(stages));
  CHECK(counts.front() >= 1);
  CHECK(counts.back() == fullest);
  CHECK(counts.back() - counts.front() <= 1);
  const int fuller = blocks % stages;
  const std::vector<int> even =
      joined(repeated(blocks / stages + 1, fuller), repeated(blocks / stages, stages - fuller));
  CHECK(plan.pipelines[0].time.value() <= time_of(problem, even, micro_batches).value() * (1.0 + 1e-9));
}

TEST_CASE("A05: a head worth three blocks leaves the last stage fewer of them", "[cases]") {
  ProblemSpec spec = one_pipeline(24, 4, 16);
  spec.times[0].head_forward = 0.030;
  spec.times[0].head_backward = 0.060;
  const Problem problem = problem_of(spec);
  const Plan plan = plan_of(problem);
  CHECK(block_counts(problem, plan.pipelines[0]) == std::vector<int>{7, 7, 7, 3});
  CHECK(plan.pipelines[0].time.value() == Approx(3.930).epsilon(1e-6));
  CHECK(time_of(problem, {6, 6, 6, 6}, 16).value() == Approx(4.860).epsilon(1e-6));
  CHECK(time_of(problem, {7, 7, 6, 4}, 16).value() == Approx(3.960).epsilon(1e-6));
}

TEST_CASE("A07: the first stage of 1F1B holds the most micro-batches, and decides", "[cases]") {
  // 8 blocks of 5 GiB of states and 1 GiB of activations per micro-batch; 4, 3, 2, 1 in flight: 18, 16, 14, 12 GiB.
  ProblemSpec spec = one_pipeline(8, 4, 8);
  spec.model.block_parameters = 5.0 * (1LL << 30) / 18.0;
  spec.times[0].block_saved = 1_GiB;
  spec.job.constraints.allow_recompute = false;
  spec.groups[0].memory = 18_GiB + 1_MiB;
  const Problem problem = problem_of(spec);
  const Plan plan = plan_of(problem);
  const std::vector<StagePlan>& stages = plan.pipelines[0].stages;
  CHECK(block_counts(problem, plan.pipelines[0]) == std::vector<int>{2, 2, 2, 2});
  for (std::size_t s = 0; s < 4; ++s) {
    CHECK(stages[s].in_flight == 4 - static_cast<int>(s));
    CHECK(stages[s].memory.total().value() / (1LL << 30) == Approx(18.0 - 2.0 * static_cast<double>(s)).epsilon(0.005));
  }
  spec.groups[0].memory = 17_GiB + 1_MiB;  // at most 1, 2, 2, 2 blocks: 7 of 8
  const SearchResult none = find_plan(problem_of(spec), {});
  CHECK(none.plans.empty());
  REQUIRE_FALSE(none.report.rejections.empty());
  CAPTURE(none.report.rejections.front().text);
  CHECK(none.report.rejections.front().reason == RejectReason::DeviceMemory);
  CHECK(none.report.rejections.front().stage == 0);
  CHECK(none.report.rejections.front().text.find("misses by at least 1023.0 MiB, at stage 0") != std::string::npos);
  CHECK(none.report.rejections.front().text.find("recomputation") == std::string::npos);
}

TEST_CASE("A13: degrees that one type's profile lacks are named once, and the best plan remains", "[cases]") {
  ProblemSpec spec;
  spec.groups.resize(2);
  spec.groups[0].name = "x";
  spec.groups[1].name = "y";
  for (GroupSpec& group : spec.groups) group.devices_per_node = 8;
  spec.model.blocks = 10;
  spec.job.micro_batches = {1, 2};
  const Problem complete = problem_of(spec);
  std::vector<DeviceProfile> profiles = complete.profiles.profiles();
  for (auto& [kind, degrees] : profiles[1].points) {
    degrees.erase(8);
    degrees.erase(16);
  }
  const Problem problem = make_problem(complete.model, complete.cluster, ProfileTable(profiles), spec.job);
  CHECK(plans_of(problem).size() == 1);
  const auto gaps = problem.profiles.gaps(problem.model, problem.cluster.type_of(1), {1, 2, 4, 8}, {1, 2});
  REQUIRE(gaps.size() == 2);
  CHECK(to_text(gaps[0]) == "y tp8 bs1 (modelled)");
  CHECK(to_text(gaps[1]) == "y tp8 bs2 (modelled)");
}

TEST_CASE("A14: a device too slow to help is idle and listed, with no share rounded to zero", "[cases]") {
  // One sample takes 10 ms on x and 100 ms on y: four on x alone take 40 ms, one of them on y 100 ms.
  ProblemSpec spec;
  spec.groups.resize(2);
  spec.groups[0].name = "x";
  spec.groups[1].name = "y";
  for (GroupSpec& group : spec.groups) group.devices_per_node = 1;
  spec.model.blocks = 1;
  spec.model.block_parameters = 1.0;
  TableTimes fast;
  fast.block_forward = 0.004;
  fast.block_backward = 0.006;
  TableTimes slow;
  slow.block_forward = 0.040;
  slow.block_backward = 0.060;
  spec.times = {fast, slow};
  spec.job.global_batch = 4;
  spec.job.constraints.stages = {1, 1};
  const Problem problem = problem_of(spec);
  const Plan plan = plan_of(problem);
  CHECK(plan.iteration_time.value() == Approx(0.040).epsilon(1e-3));
  REQUIRE(plan.idle_devices.size() == 1);
  CHECK(plan.idle_devices[0].group == 1);
  CHECK(std::isfinite(plan.lower_bound.value()));
}

TEST_CASE("A19: odd nodes are used, TP stays inside a node, idle devices are listed", "[cases]") {
  ProblemSpec spec;
  spec.groups.resize(3);
  const int sizes[] = {4, 6, 7};
  for (std::size_t g = 0; g < 3; ++g) {
    spec.groups[g].name = concat("n", g);
    spec.groups[g].devices_per_node = sizes[g];
  }
  spec.model.blocks = 28;
  spec.job.global_batch = 16;
  spec.job.micro_batches = {1, 2};
  const Problem problem = problem_of(spec);
  CHECK(problem.cluster.device_count() == 17);
  const Plan plan = plan_of(problem);
  std::size_t used = 0;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    for (const StagePlan& stage : pipeline.stages) {
      used += stage.devices.size();
      for (const DevicePlace& device : stage.devices) CHECK(device.group == stage.node_group);
      CHECK(stage.tensor_parallel <= sizes[stage.node_group]);
    }
  }
  CHECK(used + plan.idle_devices.size() == 17);
}

TEST_CASE("A19: a node of seven devices is a pipeline of seven stages", "[cases]") {
  const Problem problem = problem_of(one_pipeline(28, 7, 14));
  const Plan plan = plan_of(problem);
  CHECK(block_counts(problem, plan.pipelines[0]) == repeated(4, 7));
  CHECK(plan.idle_devices.empty());
  ProblemSpec spec = one_pipeline(28, 7, 14);
  spec.job.constraints = {};
  spec.model.heads = 32;
  spec.model.hidden = 64;
  CHECK(problem_of(spec).costs.degrees(0) == std::vector<int>{1, 2, 4});
}

TEST_CASE("A26: blocks by speed, limited by memory, and the order of the stages matters", "[cases]") {
  ProblemSpec spec = one_pipeline(12, 1, 8);
  spec.groups.resize(2);
  spec.groups[0].name = "fast";
  spec.groups[1].name = "slow";
  for (GroupSpec& group : spec.groups) {
    group.devices_per_node = 1;
    group.intra_GBps = group.inter_GBps = 1e9;
  }
  spec.job.constraints.stages = {2, 2};
  spec.job.constraints.allow_recompute = false;
  TableTimes fast;
  fast.block_forward = 0.005 / 3.0;
  fast.block_backward = 0.010 / 3.0;
  TableTimes slow;
  slow.block_forward = 0.010 / 3.0;
  slow.block_backward = 0.020 / 3.0;
  spec.times = {fast, slow};
  const Problem ample = problem_of(spec);
  const Plan by_speed = plan_of(ample);
  CHECK(sorted(block_counts(ample, by_speed.pipelines[0])) == std::vector<int>{4, 8});
  CHECK(by_speed.pipelines[0].time.value() == Approx(0.360).epsilon(1e-3));

  // 3 GiB of states a block, 16 and 32 GiB: at most 5 on the fast device, and 7 * 10 ms on the slow one, first.
  spec.model.block_parameters = 3.0 * (1LL << 30) / 18.0;
  for (TableTimes& times : spec.times) times.block_saved = 1_MiB;
  spec.groups[0].memory = 16_GiB;
  spec.groups[1].memory = 32_GiB;
  const Problem tight = problem_of(spec);
  const Plan by_memory = plan_of(tight);
  const std::vector<StagePlan>& stages = by_memory.pipelines[0].stages;
  CHECK(block_counts(tight, by_memory.pipelines[0]) == std::vector<int>{7, 5});
  CHECK(tight.cluster.type_of(stages[0].node_group).name == "slow");
  CHECK(by_memory.pipelines[0].time.value() == Approx(0.5617).epsilon(1e-3));
  const Plan slow_last =
      evaluate(tight, {pipeline_of(tight, 1, 8, {{0, 0, 0, 1, 1, {0, 6}}, {1, 0, 0, 1, 1, {6, 14}}})});
  CHECK(slow_last.pipelines[0].time.value() == Approx(0.585).epsilon(1e-3));
}

TEST_CASE("A27: nothing fits, and the report says by how much and how many devices would do", "[cases]") {
  // 70e9 parameters of 16 B are 1120 GB; 8 devices of 80 GB hold 640 GB; 14 would do.
  ProblemSpec spec;
  spec.groups[0].devices_per_node = 8;
  spec.groups[0].memory = Bytes{80'000'000'000LL};
  spec.model.blocks = 70;
  spec.model.block_parameters = 1e9 - 10.0;  // room for the ends of the model
  spec.times[0].block_saved = 0_B;
  const Problem made = problem_of(spec);
  ModelSpec model = made.model;
  model.state = {2, 2, 12};
  const SearchResult result = find_plan(make_problem(model, made.cluster, made.profiles, spec.job), {});
  CHECK(result.plans.empty());
  REQUIRE_FALSE(result.report.rejections.empty());
  const std::string text = result.report.rejections.front().text;
  CAPTURE(text);
  CHECK(result.report.rejections.front().reason == RejectReason::DeviceMemory);
  CHECK(text.find("1120 GB even if spread perfectly") != std::string::npos);
  CHECK(text.find("together hold 640 GB") != std::string::npos);
  CHECK(text.find("at least 14 devices") != std::string::npos);
}
