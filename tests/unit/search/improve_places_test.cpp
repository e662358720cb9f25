#include "search/improve_places.hpp"

#include <algorithm>

#include "support/builders.hpp"
#include "support/catch.hpp"
#include "support/search_pieces.hpp"

namespace hpplan::testing {

TEST_CASE("other places for the stages of a plan never make it slower, nor faster than the optimum",
          "[search][property]") {
  int faster = 0;
  for_each_simple_start(1, [&](Pieces& pieces, double optimum, const Realised& start) {
    const Realised placed = improve_places(pieces.tables, start, 300'000).plan;
    CHECK(placed.time <= start.time);
    CHECK(placed.time >= optimum * (1.0 - 1e-9));
    CHECK(realise(pieces.tables, placed.pipelines, kInfinity, 1, placed.placement).time == placed.time);
    faster += placed.time < start.time * 0.999 ? 1 : 0;
  });
  CHECK(faster > 3);
}

TEST_CASE("two pipelines exchange stages between nodes until they lie best", "[search]") {
  // Two nodes of two devices: each pipeline on a node of its own, or each half of the model.
  ProblemSpec spec;
  spec.groups = {{.nodes = 2, .devices_per_node = 2}};
  const Problem problem = problem_of(spec);
  const Space space = make_space(problem);
  StageRows rows(problem, space.max_stages, 1);
  SearchTables tables(rows, space);
  const int port = space.find({0, 1});
  REQUIRE(port >= 0);
  const int layers = problem.model.layer_count();
  const Candidate pipeline{1, {{port, {1, 1}, {0, layers / 2}}, {port, {1, 1}, {layers / 2, layers}}}};
  const Realised apart = realise(tables, {pipeline, pipeline}, kInfinity, 1, {{{0}, {1}}, {{0}, {1}}});
  const Realised together = realise(tables, {pipeline, pipeline}, kInfinity, 1, {{{0}, {0}}, {{1}, {1}}});
  REQUIRE(apart.time < kInfinity);
  REQUIRE(together.time < kInfinity);
  CHECK(apart.time != together.time);
  const double best = std::min(apart.time, together.time);
  CHECK(improve_places(tables, apart, 3'000'000).plan.time == best);
  CHECK(improve_places(tables, together, 3'000'000).plan.time == best);
}

}  // namespace hpplan::testing
