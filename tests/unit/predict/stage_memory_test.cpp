#include "predict/stage.hpp"
#include "support/builders.hpp"
#include "support/catch.hpp"

using namespace hpplan;
using namespace hpplan::literals;
using namespace hpplan::testing;

namespace {

StageMemory memory_of(const Problem& problem, LayerRange layers, int in_flight = 1, int tp = 1, int dp = 1) {
  return stage_base(problem, {0, tp, dp, dp, layers, in_flight}).memory;
}

/// No activations to speak of: hidden 2 and one position keep boundary buffers at bytes.
Problem states_only(double block_parameters, int blocks) {
  ProblemSpec spec;
  spec.groups[0].memory = 200_GiB;
  spec.model = {blocks, block_parameters, 2, 1, 2, false, 0};
  spec.times[0].block_saved = 0_B;
  return problem_of(spec);
}

}  // namespace

TEST_CASE("A30: states of 7e9 parameters take 18 bytes each, itemised", "[memory]") {
  // bf16 weights 2, fp32 gradients 4, master weights and moments 12: 14e9 + 28e9 + 84e9 = 126e9 B = 117.3 GiB
  const StageMemory memory = memory_of(states_only(7e9, 1), {1, 2});
  CHECK(memory.parameters.count() == 14'000'000'000);
  CHECK(memory.gradients.count() == 28'000'000'000);
  CHECK(memory.optimizer.count() == 84'000'000'000);
  CHECK(memory.activations == 0_B);
  CHECK(memory.other == 0_B);
}

TEST_CASE("A30: sharding divides the optimizer states over the replicas and nothing else", "[memory]") {
  // 8 replicas: 2 + 4 + 12 / 8 = 7.5 B per parameter; 7e9 of them are 52.5e9 B = 48.9 GiB
  ProblemSpec spec;
  spec.groups[0].devices_per_node = 8;
  spec.model = {1, 7e9, 2, 1, 2, false, 0};
  spec.times[0].block_saved = 0_B;
  spec.job.optimizer_sharding = OptimizerSharding::StageDataParallel;
  const StageMemory memory = memory_of(problem_of(spec), {1, 2}, 1, 1, 8);
  CHECK((memory.parameters + memory.gradients + memory.optimizer).count() == 52'500'000'000);
  CHECK(memory.optimizer.count() == 10'500'000'000);
}

TEST_CASE("tensor parallelism divides every state", "[memory]") {
  const StageMemory memory = memory_of(states_only(8e9, 1), {1, 2}, 1, 4);
  // 8e9 / 4 = 2e9 parameters on a device
  CHECK(memory.parameters.count() == 4'000'000'000);
  CHECK(memory.optimizer.count() == 24'000'000'000);
}

TEST_CASE("A06: a tied embedding is held by both ends, and once by a single stage", "[memory]") {
  // h 2048, V 131072: 268435456 parameters; 12 blocks of 50331648; 16 B per parameter.
  ProblemSpec spec;
  spec.groups[0].memory = 200_GiB;
  spec.model = {12, 50331648.0, 2048, 1, 131072, GENERATE(false, true), 0};
  ModelSpec model = model_of(spec.model);
  model.state = {2, 2, 12};
  const Problem made = problem_of(spec);
  const Problem problem = make_problem(model, made.cluster, made.profiles, spec.job);
  const auto states = [&](LayerRange layers) {
    const StageMemory memory = memory_of(problem, layers);
    return (memory.parameters + memory.gradients + memory.optimizer).value() / (1LL << 30);
  };
  // The head's final norm adds 2048 parameters, 16 * 2048 B = 32 KiB; Approx leaves room for that.
  // Ends: (3 * 50331648 + 268435456) * 16 B = 6.25 GiB; middle 2.25 GiB; tied or not.
  CHECK(states({0, 4}) == Approx(6.25));
  CHECK(states({4, 7}) == Approx(2.25));
  CHECK(states({10, 14}) == Approx(6.25).epsilon(1e-4));
  // One stage: 12 * 50331648 + 268435456 = 872415232 parameters tied, 1140850688 untied.
  CHECK(states({0, 14}) == Approx(spec.model.tied ? 13.0 : 17.0).epsilon(1e-4));
}

TEST_CASE("A12: the vocabulary is padded to the tensor-parallel degree", "[memory]") {
  ModelSpec model = model_of({1, 1.0, 2, 1, 49954, false, 0});
  const auto [vocabulary, multiple, degree, padded] = GENERATE(table<int, int, int, int>({{49954, 1, 16, 49968},
                                                                                          {151552, 1, 6, 151554},
                                                                                          {50257, 1, 8, 50264},
                                                                                          {32000, 1, 8, 32000},
                                                                                          {49954, 128, 16, 51200},
                                                                                          {151552, 128, 6, 152064},
                                                                                          {50257, 128, 8, 51200},
                                                                                          {32000, 128, 8, 32768}}));
  model.vocabulary = vocabulary;
  model.vocabulary_multiple = multiple;
  CHECK(padded_vocabulary(model, degree) == padded);
}

TEST_CASE("A07: a stage holds the activations of every micro-batch in flight", "[memory]") {
  // Two blocks that keep 1 GiB each: 2 GiB a micro-batch. The first of four 1F1B stages holds 4, the last 1.
  ProblemSpec spec;
  spec.model.blocks = 8;
  spec.times[0].block_saved = 1_GiB;
  const Problem problem = problem_of(spec);
  for (int s = 0; s < 4; ++s) {
    CAPTURE(s);
    CHECK(memory_of(problem, {1 + 2 * s, 3 + 2 * s}, 4 - s).activations == 2_GiB * (4 - s));
  }
}

TEST_CASE("A27: a budget that just fits is accepted, and one byte less is refused by that byte", "[memory]") {
  ProblemSpec spec;
  spec.job.constraints.allow_recompute = false;
  const StageQuery query{0, 1, 1, 1, {0, 6}, 4};
  const Bytes needed = stage_base(problem_of(spec), query).memory.total();
  spec.groups[0].memory = needed;
  CHECK(std::holds_alternative<StageEstimate>(predict_stage(problem_of(spec), query)));
  spec.groups[0].memory = needed - 1_B;
  const auto verdict = predict_stage(problem_of(spec), query);
  REQUIRE(std::holds_alternative<Rejection>(verdict));
  const Rejection& miss = std::get<Rejection>(verdict);
  CHECK(miss.reason == RejectReason::DeviceMemory);
  CHECK(miss.needed - miss.available == 1_B);
}

TEST_CASE("the memory margin is kept free", "[memory]") {
  ProblemSpec spec;
  spec.job.constraints.allow_recompute = false;
  const StageQuery query{0, 1, 1, 1, {0, 6}, 1};
  spec.job.memory_margin = 1_GiB;
  spec.groups[0].memory = stage_base(problem_of(spec), query).memory.total() + 1_GiB;
  CHECK(std::holds_alternative<StageEstimate>(predict_stage(problem_of(spec), query)));
  spec.job.memory_margin = 1_GiB + 1_B;
  CHECK(std::holds_alternative<Rejection>(predict_stage(problem_of(spec), query)));
}

TEST_CASE("a stage that does not fit recomputes as little as is needed", "[memory]") {
  // Recomputing a block frees what it keeps less its input; one block is enough for one byte too many.
  ProblemSpec spec;
  spec.model.blocks = 4;
  spec.times[0].block_saved = 1_GiB;
  const StageQuery query{0, 1, 1, 1, {0, 6}, 4};
  const StageBase base = stage_base(problem_of(spec), query);
  spec.groups[0].memory = base.memory.total() - 1_B;
  const auto verdict = predict_stage(problem_of(spec), query);
  REQUIRE(std::holds_alternative<StageEstimate>(verdict));
  const StageEstimate& estimate = std::get<StageEstimate>(verdict);
  REQUIRE(estimate.recompute.size() == 1);
  CHECK(estimate.recompute[0].layers == 1);
  // Full recomputation of one block runs its forward once more: 10 ms.
  CHECK((estimate.backward - base.backward).value() == Approx(0.010));
  CHECK(estimate.memory.total() <= spec.groups[0].memory);
}

TEST_CASE("micro-batch and replicas decide the samples of a stage", "[stage]") {
  // Block 10 ms a sample: micro-batch 8 on 2 replicas gives 4 samples, 40 ms; TP 2 halves it.
  const Problem problem = problem_of({});
  CHECK(stage_base(problem, {0, 1, 2, 8, {1, 2}, 1}).forward.value() == Approx(0.040));
  CHECK(stage_base(problem, {0, 2, 2, 8, {1, 2}, 1}).forward.value() == Approx(0.020));
  CHECK(stage_base(problem, {0, 1, 2, 8, {1, 2}, 1}).backward.value() == Approx(0.080));
}

TEST_CASE("an optimizer step without a measurement moves its bytes over memory bandwidth", "[optimizer]") {
  // 1e9 parameters * (2 + 4 + 2 * 12) B = 30e9 B over 1000 GB/s = 30 ms; sharded over 4 replicas 7.5 ms
  ProblemSpec spec;
  CHECK(optimizer_time(problem_of(spec), 0, 1, 4, 1e9).value() == Approx(0.030));
  spec.job.optimizer_sharding = OptimizerSharding::StageDataParallel;
  CHECK(optimizer_time(problem_of(spec), 0, 1, 4, 1e9).value() == Approx(0.0075));
}

TEST_CASE("recomputed layers survive the way into a plan and back", "[recompute]") {
  const Problem problem = mixed_problem();
  const StageQuery query{0, 1, 1, 1, {0, 8}, 1};
  const auto choices = problem.costs.at(0, 1, 1, 1).recompute.size();
  REQUIRE(choices >= 3);
  const std::vector<RecomputeCount> counts{{1, 2, 3}, {1, 1, 2}};
  const std::vector<RecomputeRange> ranges = recompute_ranges(problem, query, counts);
  REQUIRE(ranges.size() == 2);
  CHECK(ranges[0].layers == LayerRange{1, 4});
  CHECK(ranges[1].layers == LayerRange{4, 6});
  CHECK(recompute_counts(problem, query, ranges) == counts);
}
