#include <algorithm>
#include <numeric>

#include "predict/rate_bound.hpp"
#include "search/column_engine.hpp"
#include "search/column_search.hpp"
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
  int first = 0;
  while (first < layers) {
    const int last = dice.whole(first + 1, layers);
    const Variant& variant =
        stages.variants()[static_cast<std::size_t>(dice.whole(0, static_cast<int>(stages.variants().size()) - 1))];
    candidate.stages.push_back({variant.port, variant.split, {first, last}});
    first = last;
  }
  return candidate;
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
  int given_up = 0;
  for (std::uint64_t seed = 1; seed <= 250; ++seed) {
    const Inputs inputs = random_inputs(seed, {8, 2, 6, 64});
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
        PipelineTimer timer(pieces.tables, candidate, best_links(pieces.tables, candidate));
        double tail = 0.0;
        for (const CandidateStage& stage : candidate.stages) {
          tail = std::max(tail, stage_tail(pieces.tables, b, stage, {1, 1}));
        }
        const double time = timer.time(m) + tail;
        if (!(time < kInfinity)) continue;
        ++compared;
        INFO("seed " << seed << ", b " << b << ", m " << m << ", p " << p << ": " << describe(inputs));
        const StageMenu menu(pieces.tables, b, {1, 1}, time);
        const Pricer pricer(menu, 1, pieces.space.max_stages);
        PriceSheet sheet = pricer.sheet(m, time, prices);
        const double plain = sheet.least(std::min(p, sheet.stages()));
        sheet.sharpen(menu, kInfinity, PriceSheet::Sharpness::Slices);
        const double price = price_of(pieces, candidate, prices);
        REQUIRE(sheet.stages() >= p);
        sharper += sheet.least(p) > plain * 1.01 ? 1 : 0;
        CHECK(sheet.least(p) <= price * (1.0 + 1e-9));
        const Pricer::Priced whole = pricer.cheapest(sheet, p, price);
        const double priced = whole.price;
        CHECK(priced <= price * (1.0 + 1e-9));
        CHECK(priced >= sheet.least(p) * (1.0 - 1e-9));
        CHECK_FALSE(whole.cut);
        const Pricer::Priced hasty = pricer.cheapest(sheet, p, price, whole.work / 2);
        CHECK(hasty.price <= price * (1.0 + 1e-9));
        given_up += hasty.cut ? 1 : 0;
      }
    }
  }
  CHECK(compared > 500);
  CHECK(sharper > 100);
  CHECK(given_up > 100);
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
