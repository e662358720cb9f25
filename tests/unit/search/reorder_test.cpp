#include "search/reorder.hpp"

#include <algorithm>

#include "support/catch.hpp"
#include "support/search_pieces.hpp"

namespace hpplan::testing {

namespace {

std::vector<std::vector<int>> sorted_ports(const std::vector<Candidate>& pipelines) {
  std::vector<std::vector<int>> all;
  for (const Candidate& pipeline : pipelines) {
    std::vector<int>& ports = all.emplace_back();
    for (const CandidateStage& stage : pipeline.stages) ports.push_back(stage.port);
    std::sort(ports.begin(), ports.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

TEST_CASE("other orders are plans of the same stages within the limit, the fastest first", "[search][property]") {
  int found = 0;
  for_each_simple_start(16, [&](Pieces& pieces, double optimum, const Realised& start) {
    const double limit = 1.2 * start.time;
    const Orders orders = other_orders(pieces.tables, start, limit, 4, 10'000'000);
    CHECK(orders.plans.size() <= 4);
    CHECK(static_cast<std::size_t>(orders.tries) >= orders.plans.size());
    double before = 0.0;
    for (const Realised& plan : orders.plans) {
      CHECK(plan.time >= std::max(before, optimum * (1.0 - 1e-9)));
      CHECK(plan.time <= limit);
      CHECK(plan.pipelines != start.pipelines);
      CHECK(sorted_ports(plan.pipelines) == sorted_ports(start.pipelines));
      CHECK(realise(pieces.tables, plan.pipelines, kInfinity, 1, plan.placement).time == plan.time);
      before = plan.time;
    }
    found += static_cast<int>(orders.plans.size());
  });
  CHECK(found > 40);
}

}  // namespace hpplan::testing
