#include "emit/schedule_report.hpp"

#include <nlohmann/json.hpp>

#include "emit/timeline_svg.hpp"
#include "emit/trace.hpp"
#include "support/catch.hpp"
#include "support/schedules.hpp"

using namespace hpplan;
using namespace hpplan::testing;

TEST_CASE("schedule JSON holds the figures of the simulation", "[emit]") {
  const Schedule schedule = make_schedule_of("zb-h2", equal_stages(4, 8, 1, 1, 1));
  const auto json = nlohmann::json::parse(schedule_json(schedule, simulate(schedule)));
  CHECK(json["makespan"] == 27.0);
  CHECK(json["span"] == 24.0);
  CHECK(json["busy"] == std::vector<double>(4, 24.0));
  CHECK(json["peak_in_flight"] == std::vector<int>(4, 7));
  CHECK(json["bubble_rate"] == 0.0);
  CHECK(!json.contains("drift"));
}

TEST_CASE("peaks: interleaved in chunks, two half stages in stages", "[emit]") {
  const Schedule loop = make_schedule_of("interleaved", with_chunks(equal_stages(4, 8, 1, 2), 2));
  CHECK(nlohmann::json::parse(schedule_json(loop, simulate(loop)))["peak_in_flight"] == std::vector<int>{11, 9, 7, 5});
  const Schedule vee = make_schedule_of("zb-v", equal_stages(4, 8, 1, 1, 1));
  CHECK(nlohmann::json::parse(schedule_json(vee, simulate(vee)))["peak_in_flight"] == std::vector<int>{4, 4, 4, 4});
}

TEST_CASE("asynchronous families report the drift of each stage", "[emit]") {
  const Schedule schedule = make_schedule_of("paci", equal_stages(4, 12, 1, 2));
  CHECK(nlohmann::json::parse(schedule_json(schedule, simulate(schedule)))["drift"] == std::vector<int>{3, 2, 1, 0});
}

TEST_CASE("a trace has one complete event per op, at its time", "[emit]") {
  const Schedule schedule = make_schedule_of("1f1b", equal_stages(2, 3, 1, 2));
  const Simulation simulation = simulate(schedule);
  const TracedPipeline pipeline{"pipeline 0", &schedule, &simulation};
  const auto trace = nlohmann::json::parse(trace_json({&pipeline, 1}, 1e6));
  int ops = 0;
  double last_end = 0.0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++ops;
    last_end = std::max(last_end, event["ts"].get<double>() + event["dur"].get<double>());
  }
  CHECK(ops == 2 * 2 * 3);
  CHECK(last_end == simulation.makespan.value() * 1e6);
}

TEST_CASE("a timeline shows every op, device and micro-batch", "[emit]") {
  const Schedule schedule = make_schedule_of("1f1b", equal_stages(2, 3, 1, 2));
  const std::string svg = timeline_svg(schedule, simulate(schedule), "a < b", "time units");
  std::size_t titles = 0;
  for (std::size_t at = svg.find("<title>"); at != std::string::npos; at = svg.find("<title>", at + 1)) ++titles;
  CHECK(titles == 12);
  CHECK(svg.find("a &lt; b") != std::string::npos);
  CHECK(svg.find(">device 1<") != std::string::npos);
  CHECK(svg.find("makespan 12 time units") != std::string::npos);
}
