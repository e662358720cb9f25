#include "predict/link.hpp"

#include "support/builders.hpp"
#include "support/catch.hpp"

using namespace hpplan;
using namespace hpplan::testing;

namespace {

/// Two groups of 8-device nodes: "x" 25 GB/s and "y" 10 GB/s per node; 200 GB/s inside.
Problem two_groups(double inter_x = 25.0, double intra_x = 200.0) {
  ProblemSpec spec;
  GroupSpec x;
  x.nodes = 4;
  x.devices_per_node = 8;
  x.inter_GBps = inter_x;
  x.intra_GBps = intra_x;
  x.intra_latency_s = 3e-6;
  x.inter_latency_s = 5e-6;
  GroupSpec y = x;
  y.name = "y";
  y.inter_GBps = 10.0;
  y.intra_GBps = 100.0;
  spec.groups = {x, y};
  return problem_of(spec);
}

double GBps(const Link& link) { return link.bandwidth.value() / 1e9; }

StagePlan at(const Problem& problem, int group, int node, int first, int devices) {
  return stage_of(problem, {group, node, first, 1, devices, {0, 1}});
}

}  // namespace

TEST_CASE("stages on one node use its inner link", "[link]") {
  const Problem problem = two_groups();
  const Link link = stage_link(problem, at(problem, 0, 0, 0, 4), at(problem, 0, 0, 4, 4));
  CHECK(GBps(link) == Approx(200.0));
  CHECK(link.latency.value() == 3e-6);
}

TEST_CASE("a stage owns of a node's outer link the share of its devices", "[link]") {
  const Problem problem = two_groups();
  // 4 of 8 devices: half of 25 GB/s, on both sides
  CHECK(GBps(stage_link(problem, at(problem, 0, 0, 0, 4), at(problem, 0, 1, 0, 4))) == Approx(12.5));
  // 1 of 8 against a whole node: the smaller share decides, 25 / 8
  CHECK(GBps(stage_link(problem, at(problem, 0, 0, 0, 1), at(problem, 0, 1, 0, 8))) == Approx(3.125));
  // two whole nodes against two whole nodes: twice 25 GB/s
  CHECK(GBps(stage_link(problem, at(problem, 0, 0, 0, 16), at(problem, 0, 2, 0, 16))) == Approx(50.0));
}

TEST_CASE("between groups the slower side decides", "[link]") {
  const Problem problem = two_groups();
  CHECK(GBps(stage_link(problem, at(problem, 0, 0, 0, 8), at(problem, 1, 0, 0, 8))) == Approx(10.0));
  // Nodes of different groups have the same number but are not one node.
  CHECK(stage_link(problem, at(problem, 0, 0, 0, 8), at(problem, 1, 0, 0, 8)).latency.value() == 5e-6);
}

TEST_CASE("a limit between two groups counts per node", "[link]") {
  Problem problem = two_groups();
  problem.cluster.group_links[0][1].bandwidth = problem.cluster.group_links[1][0].bandwidth = BytesPerSecond{4e9};
  CHECK(GBps(stage_link(problem, at(problem, 0, 0, 0, 8), at(problem, 1, 0, 0, 8))) == Approx(4.0));
  CHECK(GBps(stage_link(problem, at(problem, 0, 0, 0, 16), at(problem, 1, 0, 0, 16))) == Approx(8.0));
  CHECK(GBps(stage_link(problem, at(problem, 0, 0, 0, 4), at(problem, 1, 0, 0, 8))) == Approx(2.0));
}

TEST_CASE("A18: halving the outer link doubles an outer transfer, and the inner link does not matter to it", "[link]") {
  const auto time = [](const Problem& problem) {
    return transfer_time(Bytes{1'000'000'000}, stage_link(problem, at(problem, 0, 0, 0, 8), at(problem, 0, 1, 0, 8)));
  };
  const double latency = 5e-6;
  const double slow = time(two_groups(12.5)).value() - latency;
  CHECK(slow == Approx(2.0 * (time(two_groups(25.0)).value() - latency)));
  CHECK(time(two_groups(25.0, 2000.0)) == time(two_groups(25.0, 200.0)));
}

TEST_CASE("a micro-batch crosses a boundary once, as samples x sequence x hidden x bytes", "[link]") {
  const Problem problem = two_groups();
  // 4 samples * 4 positions * 8 hidden * 2 B = 256 B over 25 GB/s + 5 us
  CHECK(link_time(problem, at(problem, 0, 0, 0, 8), at(problem, 0, 1, 0, 8), 4).value() == Approx(256 / 25e9 + 5e-6));
}

TEST_CASE("the best link is never slower than a placed one", "[link]") {
  const Problem problem = two_groups();
  for (const int a : {1, 2, 4, 8, 16}) {
    for (const int b : {1, 2, 4, 8, 16}) {
      for (const int group : {0, 1}) {
        CAPTURE(a, b, group);
        const Link best = best_link(problem, 0, a, group, b);
        const StagePlan from = at(problem, 0, 0, 0, a);
        std::vector<StagePlan> others{at(problem, group, 2, 0, b)};
        if (group == 0 && a + b <= 8) others.push_back(at(problem, 0, 0, a, b));
        for (const StagePlan& to : others) {
          const Link placed = stage_link(problem, from, to);
          CHECK(best.bandwidth >= placed.bandwidth);
          CHECK(best.latency <= placed.latency);
        }
      }
    }
  }
}
