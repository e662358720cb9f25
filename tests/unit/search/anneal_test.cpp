#include "search/anneal.hpp"

#include "search/simple_plans.hpp"
#include "support/brute_force.hpp"
#include "support/builders.hpp"
#include "support/catch.hpp"
#include "support/random_problems.hpp"
#include "support/search_pieces.hpp"

namespace hpplan::testing {

TEST_CASE("a random walk keeps the limits, is the same each time, and is between its start and the optimum",
          "[search][property]") {
  int faster = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const Inputs inputs = random_inputs(seed, {6, 2, 6, 16});
    INFO("seed " << seed << ": " << describe(inputs));
    Pieces pieces(inputs);
    if (pieces.space.ports.empty()) continue;
    const double optimum = brute_force_plan(pieces.problem).time();
    Realised start;
    for (const SimplePlan& simple : simple_plans(pieces.tables)) {  // the worst: there is room for better
      Realised other = realise(pieces.tables, simple.pipelines, kInfinity, 64);
      if (other.time < kInfinity && (start.time == kInfinity || other.time > start.time)) start = std::move(other);
    }
    if (start.time == kInfinity) continue;
    const AnnealMoves moves = seed % 2 == 0 ? AnnealMoves::All : AnnealMoves::KeepCount;
    const Improved walked = anneal(pieces.tables, start, 300'000, moves);
    CHECK(walked.plan.time <= start.time);
    CHECK(walked.plan.time >= optimum * (1.0 - 1e-9));
    CHECK(walked.plan.pipelines == anneal(pieces.tables, start, 300'000, moves).plan.pipelines);
    CHECK(pieces.problem.job.constraints.pipelines.allows(static_cast<int>(walked.plan.pipelines.size())));
    if (moves == AnnealMoves::KeepCount) CHECK(walked.plan.pipelines.size() == start.pipelines.size());
    faster += walked.plan.time < start.time * 0.999 ? 1 : 0;
  }
  CHECK(faster > 10);
}

TEST_CASE("where neighbours need not share a node, stages of the same layers do", "[search]") {
  // Two nodes of two devices; two equal pipelines of two stages of one device. Together on a node, the first stages
  // reduce their gradients there; each pipeline on a node of its own would reduce them between nodes.
  ProblemSpec spec;
  spec.groups = {{.nodes = 2, .devices_per_node = 2}};
  const Problem problem = problem_of(spec);
  const Space space = make_space(problem);
  const int port = space.find({0, 1});
  REQUIRE(port >= 0);
  const int layers = problem.model.layer_count();
  const Candidate pipeline{1, {{port, {1, 1}, {0, layers / 2}}, {port, {1, 1}, {layers / 2, layers}}}};
  const auto placement = aligned_placement(problem, space, {pipeline, pipeline});
  REQUIRE(placement);
  for (std::size_t stage = 0; stage < 2; ++stage) CHECK((*placement)[0][stage] == (*placement)[1][stage]);
  CHECK((*placement)[0][0] != (*placement)[0][1]);
  CHECK_FALSE(aligned_placement(problem, space, {pipeline}));  // one pipeline has nothing to share
}

}  // namespace hpplan::testing
