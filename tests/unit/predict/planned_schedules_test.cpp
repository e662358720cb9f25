#include <algorithm>
#include <functional>
#include <string>

#include "predict/evaluate.hpp"
#include "predict/judge.hpp"
#include "predict/plan_stamp.hpp"
#include "predict/planned_stage.hpp"
#include "search/schedule_fit.hpp"
#include "support/builders.hpp"
#include "support/catch.hpp"

using namespace hpplan;
using namespace hpplan::testing;

namespace {

/// Four stages of two blocks each, ends included; every family of the list may be used.
Problem four_stage_problem() {
  ProblemSpec spec;
  spec.groups[0].nodes = 1;
  spec.groups[0].devices_per_node = 4;
  spec.groups[0].intra_latency_s = 1e-4;
  spec.model.blocks = 8;
  spec.job.global_batch = 16;
  spec.job.max_drift = 3;
  spec.job.schedules.clear();
  for (const ScheduleFamily& family : schedule_families()) spec.job.schedules.emplace_back(family.name);
  return problem_of(spec);
}

PipelinePlan four_stages(const Problem& problem) {
  return pipeline_of(
      problem, 1, 16,
      {{0, 0, 0, 1, 1, {0, 3}}, {0, 0, 1, 1, 1, {3, 5}}, {0, 0, 2, 1, 1, {5, 7}}, {0, 0, 3, 1, 1, {7, 10}}});
}

/// The plan of one pipeline under `family`, as the planner fits it.
PlanFile file_of(const Problem& problem, const std::string& family) {
  for (const ScheduleVariant& variant : schedule_variants(problem, four_stages(problem))) {
    if (variant.skeleton.schedule != family) continue;
    const std::optional<PipelinePlan> pipeline = fit(problem, variant, 16);
    REQUIRE(pipeline);
    Plan plan = evaluate(problem, {*pipeline});
    plan.lower_bound = plan.iteration_time * 0.9;
    return make_plan_file(problem, plan);
  }
  FAIL("no way to run " << family);
  return {};
}

std::string fields(const Judgement& judgement) {
  std::string all;
  for (const Difference& difference : judgement.differences) all += difference.field + ";";
  return all;
}

Judgement judged(const Problem& problem, PlanFile file) { return judge_plan(problem, file); }

bool finds(const Judgement& judgement, const std::string& field) {
  return std::any_of(judgement.differences.begin(), judgement.differences.end(),
                     [&](const Difference& difference) { return difference.field == field; });
}

bool has_chunks(const ScheduleFamily& family) { return family.arrangement != Arrangement::OnePerDevice; }

}  // namespace

TEST_CASE("every family: a plan of it is judged right, and each change of it is found", "[judge][schedule]") {
  const Problem problem = four_stage_problem();
  for (const ScheduleFamily& family : schedule_families()) {
    CAPTURE(family.name);
    const PlanFile good = file_of(problem, family.name);
    CHECK(fields(judged(problem, good)) == "");
    const auto check_damage = [&](const std::string& field, const std::function<void(PipelinePlan&)>& damage) {
      PlanFile file = good;
      damage(file.plan.pipelines[0]);
      const Judgement judgement = judged(problem, file);
      CAPTURE(field, fields(judgement));
      CHECK(finds(judgement, "pipelines[0]." + field));
    };
    check_damage("time_s", [](PipelinePlan& p) { p.time = p.time * 1.01; });
    check_damage("bubble", [](PipelinePlan& p) { p.bubble += 0.01; });
    check_damage("stages[1].forward_s", [](PipelinePlan& p) { p.stages[1].forward = p.stages[1].forward * 1.01; });
    check_damage("stages[0].memory_bytes.activations",
                 [](PipelinePlan& p) { p.stages[0].memory.activations += Bytes{1}; });
    check_damage("stages[0].weight_copies", [](PipelinePlan& p) { ++p.stages[0].weight_copies; });
    check_damage("stages[2].drift", [](PipelinePlan& p) { ++p.stages[2].drift; });
    check_damage("stages[0].weight_gradient_s",
                 [](PipelinePlan& p) { p.stages[0].weight_gradient += p.stages[0].backward * 0.01; });
    if (family.name == std::string("1f1b-adaptive")) {
      // The number in flight is a decision there: its consequences are wrong then.
      check_damage("stages[0].memory_bytes.activations", [](PipelinePlan& p) { ++p.stages[0].in_flight; });
    } else {
      check_damage("stages[0].in_flight", [](PipelinePlan& p) { ++p.stages[0].in_flight; });
    }
    if (family.stepping == Stepping::Asynchronous) {
      check_damage("accumulation", [](PipelinePlan& p) { p.accumulation = 8; });
    } else {
      check_damage("accumulation", [](PipelinePlan& p) { p.accumulation = 16; });
    }
    if (!has_chunks(family)) {
      check_damage("stages[0].chunks", [](PipelinePlan& p) {
        p.stages[0].chunks.push_back({p.stages[0].layers, {}, {}, {}, {}});
      });
      continue;
    }
    check_damage("stages[0].chunks[0].forward_s",
                 [](PipelinePlan& p) { p.stages[0].chunks[0].forward = p.stages[0].chunks[0].forward * 1.01; });
    check_damage("stages[0].chunks[0].link_s", [](PipelinePlan& p) { p.stages[0].chunks[0].link = Seconds{1.0}; });
    check_damage("stages[0].chunks[0].layers", [](PipelinePlan& p) { ++p.stages[0].chunks[0].layers.first; });
    check_damage("stages[1].layers", [](PipelinePlan& p) { ++p.stages[1].layers.first; });
  }
}

TEST_CASE("a drift above the job's limit is found", "[judge][schedule]") {
  const Problem problem = four_stage_problem();
  PlanFile file = file_of(problem, "paci");
  CHECK(file.plan.pipelines[0].stages[0].drift == 1);  // ceil(3 / 16)
  file.problem.job.max_drift = 0;
  CHECK(finds(judged(problem, file), "pipelines[0].stages[0].drift"));
}

TEST_CASE("two-way schedules hold the model twice and reduce their gradients with each other", "[predict][schedule]") {
  const Problem problem = four_stage_problem();
  const Plan one_way = file_of(problem, "1f1b").plan;
  const Plan two_way = file_of(problem, "dualpipe").plan;
  const auto parameters = [](const Plan& plan) {
    Bytes bytes;
    for (const StagePlan& stage : plan.pipelines[0].stages) bytes += stage.memory.parameters;
    return bytes;
  };
  CHECK(parameters(two_way) == parameters(one_way) * 2);
  CHECK(one_way.gradient_sync.groups.empty());
  REQUIRE(two_way.gradient_sync.groups.size() == 2);  // devices 0 and 3, 1 and 2
  CHECK(two_way.gradient_sync.groups[0].ranks == std::vector<int>{0, 3});
}

TEST_CASE("activations of chunks add up at the worst moment of the order", "[predict][schedule]") {
  // Interleaved, 4 stages of 2 chunks: device r holds 2(3-r) + 4 + 1 chunk activations, of one block each.
  const Problem problem = four_stage_problem();
  const PipelinePlan pipeline = file_of(problem, "interleaved").plan.pipelines[0];
  const Bytes block = TableTimes{}.block_saved;
  for (std::size_t s = 0; s < 4; ++s) {
    const int held = 2 * (3 - static_cast<int>(s)) + 5;
    CAPTURE(s);
    CHECK(pipeline.stages[s].in_flight == held);
    CHECK(pipeline.stages[s].memory.activations == block * held);
  }
}

TEST_CASE("PipeDream's stashed versions take parameters once each", "[predict][schedule]") {
  // An update every 16 micro-batches, and at most 4 in flight: two versions at once but on the last stage.
  const Problem problem = four_stage_problem();
  const PipelinePlan stashed = file_of(problem, "pipedream").plan.pipelines[0];
  const PipelinePlan plain = file_of(problem, "1f1b").plan.pipelines[0];
  for (std::size_t s = 0; s < 4; ++s) {
    CAPTURE(s);
    CHECK(stashed.stages[s].weight_copies == (s < 3 ? 2 : 1));
    CHECK(stashed.stages[s].memory.parameters == plain.stages[s].memory.parameters * stashed.stages[s].weight_copies);
  }
}

TEST_CASE("an asynchronous pipeline is counted in its steady state: no fill, no drain", "[predict][schedule]") {
  ProblemSpec spec;
  spec.model.blocks = 8;
  spec.job.global_batch = 16;
  spec.job.schedules = {"paci"};
  spec.job.max_drift = 1;
  const Problem problem = problem_of(spec);
  PipelinePlan pipeline = four_stages(problem);
  pipeline.schedule = "paci";
  pipeline.accumulation = 16;
  evaluate_pipeline(problem, pipeline);
  // 16 micro-batches of two blocks each: 16 * 2 * 30 ms, with the ends 4 ns longer each, and links of 2e-13 s
  CHECK(pipeline.time.value() == Approx(16 * 0.060).epsilon(1e-5));
  CHECK(pipeline.bubble == Approx(0.0).margin(1e-5));
  CHECK(steady_samples_per_second(pipeline) == Approx(16 / 0.960).epsilon(1e-5));
}
