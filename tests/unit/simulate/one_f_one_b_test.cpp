#include "simulate/one_f_one_b.hpp"

#include <vector>

#include "support/catch.hpp"

using namespace hpplan;

namespace {

std::vector<StageTime> equal_stages(int count, double forward, double backward, double link = 0.0) {
  return {static_cast<std::size_t>(count), {Seconds{forward}, Seconds{backward}, Seconds{}, Seconds{link}}};
}

}  // namespace

TEST_CASE("1F1B over four equal stages and eight micro-batches takes (8+4-1)*3", "[1f1b]") {
  CHECK(one_f_one_b_makespan(equal_stages(4, 1.0, 2.0), 8) == Seconds{33.0});
}

TEST_CASE("1F1B: one stage has no bubble", "[1f1b]") {
  CHECK(one_f_one_b_makespan(equal_stages(1, 1.0, 2.0), 5) == Seconds{15.0});
}

TEST_CASE("1F1B: a link delays the receiver only", "[1f1b]") {
  // stage 1: F0 1.5..2.5, B0 ..4.5, F1 ..5.5, B1 ..7.5; stage 0: B0 5..7, B1 from 8 (7.5 + link) to 10
  CHECK(one_f_one_b_makespan(equal_stages(2, 1.0, 2.0, 0.5), 2) == Seconds{10.0});
}

TEST_CASE("1F1B: the link of the last stage leads nowhere", "[1f1b]") {
  std::vector<StageTime> stages = equal_stages(2, 1.0, 2.0);
  stages.back().link = Seconds{100.0};
  CHECK(one_f_one_b_makespan(stages, 3) == Seconds{12.0});
}

TEST_CASE("1F1B: a given weight gradient belongs to the whole backward", "[1f1b]") {
  std::vector<StageTime> stages = equal_stages(4, 1.0, 1.0);
  for (StageTime& stage : stages) stage.weight_gradient = Seconds{1.0};
  CHECK(one_f_one_b_makespan(stages, 8) == Seconds{33.0});
}

TEST_CASE("1F1B: more stages than fit the stack buffer", "[1f1b]") {
  CHECK(one_f_one_b_makespan(equal_stages(100, 1.0, 2.0), 7) == Seconds{(7 + 99) * 3.0});
}

TEST_CASE("1F1B: the lower bound is exact on equal stages", "[1f1b]") {
  const int stages = GENERATE(range(1, 9));
  const int micro_batches = GENERATE(range(1, 17));
  CAPTURE(stages, micro_batches);
  const double exact = (micro_batches + stages - 1) * 3.0;
  CHECK(one_f_one_b_makespan(equal_stages(stages, 1.0, 2.0), micro_batches) == Seconds{exact});
  CHECK(one_f_one_b_lower_bound(equal_stages(stages, 1.0, 2.0), micro_batches).value() == Approx(exact));
}

TEST_CASE("1F1B: links cost c (2(P-1)m/P + 2P-4) when P divides m", "[1f1b]") {
  const int stages = GENERATE(2, 4, 8, 16, 32);
  const int multiple = GENERATE(1, 2, 5);
  CAPTURE(stages, multiple);
  const double link = 1.0 / 64;
  const int m = multiple * stages;
  const double expected = (m + stages - 1) * 3.0 + link * (2.0 * (stages - 1) * multiple + 2.0 * stages - 4.0);
  CHECK(one_f_one_b_makespan(equal_stages(stages, 1.0, 2.0, link), m) == Seconds{expected});
}

TEST_CASE("GPipe takes the sum plus (m-1) times the slowest forward and backward", "[gpipe]") {
  // F 1,3,2 and B 4,2,5: 17 + 2 links of 0.5 both ways = 19; + 4 * (3 + 5)
  const std::vector<StageTime> stages = {{Seconds{1.0}, Seconds{4.0}, Seconds{}, Seconds{0.5}},
                                         {Seconds{3.0}, Seconds{2.0}, Seconds{}, Seconds{0.5}},
                                         {Seconds{2.0}, Seconds{5.0}, Seconds{}, Seconds{}}};
  CHECK(gpipe_makespan(stages, 5) == Seconds{51.0});
}
