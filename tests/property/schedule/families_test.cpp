#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/diagnostic.hpp"
#include "schedule/table.hpp"
#include "simulate/one_f_one_b.hpp"
#include "simulate/pipeline_simulation.hpp"
#include "support/catch.hpp"
#include "support/schedules.hpp"

using namespace hpplan;
using namespace hpplan::testing;

namespace {

using Random = std::mt19937_64;

double uniform(Random& random) { return static_cast<double>(random() >> 11) * 0x1.0p-53; }

ScheduleRequest random_request(Random& random, int stages, int micro_batches) {
  ScheduleRequest request = equal_stages(stages, micro_batches, 1, 1);
  const bool links = random() % 2 == 0;
  for (StageTime& time : request.times) {
    time.forward = Seconds{0.3 + 1.7 * uniform(random)};
    time.backward = time.forward * (0.5 + uniform(random));
    time.weight_gradient = time.forward * (0.2 + uniform(random));
    if (links) time.link = Seconds{uniform(random)};
  }
  return request;
}

/// Whether the family accepts these counts.
bool accepts(const ScheduleFamily& family, const ScheduleRequest& request) {
  try {
    return !family.make(request).programs.empty();
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

TEST_CASE("every family: each accepted shape is complete, runs, and costs at least its work", "[schedule][property]") {
  Random random(11);
  for (const ScheduleFamily& family : schedule_families()) {
    if (family.name == std::string("octopipe")) continue;  // has its own tests: it searches
    int accepted = 0;
    for (int stages = 1; stages <= 8; ++stages) {
      for (int micro_batches = 1; micro_batches <= 24; ++micro_batches) {
        const ScheduleRequest request = random_request(random, stages, micro_batches);
        if (!accepts(family, request)) continue;
        ++accepted;
        CAPTURE(family.name, stages, micro_batches);
        const Schedule schedule = family.make(request);
        REQUIRE(fault_of(schedule) == "");
        const Simulation result = simulate(schedule);
        const Seconds busiest = *std::max_element(result.busy.begin(), result.busy.end());
        REQUIRE(result.span >= busiest * (1 - 1e-12));
        REQUIRE(result.makespan >= result.span * (1 - 1e-12));
        REQUIRE(simulate(schedule, LinkSemantics::Blocking).makespan >= result.makespan * (1 - 1e-12));
      }
    }
    CAPTURE(family.name);
    CHECK(accepted >= 8);
  }
}

TEST_CASE("every family: doubling all times doubles the step", "[schedule][property]") {
  Random random(12);
  for (const ScheduleFamily& family : schedule_families()) {
    if (family.name == std::string("octopipe")) continue;
    ScheduleRequest request = random_request(random, 4, 16);
    const Seconds once = simulate(family.make(request)).makespan;
    for (StageTime& time : request.times) {
      time = {time.forward * 2, time.backward * 2, time.weight_gradient * 2, time.link * 2};
    }
    CAPTURE(family.name);
    CHECK(simulate(family.make(request)).makespan == once * 2);
  }
}

TEST_CASE("closed forms on equal stages equal the simulation", "[schedule][property]") {
  const double f = 2, b = 3, w = 1;
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 24; ++m) {
      CAPTURE(p, m);
      REQUIRE(run("gpipe", equal_stages(p, m, f, b)).makespan == Seconds{(m + p - 1) * (f + b)});
      const Simulation one_f_one_b = run("1f1b", equal_stages(p, m, f, b));
      REQUIRE(one_f_one_b.makespan == Seconds{(m + p - 1) * (f + b)});
      for (int s = 0; s < p; ++s)
        REQUIRE(one_f_one_b.peak_in_flight[static_cast<std::size_t>(s)] == std::min(m, p - s));
      if (m >= p) REQUIRE(run("zb-h1", equal_stages(p, m, f, b, w)).makespan == Seconds{m * 6 + (p - 1) * (f + b - w)});
      if (m >= 2 * p - 1) {
        REQUIRE(run("zb-h2", equal_stages(p, m, f, b, w)).span == Seconds{m * 6 + (p - 1) * (f + b - 2 * w)});
      }
      if (m % p == 0) {
        for (const int v : {1, 2, 4}) {
          const Simulation result = run("interleaved", with_chunks(equal_stages(p, m, f, b), v));
          REQUIRE(result.makespan == Seconds{m * (f + b) + (p - 1) * (f + b) / v});
          const int peak = std::min(m * v, 2 * (p - 1) + (v - 1) * p + 1);
          if (m > p) REQUIRE(result.peak_in_flight.front() == peak);
        }
        if (p % 2 == 0) {
          REQUIRE(run("chimera", equal_stages(p, m, 1, 1)).makespan == Seconds{2.0 * m + p - 2});
        }
      }
      if (p % 2 == 0 && m % 2 == 0 && m >= 2 * p) {
        REQUIRE(run("dualpipe", equal_stages(p, m, 1, 1, 1)).makespan == Seconds{3.0 * m + (p / 2 - 1) * 2.0});
      }
    }
  }
}

TEST_CASE("unlike stages: GPipe equals its formula, and the bounds hold for every one-way family",
          "[schedule][property]") {
  Random random(13);
  for (int trial = 0; trial < 3000; ++trial) {
    const int p = 1 + static_cast<int>(random() % 8);
    const int m = 1 + static_cast<int>(random() % 32);
    const ScheduleRequest request = random_request(random, p, m);
    CAPTURE(trial, p, m);
    REQUIRE(run("gpipe", request).makespan.value() == Approx(gpipe_makespan(request.times, m).value()));
    REQUIRE(run("1f1b", request).makespan == one_f_one_b_makespan(request.times, m));
    const Seconds whole = unsplit_lower_bound(request.times, m);
    for (const char* family : {"gpipe", "1f1b", "paci", "pipedream"}) REQUIRE(run(family, request).makespan >= whole);
    const Seconds split = split_lower_bound(request.times, m);
    if (m >= p) REQUIRE(run("zb-h1", request).makespan >= split);
    if (m >= 2 * p - 1) REQUIRE(run("zb-h2", request).makespan >= split);
  }
}

TEST_CASE("PACI: drift and peak bounds hold for unlike stages", "[schedule][property]") {
  Random random(14);
  for (int trial = 0; trial < 300; ++trial) {
    const int p = 2 + static_cast<int>(random() % 7);
    ScheduleRequest request = random_request(random, p, 60);
    request.accumulation = 1 + static_cast<int>(random() % 5);
    const Schedule schedule = make_schedule_of("paci", request);
    const std::vector<int> peaks = simulate(schedule).peak_in_flight;
    const std::vector<VersionReport> reports = version_reports(schedule);
    CAPTURE(trial, p, request.accumulation);
    for (int s = 0; s < p; ++s) {
      const int behind = p - 1 - s;
      REQUIRE(peaks[static_cast<std::size_t>(s)] <= behind + 1);
      REQUIRE(reports[static_cast<std::size_t>(s)].drift <= (behind + request.accumulation - 1) / request.accumulation);
    }
  }
}

TEST_CASE("a long step follows from its steady state", "[schedule][property]") {
  for (const char* family : {"1f1b", "zb-h1", "zb-h2", "zb-v", "interleaved", "dualpipe", "chimera", "paci", "amdp"}) {
    // Sixteenths are exact in binary: any difference would be one of the steady state, not of rounding.
    ScheduleRequest request = equal_stages(4, 8000, 1.0, 1.125, 0.5, 0.0625);
    request.times[2].forward = Seconds{1.25};
    const PipelineSimulation quick = simulate_pipeline(family, request);
    const PipelineSimulation whole = simulate_pipeline_fully(family, request);
    CAPTURE(family);
    CHECK(quick.extrapolated);
    CHECK(quick.makespan == whole.makespan);
    CHECK(quick.span == whole.span);
    CHECK(quick.busy == whole.busy);
    CHECK(quick.last_end == whole.last_end);
    CHECK(quick.peak_in_flight == whole.peak_in_flight);
  }
}

TEST_CASE("a step of 100,000 micro-batches is answered from its steady state", "[schedule][property]") {
  const PipelineSimulation result = simulate_pipeline("1f1b", equal_stages(8, 100000, 1, 2));
  CHECK(result.extrapolated);
  CHECK(result.makespan == Seconds{100007.0 * 3});
}
