#include "search/simple_plans.hpp"

#include "search/realise.hpp"
#include "support/catch.hpp"
#include "support/random_problems.hpp"
#include "support/search_pieces.hpp"

namespace hpplan::testing {

namespace {

/// Samples that all pipelines make when each runs one micro-batch: a plan of them needs at least that many.
int samples_at_least(const std::vector<Candidate>& pipelines) {
  int samples = 0;
  for (const Candidate& pipeline : pipelines) samples += pipeline.micro_batch;
  return samples;
}

}  // namespace

TEST_CASE("simple plans cover the layers, fit the batch and are never faster than promised", "[search][property]") {
  int realised_count = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Inputs inputs = random_inputs(seed, {8, 3, 8, 32});
    INFO("seed " << seed << ": " << describe(inputs));
    Pieces pieces(inputs);
    if (pieces.space.ports.empty()) continue;
    double before = 0.0;
    for (const SimplePlan& simple : simple_plans(pieces.tables)) {
      CHECK(simple.time >= before);  // most promising first
      before = simple.time;
      CHECK(samples_at_least(simple.pipelines) <= pieces.problem.job.global_batch);
      for (const Candidate& pipeline : simple.pipelines) {
        int layer = 0;
        for (const CandidateStage& stage : pipeline.stages) {
          CHECK(stage.layers.first == layer);
          CHECK(stage.layers.last > layer);
          layer = stage.layers.last;
        }
        CHECK(layer == pieces.problem.model.layer_count());
      }
      const Realised realised = realise(pieces.tables, simple.pipelines, kInfinity, 64);
      if (realised.time == kInfinity) continue;
      ++realised_count;
      // Pipelines inside one node group share the batch by a rounded estimate: only the equal ones promise a bound.
      const bool equal = simple.pipelines.front() == simple.pipelines.back();
      if (equal) CHECK(realised.time >= simple.time * (1.0 - 1e-9));
    }
  }
  CHECK(realised_count > 200);
}

}  // namespace hpplan::testing
