#include "io/quantity.hpp"

#include "support/catch.hpp"

using namespace hpplan;

namespace {

template <typename Quantity>
Quantity value_of(const char* text) {
  return std::get<Quantity>(parse_quantity<Quantity>(text));
}

template <typename Quantity>
QuantityFault fault_of(const char* text) {
  return std::get<QuantityFault>(parse_quantity<Quantity>(text));
}

}  // namespace

TEST_CASE("sizes are whole bytes, GB is 10^9 and GiB is 2^30", "[io][quantity]") {
  CHECK(value_of<Bytes>("64 GB") == Bytes{64'000'000'000LL});
  CHECK(value_of<Bytes>("60 GiB") == Bytes{60LL << 30});
  CHECK(value_of<Bytes>("64GB") == Bytes{64'000'000'000LL});
  CHECK(value_of<Bytes>("1.5 kB") == Bytes{1500});
  CHECK(value_of<Bytes>("  7 B ") == Bytes{7});
}

TEST_CASE("100 Gbps is 12.5 GB/s, however it is spelled", "[io][quantity]") {
  for (const char* const text : {"100 Gbps", "100 Gb/s", "12.5 GB/s", "12.5 GBps", "0.0125 TB/s", "100e3 Mbps"}) {
    CAPTURE(text);
    CHECK(value_of<BytesPerSecond>(text).value() == Approx(12.5e9));
  }
}

TEST_CASE("a unit written with the micro sign is answered with the one that is meant", "[io][quantity]") {
  for (const char* const text : {"3 \u00b5s", "3 \u03bcs"})
    CHECK(fault_of<Seconds>(text).hint == "use us (10^-6 seconds)");
}

TEST_CASE("compute rates and times", "[io][quantity]") {
  CHECK(value_of<FlopPerSecond>("376 TFLOPS").value() == Approx(376e12));
  CHECK(value_of<Flop>("3 TFLOP").value() == Approx(3e12));
  // Exactly: a number written in a file is the double that C++ reads.
  CHECK(value_of<Seconds>("5 us").value() == 5e-6);
  CHECK(value_of<Seconds>("3 ns").value() == 3e-9);
  CHECK(value_of<Seconds>("0.3 ms").value() == 0.3e-3);
  CHECK(value_of<Seconds>("0 s").value() == 0.0);
}

TEST_CASE("A17: a ring all-reduce of 2e9 bytes over 4 nodes takes 0.240 s at 100 Gb/s and 0.030 s at 100 GB/s",
          "[io][quantity]") {
  // A17: 2 (n-1)/n of the payload crosses the link: 2 * 3/4 * 2e9 B = 3e9 B; / 12.5e9 B/s = 0.240 s.
  const Bytes crossing{3'000'000'000LL};
  CHECK((crossing / value_of<BytesPerSecond>("100 Gb/s")).value() == Approx(0.240));
  CHECK((crossing / value_of<BytesPerSecond>("12.5 GB/s")).value() == Approx(0.240));
  CHECK((crossing / value_of<BytesPerSecond>("100 GB/s")).value() == Approx(0.030));
}

TEST_CASE("a bare number is refused, with the units that are known", "[io][quantity]") {
  CHECK(fault_of<Bytes>("64").message == "the number 64 has no unit");
  CHECK(fault_of<Bytes>("64").hint == "known units: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB");
}

TEST_CASE("an unknown unit is answered with those that may be meant", "[io][quantity]") {
  const QuantityFault fault = fault_of<BytesPerSecond>("25 Gb");
  CHECK(fault.message == "unknown unit \"Gb\" in \"25 Gb\"");
  CHECK(fault.hint ==
        "use GB/s (10^9 bytes per second) or GBps (10^9 bytes per second) or Gbps (10^9 bits per second) or "
        "Gb/s (10^9 bits per second)");
  CHECK(fault_of<Bytes>("64 gb").hint == "use GB (10^9 bytes)");
  CHECK(fault_of<FlopPerSecond>("3 TFLOP").hint == "use TFLOPS (10^12 operations per second)");
  CHECK(fault_of<Seconds>("3 hours").hint == "known units: s, ms, us, ns");
}

TEST_CASE("what is no quantity is refused", "[io][quantity]") {
  for (const char* const text : {"", " ", "GB", "-1 GB", "nan GB", "inf GB", "1e999 GB", "1e30 GB", "0x10 GB", "1,5 GB",
                                 "1 GB 2", "+1 GB", ".5 GB", "1 \xC2\xA0GB"}) {
    CAPTURE(text);
    CHECK(std::holds_alternative<QuantityFault>(parse_quantity<Bytes>(text)));
  }
  CHECK(std::holds_alternative<QuantityFault>(parse_quantity<Seconds>("1e-400 s")));
}
