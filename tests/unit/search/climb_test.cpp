#include "search/climb.hpp"

#include "search/layer_cut.hpp"
#include "search/simple_plans.hpp"
#include "support/brute_force.hpp"
#include "support/catch.hpp"
#include "support/random_problems.hpp"
#include "support/search_pieces.hpp"

namespace hpplan::testing {

TEST_CASE("a climb never makes a plan slower, nor faster than the optimum", "[search][property]") {
  int faster = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Inputs inputs = random_inputs(seed, {6, 2, 6, 16});
    INFO("seed " << seed << ": " << describe(inputs));
    Pieces pieces(inputs);
    if (pieces.space.ports.empty()) continue;
    const double optimum = brute_force_plan(pieces.problem).time();
    const std::vector<SimplePlan> starts = simple_plans(pieces.tables);
    for (std::size_t i = 0; i < starts.size(); i += 4) {
      const Realised start = realise(pieces.tables, starts[i].pipelines, kInfinity, 64);
      if (start.time == kInfinity) continue;
      const Realised end = climb(pieces.tables, start, 300'000).plan;
      CHECK(end.time <= start.time);
      CHECK(end.time >= optimum * (1.0 - 1e-9));
      faster += end.time < start.time * 0.999 ? 1 : 0;
    }
  }
  CHECK(faster > 20);
}

TEST_CASE("layers are cut so that no cut has a faster slowest stage", "[search][property]") {
  for (std::uint64_t seed = 201; seed <= 260; ++seed) {
    const Inputs inputs = random_inputs(seed, {6, 2, 7, 16});
    INFO("seed " << seed << ": " << describe(inputs));
    Pieces pieces(inputs);
    Dice dice(seed);
    const int b = pieces.problem.job.micro_batches.front();
    const StageTable& stages = pieces.tables.stages(b);
    const int layers = pieces.problem.model.layer_count();
    if (stages.variants().empty() || layers < 2) continue;
    std::vector<int> variants;
    for (int i = 0; i < 2; ++i) variants.push_back(dice.whole(0, static_cast<int>(stages.variants().size()) - 1));
    const auto time = [&](std::size_t s, int first, int last) {
      return stages.time(variants[s], pieces.tables.ranges().of(first, last),
                         std::min(2 - static_cast<int>(s), stages.max_in_flight()));
    };
    double best = kInfinity;
    for (int cut = 1; cut < layers; ++cut) best = std::min(best, std::max(time(0, 0, cut), time(1, cut, layers)));
    const auto found = cut_layers(pieces.tables, b, variants, 100);
    REQUIRE(found.has_value() == (best < kInfinity));
    if (!found) continue;
    const int cut = found->pipeline.stages[0].layers.last;
    CHECK(std::max(time(0, 0, cut), time(1, cut, layers)) <= best * 1.001);
    CHECK(found->slowest == std::max(time(0, 0, cut), time(1, cut, layers)));
  }
}

}  // namespace hpplan::testing
