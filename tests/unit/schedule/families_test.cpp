#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/diagnostic.hpp"
#include "schedule/table.hpp"
#include "support/catch.hpp"
#include "support/schedules.hpp"

using namespace hpplan;
using namespace hpplan::testing;
using Peaks = std::vector<int>;

namespace {

Peaks filled(int count, int value) { return Peaks(static_cast<std::size_t>(count), value); }

std::vector<int> drifts(const Schedule& schedule) {
  std::vector<int> result;
  for (const VersionReport& report : version_reports(schedule)) result.push_back(report.drift);
  return result;
}

std::string message_of(const std::string& family, const ScheduleRequest& request) {
  try {
    const Schedule schedule = make_schedule_of(family, request);
    return "accepted " + schedule.family;
  } catch (const InputError& error) {
    return to_text(error.diagnostics().front());
  }
}

}  // namespace

TEST_CASE("GPipe and 1F1B over 4 stages and 8 micro-batches take 11 * 3", "[schedule]") {
  const Simulation gpipe = run("gpipe", equal_stages(4, 8, 1, 2));
  CHECK(gpipe.makespan == Seconds{33});
  CHECK(gpipe.peak_in_flight == Peaks{8, 8, 8, 8});
  const Simulation one_f_one_b = run("1f1b", equal_stages(4, 8, 1, 2));
  CHECK(one_f_one_b.makespan == Seconds{33});
  CHECK(one_f_one_b.peak_in_flight == Peaks{4, 3, 2, 1});
}

TEST_CASE("zero bubble H1 and H2: golden makespans, spans and peaks", "[schedule]") {
  struct Case {
    const char* family;
    int stages, micro_batches;
    double forward, backward, weight_gradient, makespan;
    int peak;
  };
  const Case c = GENERATE(values<Case>({{"zb-h1", 4, 8, 1, 1, 1, 27, 4},
                                        {"zb-h2", 4, 8, 1, 1, 1, 27, 7},
                                        {"zb-h1", 8, 24, 2, 2, 1, 141, 8},
                                        {"zb-h2", 8, 24, 2, 2, 1, 134, 15},
                                        {"zb-h1", 4, 12, 2, 3, 1, 84, 4},
                                        {"zb-h2", 4, 12, 2, 3, 1, 81, 7}}));
  CAPTURE(c.family, c.stages);
  const Simulation result =
      run(c.family, equal_stages(c.stages, c.micro_batches, c.forward, c.backward, c.weight_gradient));
  CHECK(result.makespan == Seconds{c.makespan});
  CHECK(result.peak_in_flight == filled(c.stages, c.peak));
}

TEST_CASE("ZB-H2 with equal F, B and W has no bubble over the span, and (P-1)F over the makespan", "[schedule]") {
  const Simulation result = run("zb-h2", equal_stages(4, 8, 1, 1, 1));
  CHECK(result.span == Seconds{24});
  CHECK(result.bubble_rate == Approx(0.0).margin(1e-12));
  CHECK(result.makespan == Seconds{27});
}

TEST_CASE("interleaved: golden makespans and peaks in chunks", "[schedule]") {
  const Simulation small = run("interleaved", with_chunks(equal_stages(4, 8, 1, 2), 2));
  CHECK(small.makespan == Seconds{28.5});
  CHECK(small.peak_in_flight == Peaks{11, 9, 7, 5});
  const Simulation large = run("interleaved", with_chunks(equal_stages(8, 24, 1, 2), 3));
  CHECK(large.makespan.value() == Approx(79));
  CHECK(large.peak_in_flight == Peaks{31, 29, 27, 25, 23, 21, 19, 17});
}

TEST_CASE("ZB-V with equal F, B and W has no bubble, at the memory of 1F1B", "[schedule]") {
  const auto [stages, micro_batches] =
      GENERATE(values<std::pair<int, int>>({{4, 8}, {4, 12}, {8, 16}, {8, 24}, {16, 48}}));
  CAPTURE(stages, micro_batches);
  const Simulation result = run("zb-v", equal_stages(stages, micro_batches, 1, 1, 1));
  CHECK(result.span == Seconds{3.0 * micro_batches});
  CHECK(*std::max_element(result.peak_activations.begin(), result.peak_activations.end()) == Approx(stages));
}

TEST_CASE("DualPipe: golden makespans, peak P+1 on every device", "[schedule]") {
  struct Case {
    int stages, micro_batches;
    double makespan;
  };
  const Case c = GENERATE(values<Case>({{8, 20, 66}, {8, 40, 126}, {4, 16, 50}, {16, 64, 206}}));
  CAPTURE(c.stages, c.micro_batches);
  const Simulation result = run("dualpipe", equal_stages(c.stages, c.micro_batches, 1, 1, 1));
  CHECK(result.makespan == Seconds{c.makespan});
  CHECK(result.peak_in_flight == filled(c.stages, c.stages + 1));
}

TEST_CASE("DualPipe: overlapped pairs of 2.5 instead of 3 shorten the step from 66 to 59", "[schedule]") {
  ScheduleRequest request = equal_stages(8, 20, 1, 1, 1);
  request.joined_time = 2.5 / 3.0;
  CHECK(run("dualpipe", request).makespan.value() == Approx(59));
}

TEST_CASE("DualPipe with W < B stays below its formula: 103.2 instead of 103.8", "[schedule]") {
  // (P/2-1)(F&B + Bf - 3W) = 3 (3 + 2 - 2.4) = 7.8; simulated 7.2 above 32 * 3
  CHECK(run("dualpipe", equal_stages(8, 32, 1, 1.2, 0.8)).makespan.value() == Approx(96 + 7.2));
}

TEST_CASE("DualPipeV has the bubble of DualPipe on half the devices", "[schedule]") {
  // 4 devices hold 8 stages, two each: 6 (F+B+W) of work for 20 micro-batches is 120, bubble (8/2-1)(3+2-3) = 6
  const Simulation result = run("dualpipe-v", equal_stages(8, 20, 1, 1, 1));
  CHECK(result.makespan == Seconds{126});
  CHECK(result.peak_in_flight == filled(4, 9));
}

TEST_CASE("Chimera: golden makespans and peaks", "[schedule]") {
  struct Case {
    int stages, micro_batches;
    double backward, makespan;
  };
  const Case c = GENERATE(values<Case>({{4, 4, 1, 10},
                                        {4, 4, 2, 16},
                                        {8, 8, 1, 22},
                                        {8, 8, 2, 36},
                                        {16, 16, 1, 46},
                                        {16, 16, 2, 76},
                                        {8, 16, 2, 66},
                                        {8, 32, 2, 126},
                                        {8, 32, 1, 70}}));
  CAPTURE(c.stages, c.micro_batches, c.backward);
  const Simulation result = run("chimera", equal_stages(c.stages, c.micro_batches, 1, c.backward));
  CHECK(result.makespan == Seconds{c.makespan});
  CHECK(result.peak_in_flight.front() == c.stages / 2 + 1);
  CHECK(result.peak_in_flight[static_cast<std::size_t>(c.stages / 2)] == c.stages);
}

TEST_CASE("V-Min: golden span bubbles and peaks", "[schedule]") {
  const Simulation small = run("v-min", equal_stages(4, 12, 1, 1, 1));
  CHECK(small.span == Seconds{36 + 5.5});
  CHECK(small.peak_activations == std::vector<double>{2, 2, 2, 2});
  const Simulation large = run("v-min", equal_stages(8, 24, 1, 1, 1));
  CHECK(large.span == Seconds{72 + 13.5});
  CHECK(*std::max_element(large.peak_activations.begin(), large.peak_activations.end()) == 4);
}

TEST_CASE("V-Half: golden span bubbles and peaks", "[schedule]") {
  const Simulation small = run("v-half", equal_stages(4, 12, 1, 1, 1));
  CHECK(small.span == Seconds{36 + 2.5});
  CHECK(small.peak_activations == std::vector<double>{3, 3, 3, 3});
  const Simulation large = run("v-half", equal_stages(8, 24, 1, 1, 1));
  CHECK(large.span == Seconds{72 + 8.5});
  CHECK(large.peak_activations == std::vector<double>(8, 5.0));
}

TEST_CASE("ZB-V with unequal F, B and W leaves the bubble of the reference", "[schedule]") {
  struct Case {
    double forward, backward, weight_gradient, four_stages, eight_stages;
  };
  const Case c = GENERATE(values<Case>({{2, 2, 1, 2.5, 6.5}, {2, 3, 1, 5.5, 13.5}, {3, 2, 2, 3.0, 7.0}}));
  CAPTURE(c.forward, c.backward, c.weight_gradient);
  const double work = c.forward + c.backward + c.weight_gradient;
  const Simulation small = run("zb-v", equal_stages(4, 12, c.forward, c.backward, c.weight_gradient));
  CHECK(small.span == Seconds{12 * work + c.four_stages});
  const Simulation large = run("zb-v", equal_stages(8, 24, c.forward, c.backward, c.weight_gradient));
  CHECK(large.span == Seconds{24 * work + c.eight_stages});
  CHECK(*std::max_element(large.peak_activations.begin(), large.peak_activations.end()) == 8);
}

TEST_CASE("1F1B with other numbers in flight: as 1F1B by default, and more hide links", "[schedule]") {
  ScheduleRequest request = equal_stages(4, 16, 1, 2, 0, 0.5);
  const Simulation standard = run("1f1b", request);
  CHECK(run("1f1b-adaptive", request).makespan == standard.makespan);
  request.in_flight = {7, 5, 3, 1};
  const Simulation more = run("1f1b-adaptive", request);
  CHECK(more.peak_in_flight == Peaks{7, 5, 3, 1});
  // All links but those of the fill and the drain are hidden: (16+3)*3 + 2*3*0.5
  CHECK(more.makespan == Seconds{60});
  CHECK(standard.makespan > Seconds{68});
  request.in_flight = {1, 1, 1, 1};
  CHECK(run("1f1b-adaptive", request).peak_in_flight == Peaks{1, 1, 1, 1});
  request.in_flight = {2, 3, 2, 1};
  CHECK(message_of("1f1b-adaptive", request).find("stage 1: 3, but the stage before holds 2") != std::string::npos);
}

TEST_CASE("replicas may have times of their own", "[schedule]") {
  // Two devices, one twice as fast: the stages of the up replica swap their times.
  ScheduleRequest request = equal_stages(2, 2, 1, 1);
  request.times = {{Seconds{1}, Seconds{1}, {}, {}},
                   {Seconds{2}, Seconds{2}, {}, {}},
                   {Seconds{2}, Seconds{2}, {}, {}},
                   {Seconds{1}, Seconds{1}, {}, {}}};
  const Schedule schedule = make_schedule_of("chimera", request);
  CHECK(schedule.stage(1).time.forward == Seconds{2});  // down replica, second stage, on device 1
  CHECK(schedule.stage(2).time.forward == Seconds{2});  // up replica, first stage, on device 1
  CHECK(schedule.stage(3).time.forward == Seconds{1});
  CHECK(schedule.stage(2).device == 1);
}

TEST_CASE("PipeDream keeps P-s weight versions and has no drift", "[schedule][async]") {
  const std::vector<VersionReport> reports = version_reports(make_schedule_of("pipedream", equal_stages(4, 20, 1, 2)));
  for (int s = 0; s < 4; ++s) {
    const VersionReport& report = reports[static_cast<std::size_t>(s)];
    CAPTURE(s);
    CHECK(report.drift == 0);
    CHECK(report.versions == 4 - s);
    CHECK(report.delay == 3 - s);
  }
}

TEST_CASE("PipeDream-2BW keeps two weight versions and applies every gradient one update late", "[schedule][async]") {
  for (const VersionReport& report : version_reports(make_schedule_of("pipedream-2bw", equal_stages(4, 20, 1, 2)))) {
    CHECK(report.drift == 0);
    CHECK(report.versions == 2);
    CHECK(report.delay == 1);
  }
}

TEST_CASE("PACI: 8 stages and 320 micro-batches take (320+7)*3, with the memory of 1F1B", "[schedule][async]") {
  const Simulation result = run("paci", equal_stages(8, 320, 1, 2));
  CHECK(result.makespan == Seconds{981});
  CHECK(result.peak_in_flight == Peaks{8, 7, 6, 5, 4, 3, 2, 1});
}

TEST_CASE("PACI: the drift bound ceil((N-i)/a) is reached on every stage", "[schedule][async]") {
  struct Case {
    int accumulation;
    std::vector<int> drift;
  };
  const Case c = GENERATE(values<Case>({{1, {7, 6, 5, 4, 3, 2, 1, 0}},
                                        {2, {4, 3, 3, 2, 2, 1, 1, 0}},
                                        {4, {2, 2, 2, 1, 1, 1, 1, 0}},
                                        {7, {1, 1, 1, 1, 1, 1, 1, 0}}}));
  CAPTURE(c.accumulation);
  ScheduleRequest request = equal_stages(8, 320, 1, 2);
  request.accumulation = c.accumulation;
  CHECK(drifts(make_schedule_of("paci", request)) == c.drift);
}

TEST_CASE("PACI: a drift limit sets how many micro-batches an update takes", "[schedule][async]") {
  ScheduleRequest request = equal_stages(8, 64, 1, 2);
  request.max_drift = 2;
  CHECK(make_schedule_of("paci", request).accumulation == 4);  // ceil(7/4) = 2, ceil(7/3) = 3
  request.max_drift = 0;
  CHECK_THROWS_AS(make_schedule_of("paci", request), InputError);
}

TEST_CASE("PACI: links stretch the period to F+Bf+2c(N-1)/N", "[schedule][async]") {
  // 3 + 2 * 0.25 * 7/8 = 3.4375 for every micro-batch once steady
  const double shorter = run("paci", equal_stages(8, 800, 1, 2, 0, 0.25)).makespan.value();
  const double longer = run("paci", equal_stages(8, 1600, 1, 2, 0, 0.25)).makespan.value();
  CHECK((longer - shorter) / 800 == Approx(3.4375));
}

TEST_CASE("PACI against flush: the published runtimes at micro-batch size 16 within 2%", "[schedule][async]") {
  struct Case {
    int micro_batches;
    double flush_hours, paci_hours;
  };
  const Case c = GENERATE(values<Case>({{8, 162.33, 87.99}, {16, 124.27, 87.89}}));
  // A flushed step of m micro-batches against m more micro-batches of a long asynchronous run.
  const double flush = run("1f1b", equal_stages(8, c.micro_batches, 1, 2)).makespan.value();
  const double asynchronous = run("paci", equal_stages(8, 800 + c.micro_batches, 1, 2)).makespan.value() -
                              run("paci", equal_stages(8, 800, 1, 2)).makespan.value();
  CHECK(flush / asynchronous == Approx(c.flush_hours / c.paci_hours).epsilon(0.02));
}

TEST_CASE("AMDP: makespans and peaks of the published orders", "[schedule][async]") {
  struct Case {
    int stages, cycles;
    double makespan;
  };
  const Case c = GENERATE(values<Case>(
      {{4, 1, 16}, {4, 2, 29}, {4, 4, 55}, {4, 16, 211}, {8, 1, 28}, {8, 2, 53}, {8, 4, 103}, {8, 16, 403}}));
  CAPTURE(c.stages, c.cycles);
  const Simulation result = run("amdp", equal_stages(c.stages, c.stages * c.cycles, 1, 2));
  CHECK(result.makespan == Seconds{c.makespan});
  CHECK(result.peak_in_flight == (c.stages == 4 ? Peaks{3, 4, 4, 3} : Peaks{7, 8, 8, 7, 7, 8, 8, 7}));
}

TEST_CASE("AMDP: T = C (d(F+Bf) + Bf-F) + F+Bf for F <= Bf <= 2F, and beyond 3F idle per cycle", "[schedule][async]") {
  const int depth = GENERATE(4, 8);
  const int cycles = GENERATE(1, 3, 7);
  const double backward = GENERATE(1.0, 1.5, 2.0);
  CAPTURE(depth, cycles, backward);
  const double time = run("amdp", equal_stages(depth, depth * cycles, 1, backward)).makespan.value();
  CHECK(time == Approx(cycles * (depth * (1 + backward) + backward - 1) + 1 + backward));
  CHECK(run("amdp", equal_stages(depth, depth * cycles, 1, 3)).makespan.value() ==
        Approx((depth == 4 ? 19 : 35) * cycles + 3));
}

TEST_CASE("AMDP: utilisation with links, 40 cycles of F=1 and Bf=2", "[schedule][async]") {
  struct Case {
    int stages;
    double link, utilisation;
  };
  const Case c = GENERATE(
      values<Case>({{4, .05, .900}, {4, .1, .884}, {4, .2, .852}, {8, .05, .933}, {8, .1, .910}, {8, .2, .867}}));
  CAPTURE(c.stages, c.link);
  const Simulation result = run("amdp", equal_stages(c.stages, 40 * c.stages, 1, 2, 0, c.link));
  CHECK(1.0 - result.idle_share == Approx(c.utilisation).margin(6e-4));
}

namespace {

/// The ops of `device` that belong to its second cycle, as in the published tables: F and B with the micro-batch's
/// place in its cycle, ' for one left over from the cycle before, | for the updates at one place.
std::string second_cycle(const Schedule& schedule, int device) {
  const int depth = schedule.device_count;
  const auto in_cycle = [&](const Op& op) { return op.micro_batch >= depth && op.micro_batch < 2 * depth; };
  const std::vector<Op>& program = schedule.program(device);
  std::string text;
  bool updated = false;
  int left = 2 * depth;  // forwards and backwards of a cycle: 2 per micro-batch, one of them the cycle before's
  int first_cycle = 2 * depth - 1;
  for (const Op& op : program) {
    if (op.kind == OpKind::Update) {
      if (first_cycle == 0 && left > 0 && !updated) text += "| ";
      updated = true;
      continue;
    }
    updated = false;
    if (first_cycle > 0) {
      --first_cycle;
      continue;
    }
    if (left-- <= 0) break;
    text += to_text(op).substr(0, 1) + std::to_string(op.micro_batch % depth) + (in_cycle(op) ? " " : "' ");
  }
  return text;
}

}  // namespace

TEST_CASE("AMDP: the published orders of all devices at depth 4", "[schedule][async]") {
  const Schedule schedule = make_schedule_of("amdp", equal_stages(4, 12, 1, 2));
  const char* const orders[] = {"F0 F2 B2' F1 B1 | F3 B3 B0 ", "B2' F0 F1 F2 F3 | B1 B0 B3 ",
                                "B3' F1 F0 F3 F2 | B0 B1 B2 ", "F1 F3 B3' F0 B0 | F2 B2 B1 "};
  for (int d = 0; d < 4; ++d) {
    CAPTURE(d);
    CHECK(second_cycle(schedule, d) == orders[d]);
  }
}

TEST_CASE("AMDP: the published orders of all devices at depth 8", "[schedule][async]") {
  struct Ids {
    const char* forwards;
    const char* backwards;  // the last one is left over for the next cycle
  };
  const Ids ids[] = {{"04125637", "37216504"}, {"01452367", "32761054"}, {"10543276", "23670145"},
                     {"15034726", "26307415"}, {"26307415", "15034726"}, {"23670145", "10543276"},
                     {"32761054", "01452367"}, {"37216504", "04125637"}};
  const Schedule schedule = make_schedule_of("amdp", equal_stages(8, 24, 1, 2));
  for (int d = 0; d < 8; ++d) {
    CAPTURE(d);
    const bool end_device = d == 0 || d == 3 || d == 4 || d == 7;
    const char* forward = ids[d].forwards;
    const char* backward = ids[d].backwards;
    std::string expected;
    for (const char step : std::string(end_device ? "FFRFFFFFBF|BBBBBB" : "RFFFFFFFF|BBBBBBB")) {
      if (step == 'F') expected += std::string("F") + *forward++ + " ";
      if (step == 'B') expected += std::string("B") + *backward++ + " ";
      if (step == 'R') expected += std::string("B") + ids[d].backwards[7] + "' ";
      if (step == '|') expected += "| ";
    }
    CHECK(second_cycle(schedule, d) == expected);
  }
}

TEST_CASE("AMDP: the published share of micro-batches with drift 1, over 12 cycles", "[schedule][async]") {
  // An update in every cycle but the first: 11 of 12 have drift. 12/16 * 11/12 = 11/16 and 60/64 * 11/12 = 55/64.
  const int depth = GENERATE(4, 8);
  const Schedule schedule = make_schedule_of("amdp", equal_stages(depth, 12 * depth, 1, 2));
  int pairs = 0;
  int drifted = 0;
  for (const std::vector<Op>& program : schedule.programs) {
    std::map<int, int> versions;                    // updates so far, by stage
    std::map<std::pair<int, int>, int> at_forward;  // by stage and micro-batch
    for (const Op& op : program) {
      if (op.kind == OpKind::Update) ++versions[op.stage];
      if (op.kind == OpKind::Forward) at_forward[{op.stage, op.micro_batch}] = versions[op.stage];
      if (op.kind != OpKind::Backward) continue;
      ++pairs;
      drifted += versions[op.stage] - at_forward[{op.stage, op.micro_batch}];
    }
  }
  CHECK(static_cast<double>(drifted) / pairs == Approx(depth == 4 ? 11.0 / 16 : 55.0 / 64));
}

TEST_CASE("AMDP: drift is at most 1, at any even depth", "[schedule][async]") {
  const int depth = GENERATE(2, 4, 6, 8, 10, 12);
  const int cycles_per_update = GENERATE(1, 2);
  CAPTURE(depth, cycles_per_update);
  ScheduleRequest request = equal_stages(depth, depth * 8, 1, 2);
  request.accumulation = depth * cycles_per_update;
  const Schedule schedule = make_schedule_of("amdp", request);
  for (const int drift : drifts(schedule)) CHECK(drift <= 1);
  for (const int peak : simulate(schedule).peak_in_flight) CHECK(peak <= depth);
}

TEST_CASE("a family refuses what it cannot run, and says what it can", "[schedule]") {
  CHECK(message_of("interleaved", equal_stages(4, 6, 1, 2)) ==
        "hpplan: error: micro-batches: 6 micro-batches are not a multiple of 4 stages\n"
        "  hint: interleaved runs micro-batches in groups of the stage count: use 8");
  CHECK(message_of("zb-h2", equal_stages(4, 6, 1, 1, 1)) ==
        "hpplan: error: micro-batches: 6 micro-batches for 4 stages\n  hint: zb-h2 needs at least 7 micro-batches");
  CHECK(message_of("chimera", equal_stages(5, 10, 1, 2)) ==
        "hpplan: error: stages: 5 stages\n  hint: chimera pairs stages from both ends: use an even number");
  CHECK(message_of("zb-h3", equal_stages(4, 8, 1, 1, 1)).find("did you mean zb-h") != std::string::npos);
  CHECK(message_of("1f1b", equal_stages(4, 0, 1, 2)) ==
        "hpplan: error: micro-batches: 0 micro-batches\n  hint: give at least 1");
  CHECK(message_of("1f1b", equal_stages(2, 4, -1, 2)).find("stage 0: time -1") != std::string::npos);
}
