#include <algorithm>
#include <numeric>

#include "predict/rate_bound.hpp"
#include "search/column_engine.hpp"
#include "search/column_search.hpp"
#include "search/node_charges.hpp"
#include "support/brute_force.hpp"
#include "support/catch.hpp"
#include "support/random_problems.hpp"
#include "support/search_pieces.hpp"

namespace hpplan::testing {

namespace {

Prices random_prices(Dice& dice, std::size_t groups) {
  Prices prices;
  for (std::size_t g = 0; g < groups; ++g) prices.device.push_back(dice.spread(0.2, 5.0));
  prices.pipeline = dice.chance(0.5) ? 0.0 : dice.real(0.0, 2.0);
  return prices;
}

/// A random pipeline of the space that may or may not fit.
Candidate random_pipeline(Dice& dice, Pieces& pieces, int micro_batch) {
  const StageTable& stages = pieces.tables.stages(micro_batch);
  const int layers = pieces.problem.model.layer_count();
  Candidate candidate{micro_batch, {}};
  const int longest = dice.one_of({1, 2, layers});
  int first = 0;
  while (first < layers) {
    const int last = dice.whole(first + 1, std::min(layers, first + longest));
    const Variant& variant =
        stages.variants()[static_cast<std::size_t>(dice.whole(0, static_cast<int>(stages.variants().size()) - 1))];
    candidate.stages.push_back({variant.port, variant.split, {first, last}});
    first = last;
  }
  return candidate;
}

/// Each stage on the node of the next one, if it fits there and chance wants it.
Chains random_chains(Dice& dice, Pieces& pieces, const Candidate& candidate) {
  const std::vector<Port>& ports = pieces.space.ports;
  const auto port_of = [&](std::size_t s) { return static_cast<std::size_t>(candidate.stages[s].port); };
  const double share = dice.one_of({0.3, 0.7, 1.0});
  Chains chains;
  chains.links.assign(candidate.stages.size() - 1, 0.0);
  chains.taken.assign(candidate.stages.size(), 0);
  for (std::size_t s = candidate.stages.size() - 1; s-- > 0;) {
    const Port& port = ports[port_of(s)];
    const Port& next = ports[port_of(s + 1)];
    const std::size_t pair = port_of(s) * ports.size() + port_of(s + 1);
    const int per_node = pieces.problem.cluster.node_groups[static_cast<std::size_t>(port.group)].devices_per_node;
    const int beside = next.devices + chains.taken[s + 1];
    if (port.group == next.group && beside + port.devices <= per_node && dice.chance(share)) {
      chains.links[s] = pieces.tables.transfers(candidate.micro_batch)[pair];
      chains.taken[s] = beside;
    } else {
      chains.links[s] = pieces.tables.outer_transfers(candidate.micro_batch)[pair];
    }
  }
  return chains;
}

/// What a plan of so many pipelines spends after them because of this one.
double tail_of(Pieces& pieces, const Candidate& candidate, const Chains& chains, PipelineCount count) {
  const StageTable& stages = pieces.tables.stages(candidate.micro_batch);
  double tail = 0.0;
  for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
    const CandidateStage& stage = candidate.stages[s];
    const int variant = stages.variant_of(stage.port, stage.split);
    const int range = pieces.tables.ranges().of(stage.layers.first, stage.layers.last);
    const double share = own_sync_share(pieces.tables, stages, variant, range, {count, false, chains.taken[s]});
    tail = std::max(tail, stages.optimizer(variant, range) + share);
  }
  return tail;
}

/// body(pieces, dice) for random problems in which some stage can run micro-batches of one sample.
template <typename Body>
void for_each_random_space(std::uint64_t seeds, const Body& body) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const Inputs inputs = random_inputs(seed, {12, 2, 8, 16});
    Pieces pieces(inputs);
    Dice dice(seed);
    INFO("seed " << seed << ": " << describe(inputs));
    if (!pieces.tables.stages(1).variants().empty()) body(pieces, dice);
  }
}

double price_of(const Pieces& pieces, const Candidate& candidate, const Prices& prices) {
  double price = prices.pipeline;
  for (const CandidateStage& stage : candidate.stages) {
    const Port& port = pieces.space.ports[static_cast<std::size_t>(stage.port)];
    price += prices.device[static_cast<std::size_t>(port.group)] * port.devices;
  }
  return price;
}

}  // namespace

TEST_CASE("the packing program's prices prove its value", "[search]") {
  // max 3x + 2y with x <= 4, x + y <= 6: x = 4, y = 2, 16; prices 1 and 2.
  PackingLp lp({4.0, 6.0});
  lp.add({1.0, 1.0}, 3.0);
  lp.add({0.0, 1.0}, 2.0);
  const PackingLp::Solution known = lp.solve();
  CHECK(known.value == Approx(16.0));
  CHECK(known.prices[0] == Approx(1.0));
  CHECK(known.prices[1] == Approx(2.0));

  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Dice dice(seed);
    const int rows = dice.whole(1, 5);
    std::vector<double> stock;
    for (int r = 0; r < rows; ++r) stock.push_back(dice.whole(1, 64));
    PackingLp random(stock);
    std::vector<std::vector<double>> uses;
    std::vector<double> values;
    for (int c = dice.whole(1, 40); c > 0; --c) {
      std::vector<double> use;
      for (int r = 0; r < rows; ++r) use.push_back(dice.whole(0, 8));
      use[static_cast<std::size_t>(dice.whole(0, rows - 1))] += 1.0;
      values.push_back(dice.whole(0, 100));
      random.add(use, values.back());
      uses.push_back(use);
    }
    const PackingLp::Solution solution = random.solve();
    INFO("seed " << seed);
    double worth = 0.0;
    for (int r = 0; r < rows; ++r) {
      const auto row = static_cast<std::size_t>(r);
      double used = 0.0;
      for (std::size_t c = 0; c < uses.size(); ++c) used += uses[c][row] * solution.amounts[c];
      CHECK(used <= stock[row] * (1.0 + 1e-9));
      worth += stock[row] * solution.prices[row];
    }
    // Weak duality both ways: the amounts fit, no column is worth more than its price, and both values agree.
    for (std::size_t c = 0; c < uses.size(); ++c) {
      const double price = std::inner_product(uses[c].begin(), uses[c].end(), solution.prices.begin(), 0.0);
      CHECK(price >= values[c] - 1e-7);
    }
    CHECK(worth == Approx(solution.value).margin(1e-6));
  }
}

TEST_CASE("no pipeline is cheaper than its price bound", "[search][property]") {
  int compared = 0;
  int sharper = 0;
  int counted = 0;
  int given_up = 0;
  for (std::uint64_t seed = 1; seed <= 250; ++seed) {
    const Inputs inputs = random_inputs(seed, {12, 2, 8, 64});
    Pieces pieces(inputs);
    Dice dice(seed);
    for (const int b : pieces.problem.job.micro_batches) {
      if (b > pieces.problem.job.global_batch || pieces.tables.stages(b).variants().empty()) continue;
      const Prices prices = random_prices(dice, pieces.problem.cluster.node_groups.size());
      for (int trial = 0; trial < 6; ++trial) {
        const Candidate candidate = random_pipeline(dice, pieces, b);
        const int p = static_cast<int>(candidate.stages.size());
        if (p > pieces.space.max_stages) continue;
        const int m = dice.whole(1, pieces.problem.job.global_batch / b);
        const Chains chains = random_chains(dice, pieces, candidate);
        PipelineTimer timer(pieces.tables, candidate, chains.links);
        const int pipelines = dice.whole(1, 3);
        const PipelineCount count{pipelines, pipelines};
        const double time = timer.time(m) + tail_of(pieces, candidate, chains, count);
        if (!(time < kInfinity)) continue;
        ++compared;
        INFO("seed " << seed << ", b " << b << ", m " << m << ", p " << p << ": " << describe(inputs));
        const StageMenu menu(pieces.tables, b, count, time);
        const Pricer pricer(menu, 1, pieces.space.max_stages);
        PriceSheet sheet = pricer.sheet(m, time, prices);
        const double plain = sheet.least(std::min(p, sheet.stages()));
        sheet.sharpen(menu, kInfinity, PriceSheet::Sharpness::Slices);
        const double price = price_of(pieces, candidate, prices);
        REQUIRE(sheet.stages() >= p);
        sharper += sheet.least(p) > plain * 1.01 ? 1 : 0;
        CHECK(sheet.least(p) <= price * (1.0 + 1e-9));
        const double endless = pricer.cheapest(sheet, p, price, Pricer::Nodes::Endless).price;
        const Pricer::Priced whole = pricer.cheapest(sheet, p, price, Pricer::Nodes::Counted);
        const double priced = whole.price;
        CHECK(endless <= price * (1.0 + 1e-9));
        counted += priced > endless * 1.01 ? 1 : 0;
        CHECK(priced <= price * (1.0 + 1e-9));
        CHECK(priced >= sheet.least(p) * (1.0 - 1e-9));
        CHECK_FALSE(whole.cut);
        const Pricer::Priced hasty = pricer.cheapest(sheet, p, price, Pricer::Nodes::Counted, whole.work / 2);
        CHECK(hasty.price <= price * (1.0 + 1e-9));
        given_up += hasty.cut ? 1 : 0;
      }
    }
  }
  CHECK(compared > 500);
  CHECK(sharper > 100);
  CHECK(counted > 20);
  CHECK(given_up > 100);
}

TEST_CASE("node charges are those of equal stages where nothing else fits, and no chain exceeds them", "[search]") {
  // A node of 4 devices, where a stage of one loses 4 s at an end, a stage of two 2 s.
  ClusterSpec cluster;
  cluster.node_groups.resize(1);
  cluster.node_groups[0].devices_per_node = 4;
  const NodeCharges known = node_charges(cluster, {{0, 1}, {0, 2}, {0, 4}}, {4.0, 2.0, 0.0});
  CHECK(known.of_stage == std::vector<double>{2.0, 2.0, 0.0});
  CHECK(known.of_cut == Approx(2.0));  // two before one: 2 + 2, less the 2 at the end

  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Dice dice(seed);
    INFO("seed " << seed);
    const int node = dice.whole(2, 8);
    cluster.node_groups[0].devices_per_node = node;
    std::vector<Port> ports;
    std::vector<double> ends;
    for (int devices = 1; devices <= node; ++devices) {
      if (!dice.chance(0.6)) continue;
      ports.push_back({0, devices});
      ends.push_back(devices < node && dice.chance(0.9) ? dice.spread(0.01, 10.0) : 0.0);
    }
    if (ports.empty()) continue;
    const NodeCharges charges = node_charges(cluster, ports, ends);
    for (int trial = 0; trial < 20; ++trial) {
      double sum = 0.0;
      int left = node;
      std::size_t first = ports.size();
      std::size_t last = 0;
      while (true) {
        const auto port = static_cast<std::size_t>(dice.whole(0, static_cast<int>(ports.size()) - 1));
        if (ports[port].devices > left) break;
        left -= ports[port].devices;
        sum += charges.of_stage[port];
        if (first == ports.size()) first = port;
        last = port;
        CHECK(sum <= (ends[first] + ends[last]) * (1.0 + 1e-9));
        if (left > 0) CHECK(sum <= (ends[first] + charges.of_cut) * (1.0 + 1e-9));
      }
    }
  }
}

TEST_CASE("stages are not charged more for links than their pipeline spends", "[search]") {
  int charged = 0;
  for_each_random_space(300, [&](Pieces& pieces, Dice& dice) {
    const StageMenu menu(pieces.tables, 1, {1, 1}, dice.spread(1.0, 1e6));
    for (int trial = 0; trial < 20; ++trial) {
      const Candidate candidate = random_pipeline(dice, pieces, 1);
      const Chains chains = random_chains(dice, pieces, candidate);
      double real = 0.0;
      double parts = 0.0;
      for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
        const bool last = s + 1 == candidate.stages.size();
        int port = 0;
        while (menu.space_port(port) != candidate.stages[s].port) ++port;
        parts += menu.links(port, s == 0, last);
        real += last ? 0.0 : 2.0 * std::min(chains.links[s], menu.link_cap());
        CHECK(parts <= real + (last ? 0.0 : menu.cut_charge()) + 1e-12);
      }
      const std::vector<double> best = best_links(pieces.tables, candidate);
      charged += parts > 2.0 * std::accumulate(best.begin(), best.end(), 0.0) ? 1 : 0;
    }
  });
  CHECK(charged > 50);
}

TEST_CASE("a pipeline alone spends least on links where its nodes are full", "[search]") {
  int apart = 0;
  for_each_random_space(60, [&](Pieces& pieces, Dice& dice) {
    const Candidate candidate = random_pipeline(dice, pieces, 1);
    const auto total = [](const std::vector<double>& links) {
      return std::accumulate(links.begin(), links.end(), 0.0);
    };
    const Chains chosen = least_links(pieces.tables, candidate);
    const double least = total(chosen.links);
    CHECK(least >= total(best_links(pieces.tables, candidate)) * (1.0 - 1e-12));
    apart += least > total(best_links(pieces.tables, candidate)) * 1.001 ? 1 : 0;
    double met = kInfinity;
    for (int trial = 0; trial < 200; ++trial) met = std::min(met, total(random_chains(dice, pieces, candidate).links));
    CHECK(least <= met * (1.0 + 1e-12));
    CHECK(least >= met * (1.0 - 1e-9));
    for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
      const Port& port = pieces.space.ports[static_cast<std::size_t>(candidate.stages[s].port)];
      CHECK(chosen.taken[s] >= 0);
      CHECK(chosen.taken[s] <= room_beside(pieces.problem.cluster, port));
    }
  });
  CHECK(apart > 5);
}

TEST_CASE("prices never prove a bound above the optimum, and find no plan below it", "[search][property]") {
  int better = 0;
  for (std::uint64_t seed = 301; seed <= 420; ++seed) {
    const Inputs inputs = random_inputs(seed, {6, 3, 5, 16});
    INFO("seed " << seed << ": " << describe(inputs));
    Pieces pieces(inputs);
    const double optimum = brute_force_plan(pieces.problem).time();
    const double rate = rate_bound(pieces.problem).value();
    if (optimum == kInfinity) continue;
    for (const std::int64_t budget : {5'000'000, 20'000}) {  // with the latter most looks are cut short
      CAPTURE(budget);
      ColumnInput input;
      input.low = rate;
      input.incumbent = optimum * 1.3;
      input.budget = budget;
      const ColumnResult result = search_columns(pieces.tables, input);
      CHECK(result.bound <= optimum * (1.0 + 1e-9));
      better += budget > 20'000 && result.bound > rate * 1.01 ? 1 : 0;
      for (const Realised& realised : result.found) CHECK(realised.time >= optimum * (1.0 - 1e-9));
    }
  }
  CHECK(better > 20);
}

TEST_CASE("a credit for pipelines that a plan must have proves no bound above the optimum", "[search][property]") {
  int feasible = 0;
  int raised = 0;
  for (std::uint64_t seed = 701; seed <= 820; ++seed) {
    Inputs inputs = random_inputs(seed, {6, 3, 5, 16});
    INFO("seed " << seed << ": " << describe(inputs));
    inputs.job.constraints.pipelines = {3 + static_cast<int>(seed % 2), -1};
    Pieces pieces(inputs);
    if (pieces.space.ports.empty()) continue;
    const double optimum = brute_force_plan(pieces.problem).time();
    if (optimum == kInfinity) continue;
    ++feasible;
    const auto bound_of = [&](PipelineCount count) {
      ColumnSearch search(pieces.tables, count, optimum * 1.3, 1);
      double low = rate_bound(pieces.problem).value();
      double high = optimum * 1.2;
      while (high - low > 1e-3 * low) {
        const double middle = 0.5 * (low + high);
        const bool proved = search.can_finish(middle, 5'000'000) == ColumnSearch::Answer::Impossible;
        (proved ? low : high) = middle;
      }
      return low;
    };
    const int least = inputs.job.constraints.pipelines.min;
    const double bound = bound_of({least, pieces.space.max_pipelines});
    CHECK(bound <= optimum * (1.0 + 1e-9));
    // With two as the fewest there is no credit.
    raised += bound > bound_of({2, pieces.space.max_pipelines}) * 1.02 ? 1 : 0;
  }
  CHECK(feasible > 30);
  CHECK(raised > 10);
}

TEST_CASE("pipelines that make a part of the batch do not speak for one pipeline alone", "[search]") {
  int refuted = 0;
  for (std::uint64_t seed = 601; seed <= 640; ++seed) {
    const Inputs inputs = random_inputs(seed, {12, 2, 6, 32});
    INFO("seed " << seed << ": " << describe(inputs));
    Pieces pieces(inputs);
    if (pieces.space.ports.empty()) continue;
    const double rate = rate_bound(pieces.problem).value();
    const auto answer = [&](double target, const std::vector<Candidate>& offered) {
      ColumnSearch search(pieces.tables, {1, 1}, 4.0 * rate, 1);
      for (const Candidate& candidate : offered) search.offer(candidate);
      return search.can_finish(target, 10'000'000);
    };
    std::vector<Candidate> offered;
    for (const SimplePlan& simple : simple_plans(pieces.tables)) {
      if (simple.pipelines.size() > 1) offered.push_back(simple.pipelines.front());
    }
    for (const double factor : {1.1, 1.4, 2.0}) {
      if (answer(factor * rate, {}) != ColumnSearch::Answer::Impossible) break;
      CHECK(answer(factor * rate, offered) == ColumnSearch::Answer::Impossible);
      ++refuted;
    }
  }
  CHECK(refuted > 20);
}

TEST_CASE("the columns' bound does not depend on the number of threads", "[search]") {
  for (std::uint64_t seed = 501; seed <= 510; ++seed) {
    const Inputs inputs = random_inputs(seed, {8, 2, 6, 32});
    const auto bound = [&](int threads) {
      Pieces pieces(inputs);
      ColumnInput input;
      input.low = rate_bound(pieces.problem).value();
      input.incumbent = input.low * 4.0;
      input.threads = threads;
      input.budget = 5'000'000;
      return search_columns(pieces.tables, input).bound;
    };
    CHECK(bound(1) == bound(5));
  }
}

}  // namespace hpplan::testing
