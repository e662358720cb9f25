#include "simulate/simulate.hpp"

#include <vector>

#include "base/diagnostic.hpp"
#include "simulate/pipeline_simulation.hpp"
#include "support/catch.hpp"
#include "support/schedules.hpp"

using namespace hpplan;
using namespace hpplan::testing;

TEST_CASE("lists that wait for each other are reported with what holds them up, not looped over", "[simulate]") {
  Schedule schedule = make_schedule_of("1f1b", equal_stages(2, 2, 1, 2));
  std::swap(schedule.programs[1][0], schedule.programs[1][2]);  // stage 1 now wants F1 before F0...
  std::swap(schedule.programs[0][0], schedule.programs[0][2]);  // ...and stage 0 B0 before F0
  try {
    const Simulation simulation = simulate(schedule);
    FAIL("no deadlock found, makespan " << simulation.makespan.value());
  } catch (const InputError& error) {
    CHECK(error.diagnostics().front().message == "deadlock: device 0 waits at B0@0 for F0@0");
  }
}

TEST_CASE("a cycle inside one device of two names that device", "[simulate]") {
  Schedule schedule = make_schedule_of("1f1b", equal_stages(2, 1, 1, 2));
  schedule.programs[1] = {{OpKind::Backward, false, 0, 1}, {OpKind::Forward, false, 0, 1}};
  CHECK_THROWS_WITH(simulate(schedule), Contains("device 1 waits at B0@1 for F0@1"));
}

TEST_CASE("a cycle over two devices names both, and what each waits for", "[simulate]") {
  // Each list alone is in order. Stage 0 wants B0 before F1, stage 1 F1 before the B0 that stage 0 waits for.
  Schedule schedule = make_schedule_of("1f1b", equal_stages(2, 2, 1, 2));
  const auto op = [](OpKind kind, int micro_batch, int stage) { return Op{kind, false, micro_batch, stage}; };
  schedule.programs[0] = {op(OpKind::Forward, 0, 0), op(OpKind::Backward, 0, 0), op(OpKind::Forward, 1, 0),
                          op(OpKind::Backward, 1, 0)};
  schedule.programs[1] = {op(OpKind::Forward, 0, 1), op(OpKind::Forward, 1, 1), op(OpKind::Backward, 0, 1),
                          op(OpKind::Backward, 1, 1)};
  CHECK_THROWS_WITH(simulate(schedule), Contains("deadlock: ") && Contains("device 0 waits at B0@0 for B0@1") &&
                                            Contains("device 1 waits at F1@1 for F1@0"));
}

TEST_CASE("an op that is in no list is reported as such", "[simulate]") {
  Schedule schedule = make_schedule_of("1f1b", equal_stages(2, 1, 1, 2));
  schedule.programs[1].clear();
  CHECK_THROWS_WITH(simulate(schedule), Contains("device 0 waits for B0@1, which is in no list"));
}

TEST_CASE("blocking links hold the sender, asynchronous ones do not", "[simulate]") {
  // Two stages, one link of 1, two micro-batches, GPipe. Asynchronous: F1 of stage 0 ends at 2. Blocking: F0 is sent
  // from 1 to 2, so F1 runs from 2 to 3 and arrives at 4; stage 1 ends it at 5 instead of 4.
  const Schedule schedule = make_schedule_of("gpipe", equal_stages(2, 2, 1, 1, 0, 1));
  CHECK(simulate(schedule).times[0][1].end == Seconds{2});
  CHECK(simulate(schedule, LinkSemantics::Blocking).times[0][1].end == Seconds{3});
  CHECK(simulate(schedule, LinkSemantics::Blocking).times[1][1].end == Seconds{5});
}

TEST_CASE("memory rises at the start of a forward and falls in two steps with a split backward", "[simulate]") {
  ScheduleRequest request = equal_stages(1, 1, 1, 1, 1);
  request.weight_gradient_memory = 0.25;
  const Schedule schedule = make_schedule_of("zb-h1", request);
  const std::vector<MemoryPoint> curve = memory_curve(schedule, simulate(schedule), 0);
  REQUIRE(curve.size() == 4);
  CHECK(curve[1].time == Seconds{0});
  CHECK(curve[1].activations == 1.0);
  CHECK(curve[2].time == Seconds{2});
  CHECK(curve[2].activations == 0.25);
  CHECK(curve[3].time == Seconds{3});
  CHECK(curve[3].activations == 0.0);
}

TEST_CASE("the facade counts busy time, peaks and ends per device", "[simulate]") {
  const std::vector<StageTime> stages(4, {Seconds{1}, Seconds{2}, Seconds{}, Seconds{}});
  const PipelineSimulation result = simulate_pipeline("1f1b", stages, 8);
  CHECK(result.makespan == Seconds{33});
  CHECK(result.bubble == Approx(9.0 / 33));
  CHECK(result.busy == std::vector<Seconds>(4, Seconds{24}));
  CHECK(result.peak_in_flight == std::vector<int>{4, 3, 2, 1});
  CHECK(result.last_end.back() == Seconds{27});  // three backwards of 2 before the end
}
