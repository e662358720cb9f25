#include "search/good_plans.hpp"

#include "support/brute_force.hpp"
#include "support/catch.hpp"
#include "support/search_pieces.hpp"

namespace hpplan::testing {

TEST_CASE("twins in the place of a pipeline are a plan of the wanted number, and no slower", "[search][property]") {
  int cut = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Inputs inputs = random_inputs(seed, {6, 2, 4, 16});
    INFO("seed " << seed << ": " << describe(inputs));
    inputs.job.optimizer_sharding = OptimizerSharding::None;
    Pieces alone(inputs);
    inputs.job.constraints.pipelines = {2, 2};
    Pieces pieces(inputs);
    for (const SimplePlan& simple : simple_plans(alone.tables)) {
      if (simple.pipelines.size() != 1) continue;
      const Realised whole = realise(alone.tables, simple.pipelines, kInfinity, 64);
      if (whole.time == kInfinity) continue;
      Knowledge fewer;
      fewer.starts[1] = whole;
      Knowledge known;
      start_from_twins(pieces.tables, {}, fewer, known);
      if (!twin_of(pieces.tables, simple.pipelines.front())) {
        CHECK(known.twins.empty());
        continue;
      }
      REQUIRE(known.twins.size() == 1);
      CHECK(known.twins.front().pipelines.size() == 2);
      CHECK(known.time <= whole.time * (1.0 + 1e-9));
      CHECK(known.time >= brute_force_plan(pieces.problem).time() * (1.0 - 1e-9));
      ++cut;
    }
  }
  CHECK(cut > 20);
}

}  // namespace hpplan::testing
