#include "search/work_share.hpp"

#include "search/engine.hpp"
#include "support/catch.hpp"
#include "support/random_problems.hpp"

namespace hpplan::testing {

TEST_CASE("the busiest thread of a loop is the one that ends last when each takes the next part", "[search]") {
  WorkShare two(2);
  two.add(std::vector<std::int64_t>{3, 1, 1, 1});  // 3 beside 1 + 1 + 1
  CHECK(two.busiest() == 3);
  two.add(std::vector<std::int64_t>{1, 1, 4});  // 1 + 4 beside 1
  CHECK(two.busiest() == 8);
  CHECK(two.total() == 12);

  WorkShare before(2);
  before.add(std::vector<std::int64_t>{2, 5});
  two.add(before);
  CHECK(two.busiest() == 13);
  CHECK(two.total() == 19);

  WorkShare one(1);
  one.add(std::vector<std::int64_t>{3, 1, 1, 1});
  CHECK(one.busiest() == one.total());
}

TEST_CASE("more threads share the same work", "[search]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Inputs inputs = random_inputs(seed);
    INFO("seed " << seed << ": " << describe(inputs));
    const Problem problem = inputs.problem();
    SearchOptions options;
    const SearchReport alone = find_plan(problem, options).report;
    options.threads = 3;
    const SearchReport shared = find_plan(problem, options).report;
    CHECK(alone.work == shared.work);
    CHECK(alone.busiest == alone.work);
    CHECK(shared.busiest <= shared.work);
    CHECK(3 * shared.busiest >= shared.work);
  }
}

}  // namespace hpplan::testing
