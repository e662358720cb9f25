#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "predict/rate_bound.hpp"
#include "predict/recompute.hpp"
#include "search/candidate.hpp"
#include "search/pipeline_table.hpp"
#include "search/placement.hpp"
#include "support/brute_force.hpp"
#include "support/catch.hpp"
#include "support/random_problems.hpp"
#include "support/search_pieces.hpp"

namespace hpplan::testing {

namespace {

OptionTable options_without_tails(Pieces& pieces, int micro_batch) {
  const StageTable& stages = pieces.tables.stages(micro_batch);
  const int ranges = pieces.tables.ranges().count();
  const std::vector<std::vector<double>> tails(stages.variants().size(),
                                               std::vector<double>(static_cast<std::size_t>(ranges), 0.0));
  return {stages, static_cast<int>(pieces.space.ports.size()), ranges, tails, kInfinity};
}

/// All pipelines on each resource vector, by trying every chain of ports and ranges from the last stage on: the least
/// simulated time over the best links, and the least bound of search-notes C.10.
class EveryChain {
 public:
  EveryChain(Pieces& pieces, int micro_batch, int micro_batches)
      : pieces_(pieces), stages_(pieces.tables.stages(micro_batch)), links_(pieces.tables.transfers(micro_batch)),
        micro_batches_(micro_batches) {
    extend(pieces.problem.model.layer_count(), 0, 0, -1, 0.0);
  }

  // By index of the resource vector.
  std::map<int, double> least_bound;
  std::map<int, double> least_time;

 private:
  static void keep(std::map<int, double>& least, int vector, double value) {
    const auto [place, added] = least.try_emplace(vector, value);
    if (!added) place->second = std::min(place->second, value);
  }

  void extend(int last, int after, int used, int next_port, double rest) {
    if (last == 0) {
      keep(least_bound, used, rest);
      Candidate candidate{stages_.micro_batch(), chain_};
      std::reverse(candidate.stages.begin(), candidate.stages.end());
      time_splits(candidate, 0, used);
      return;
    }
    if (after == pieces_.space.max_stages) return;
    for (int port = 0; port < static_cast<int>(pieces_.space.ports.size()); ++port) {
      const int now = used + pieces_.space.step(port);
      if (now >= pieces_.space.resources.size() || !pieces_.space.resources.valid(now)) continue;
      const double link = next_port < 0 ? 0.0
                                        : links_[static_cast<std::size_t>(port) * pieces_.space.ports.size() +
                                                 static_cast<std::size_t>(next_port)];
      for (int first = last - 1; first >= 0; --first) {
        const double time = fastest(port, first, last, std::min({micro_batches_, after + 1, stages_.max_in_flight()}));
        if (time == kInfinity || link == kInfinity) continue;
        chain_.push_back({port, {}, {first, last}});
        extend(first, after + 1, now, port,
               std::max(micro_batches_ * time, next_port < 0 ? 0.0 : time + 2.0 * link + rest));
        chain_.pop_back();
      }
    }
  }

  void time_splits(Candidate& candidate, std::size_t s, int vector) {
    if (s == candidate.stages.size()) {
      PipelineTimer timer(pieces_.tables, candidate, best_links(pieces_.tables, candidate));
      keep(least_time, vector, timer.time(micro_batches_));
      return;
    }
    const int port = candidate.stages[s].port;
    for (int v = stages_.first_variant(port); v < stages_.first_variant(port + 1); ++v) {
      candidate.stages[s].split = stages_.variants()[static_cast<std::size_t>(v)].split;
      time_splits(candidate, s + 1, vector);
    }
  }

  double fastest(int port, int first, int last, int in_flight) const {
    double best = kInfinity;
    for (int v = stages_.first_variant(port); v < stages_.first_variant(port + 1); ++v) {
      best = std::min(best, stages_.time(v, pieces_.tables.ranges().of(first, last), in_flight));
    }
    return best;
  }

  Pieces& pieces_;
  const StageTable& stages_;
  const std::vector<double>& links_;
  int micro_batches_;
  std::vector<CandidateStage> chain_;  // last stage first
};

/// The slowest pipeline in the best exact split of the batch, by trying every split.
double best_split(PipelineTimers& timers, std::size_t i, int left, double slowest) {
  if (i == timers.size()) return left == 0 ? slowest : kInfinity;
  double best = kInfinity;
  for (int m = 1; m * timers.micro_batch(i) <= left; ++m) {
    best = std::min(
        best, best_split(timers, i + 1, left - m * timers.micro_batch(i), std::max(slowest, timers.at(i).time(m))));
  }
  return best;
}

/// A pipeline of one stage on the port that splits by the first variant of the micro-batch.
std::vector<Candidate> single_stage_candidates(Pieces& pieces) {
  std::vector<Candidate> candidates;
  for (const int b : pieces.problem.job.micro_batches) {
    if (b > pieces.problem.job.global_batch) continue;
    for (const Variant& variant : pieces.tables.stages(b).variants()) {
      candidates.push_back({b, {{variant.port, variant.split, {0, pieces.problem.model.layer_count()}}}});
    }
  }
  return candidates;
}

}  // namespace

TEST_CASE("the pipeline table's g is never above the fastest pipeline, and at least the bound of C.10", "[search]") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Inputs inputs = random_inputs(seed, {5, 2, 4, 16});
    Pieces pieces(inputs);
    if (pieces.space.ports.empty()) continue;
    for (const int b : pieces.problem.job.micro_batches) {
      if (b > pieces.problem.job.global_batch || pieces.tables.stages(b).variants().empty()) continue;
      const OptionTable options = options_without_tails(pieces, b);
      for (const int m : {1, 2, 5, pieces.problem.job.global_batch / b}) {
        if (m * b > pieces.problem.job.global_batch) continue;
        INFO("seed " << seed << ", b " << b << ", m " << m << ": " << describe(inputs));
        PipelineTable::Input input;
        input.space = &pieces.space;
        input.ranges = &pieces.tables.ranges();
        input.options = &options;
        input.transfer = &pieces.tables.transfers(b);
        const EveryChain every(pieces, b, m);
        for (const int v : pieces.space.resources.vectors()) {
          const auto fastest = every.least_time.find(v);
          const double time = fastest == every.least_time.end() ? kInfinity : fastest->second;
          // A table with this limit must still hold the pipeline that just reaches it.
          for (const double limit : {kInfinity, time * (1.0 + 1e-12)}) {
            const PipelineTable table(input, m, limit);
            const double g = table.best()[static_cast<std::size_t>(v)];
            CHECK(g <= time * (1.0 + 1e-12));
            if (time < kInfinity) CHECK(g >= every.least_bound.at(v) * (1.0 - 1e-12));
          }
        }
      }
    }
  }
}

TEST_CASE("with more micro-batches in flight no stage is faster", "[search]") {
  int slower = 0;
  for (std::uint64_t seed = 701; seed <= 800; ++seed) {
    const Inputs inputs = random_inputs(seed, {8, 3, 6, 16});
    INFO("seed " << seed << ": " << describe(inputs));
    Pieces pieces(inputs);
    for (const int b : pieces.problem.job.micro_batches) {
      const StageTable& stages = pieces.tables.stages(b);
      for (int v = 0; v < static_cast<int>(stages.variants().size()); ++v) {
        for (int c = 0; c < pieces.tables.ranges().count(); ++c) {
          for (int w = 2; w <= stages.max_in_flight(); ++w) {
            const double before = stages.time(v, c, w - 1);
            const double now = stages.time(v, c, w);
            if (now < before * (1.0 - 1e-12)) FAIL_CHECK("variant " << v << ", class " << c << ", depth " << w);
            slower += now > before ? 1 : 0;
          }
        }
      }
    }
  }
  CHECK(slower > 100);
}

TEST_CASE("the batch is split so that no exact split has a faster slowest pipeline", "[search]") {
  for (std::uint64_t seed = 101; seed <= 180; ++seed) {
    Inputs inputs = random_inputs(seed, {4, 2, 3, 24});
    Pieces pieces(inputs);
    if (pieces.space.ports.empty()) continue;
    const std::vector<Candidate> candidates = single_stage_candidates(pieces);
    if (candidates.empty()) continue;
    Dice dice(seed);
    PipelineTimers timers;
    for (int i = dice.whole(1, 3); i > 0; --i) {
      const int which = dice.whole(0, static_cast<int>(candidates.size()) - 1);
      timers.add({pieces.tables, candidates[static_cast<std::size_t>(which)], std::vector<double>{}});
    }
    INFO("seed " << seed << ": " << describe(inputs));
    const int batch = pieces.problem.job.global_batch;
    const double expected = best_split(timers, 0, batch, 0.0);
    const auto allocation = allocate(timers, batch, kInfinity);
    if (expected == kInfinity) {
      // Every split holds a pipeline that does not fit: no time, if there is an answer at all.
      CHECK((!allocation || allocation->time == kInfinity));
      continue;
    }
    REQUIRE(allocation);
    CHECK(allocation->time == expected);
    int samples = 0;
    for (std::size_t i = 0; i < timers.size(); ++i) samples += timers.micro_batch(i) * allocation->micro_batches[i];
    CHECK(samples == batch);
  }
}

namespace {

class SeenPlacements final : public PlacementVisitor {
 public:
  bool enter(std::size_t /*pipeline*/, std::size_t /*stage*/, const std::vector<int>& /*nodes*/) override {
    ++depth;
    return true;
  }
  void leave() override { --depth; }
  bool visit(const Placement& placement) override {
    CHECK(placements.insert(placement).second);
    return true;
  }

  std::set<Placement> placements;
  int depth = 0;
};

}  // namespace

TEST_CASE("placements that differ only in the names of nodes are visited once", "[search]") {
  Inputs inputs = random_inputs(1);
  inputs.job.micro_batches = {8};  // lets 8 devices be 8 replicas
  inputs.cluster.node_groups.resize(1);
  inputs.cluster.group_links = {{inputs.cluster.node_groups[0].inter_node}};
  NodeGroup& group = inputs.cluster.node_groups[0];
  group.nodes = 3;
  group.devices_per_node = 4;
  group.node_names = {"a", "b", "c"};
  Pieces pieces(inputs);
  const auto port_of = [&](int devices) {
    const auto found = std::find(pieces.space.ports.begin(), pieces.space.ports.end(), Port{0, devices});
    REQUIRE(found != pieces.space.ports.end());
    return static_cast<int>(found - pieces.space.ports.begin());
  };
  const auto count = [&](const std::vector<std::vector<int>>& pipelines) {
    std::vector<Candidate> candidates;
    for (const std::vector<int>& devices : pipelines) {
      Candidate& candidate = candidates.emplace_back();
      for (const int size : devices) candidate.stages.push_back({port_of(size), {1, size}, {0, 1}});
    }
    SeenPlacements seen;
    CHECK(for_each_placement(pieces.problem, pieces.space, candidates, seen));
    CHECK(seen.depth == 0);
    return seen.placements.size();
  };
  CHECK(count({{2}}) == 1);
  CHECK(count({{2, 2}}) == 2);     // on one node or on two
  CHECK(count({{2, 2, 2}}) == 4);  // aab aba abb abc; aaa has no room
  CHECK(count({{8, 4}}) == 1);
  CHECK(count({{4, 4, 2, 2}}) == 1);      // one node is left: both parts go there
  CHECK(count({{4, 4, 4, 1}}) == 0);      // 13 of 12 devices
  CHECK(count({{2}, {2}, {2}}) == 3);     // aab abb abc: aba is aab with two equal pipelines exchanged
  CHECK(count({{2}, {2, 2}, {2}}) == 9);  // unlike pipelines are not exchanged
}

TEST_CASE("the rate bound is never above the optimum", "[search]") {
  for (std::uint64_t seed = 201; seed <= 260; ++seed) {
    const Inputs inputs = random_inputs(seed, {4, 2, 4, 8});
    INFO("seed " << seed << ": " << describe(inputs));
    const Problem problem = inputs.problem();
    CHECK(rate_bound(problem).value() <= brute_force_plan(problem).time());
  }
}

}  // namespace hpplan::testing
