#include "base/units.hpp"

#include "support/catch.hpp"

using namespace hpplan;
using namespace hpplan::literals;

TEST_CASE("a transfer of 25 GiB at 25 GB/s takes 1.07 s", "[units]") {
  // 25 * 2^30 B / 25e9 B/s = 1.073741824 s
  CHECK((25_GiB / 25_GBps).value() == Approx(1.073741824));
}

TEST_CASE("100 Gbps are 12.5 GB/s", "[units]") { CHECK((100_Gbps).value() == Approx(12.5e9)); }

TEST_CASE("4 * 10^14 operations at 200 TFLOPS take 2 s", "[units]") {
  CHECK((Flop{4e14} / 200_TFLOPS).value() == Approx(2.0));
}

TEST_CASE("a budget minus a larger use is negative", "[units]") { CHECK((1_GiB - 2_GiB).count() == -(1LL << 30)); }
