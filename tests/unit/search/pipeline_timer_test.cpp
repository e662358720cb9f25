#include "search/pipeline_timer.hpp"

#include <algorithm>

#include "search/candidate.hpp"
#include "search/simple_plans.hpp"
#include "support/catch.hpp"
#include "support/random_problems.hpp"
#include "support/search_pieces.hpp"

namespace hpplan::testing {

namespace {

/// By looking at every number.
int most_by_hand(PipelineTimer& timer, double limit, int most) {
  int within = 0;
  for (int m = 1; m <= most; ++m) within = timer.time(m) <= limit ? m : within;
  return within;
}

}  // namespace

TEST_CASE("what a pipeline finishes within a time is what its simulations say", "[search]") {
  int pipelines = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Inputs inputs = random_inputs(seed, {6, 3, 6, 64});
    Pieces pieces(inputs);
    if (pieces.space.ports.empty()) continue;
    Dice dice(seed);
    for (const SimplePlan& plan : simple_plans(pieces.tables)) {
      const Candidate& pipeline = plan.pipelines.front();
      INFO("seed " << seed << ": " << describe(inputs));
      std::vector<double> links = best_links(pieces.tables, pipeline);
      const double slower = dice.chance(0.5) ? 1.0 : dice.spread(1.0, 1000.0);
      for (double& link : links) link *= slower;
      PipelineTimer timer(pieces.tables, pipeline, links);
      const int whole_batch = pieces.problem.job.global_batch / pipeline.micro_batch;
      const int most = dice.chance(0.5) ? whole_batch : dice.whole(1, std::min(4, whole_batch));
      const double whole = timer.time(most);
      for (const double limit : {dice.real(0.0, 1.2) * whole, whole, timer.time(dice.whole(1, most)), kInfinity}) {
        PipelineTimer fresh(pieces.tables, pipeline, links);
        const int within = most_by_hand(timer, limit, most);
        CHECK(fresh.most_within(limit, most) == within);
        CHECK(fresh.most_within(limit, most) == within);  // as it was remembered
        CHECK(fresh.no_more_within(limit, most) >= within);
        CHECK(fresh.no_more_within(limit, most) <= most);
        const int m = dice.whole(1, most);
        CHECK(fresh.within(m, limit) == (timer.time(m) <= limit));
      }
      ++pipelines;
    }
  }
  CHECK(pipelines > 500);
}

}  // namespace hpplan::testing
