#include "search/sum_bound.hpp"

#include <algorithm>

#include "simulate/one_f_one_b.hpp"
#include "support/catch.hpp"
#include "support/random_problems.hpp"

namespace hpplan::testing {

namespace {

struct RandomPipeline {
  std::vector<StageTime> stages;
  double sum = 0.0;           // S
  double link = 0.0;          // the longest
  double most_average = 0.0;  // of a window
};

RandomPipeline random_pipeline(Dice& dice) {
  RandomPipeline pipeline;
  const int p = dice.whole(1, 12);
  const double spread = dice.real(1.0, 6.0);
  const double links = dice.chance(0.3) ? 0.0 : dice.real(0.0, 1.0);
  for (int s = 0; s < p; ++s) {
    const double forward = dice.spread(1.0, spread);
    const double backward = forward * dice.real(0.5, 3.0);
    const double link = s + 1 < p ? links * dice.real(0.0, 1.0) : 0.0;
    pipeline.stages.push_back({Seconds{forward}, Seconds{backward}, Seconds{}, Seconds{link}});
    pipeline.link = std::max(pipeline.link, link);
  }
  for (int first = 0; first < p; ++first) {
    double window = 0.0;
    for (int last = first; last < p; ++last) {
      const StageTime& stage = pipeline.stages[static_cast<std::size_t>(last)];
      window += (stage.forward + stage.backward).value();
      pipeline.most_average = std::max(pipeline.most_average, window / (last - first + 1));
      window += 2.0 * stage.link.value();
    }
    if (first == 0) pipeline.sum = window;
  }
  return pipeline;
}

}  // namespace

TEST_CASE("a pipeline within a time has no larger sum of stages than is said", "[search][property]") {
  Dice dice(7);
  double tightest = kInfinity;
  for (int trial = 0; trial < 20'000; ++trial) {
    const RandomPipeline pipeline = random_pipeline(dice);
    const int p = static_cast<int>(pipeline.stages.size());
    const int m = dice.whole(1, 4 * p + 8);
    const double time = one_f_one_b_makespan(pipeline.stages, m).value();
    INFO("trial " << trial << ", p " << p << ", m " << m);
    const double most = most_sum(m, p, time, pipeline.link);
    CHECK(pipeline.sum <= most * (1.0 + 1e-9));
    tightest = std::min(tightest, most / pipeline.sum);
    if (m <= p) continue;
    const double low = pipeline.most_average * (1.0 - 1e-9);
    const double above = most_sum_above(m, p, time, pipeline.link, low);
    CHECK(pipeline.sum <= above * (1.0 + 1e-9));
    CHECK(above <= most);
  }
  CHECK(tightest < 1.0 + 1e-6);  // equal stages without links meet it
}

}  // namespace hpplan::testing
