#include "predict/recompute.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "support/catch.hpp"

using namespace hpplan;

namespace {

struct Instance {
  std::vector<std::vector<RecomputeChoice>> choices;
  std::vector<RecomputeItem> items;
  int in_flight = 1;
  Bytes excess;
};

/// Choices ascend in freed and extra, as the profile gives them; live sets are free to be anything.
Instance random_instance(std::mt19937& random) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  Instance instance;
  const int kinds = pick(1, 3);
  for (int kind = 0; kind < kinds; ++kind) {
    std::vector<RecomputeChoice> choices(1);
    int freed = 0;
    int extra = 0;
    for (int c = pick(1, 3); c > 0; --c) {
      RecomputeChoice choice;
      choice.operators = {"operator"};
      choice.freed = Bytes{freed += pick(1, 12)};
      choice.extra = Seconds{static_cast<double>(extra += pick(1, 9))};
      choice.live = Bytes{pick(0, 15)};
      choices.push_back(std::move(choice));
    }
    instance.choices.push_back(std::move(choices));
  }
  for (int kind = 0; kind < kinds; ++kind) {
    instance.items.push_back({kind, pick(0, 4), instance.choices[static_cast<std::size_t>(kind)]});
  }
  instance.in_flight = pick(1, 4);
  instance.excess = Bytes{pick(-5, 160)};
  return instance;
}

/// Calls `visit(extra, relief)` for every way to spread the layers over the choices.
void for_all_selections(const Instance& instance, const std::function<void(double, Bytes)>& visit) {
  const std::function<void(std::size_t, std::size_t, int, double, Bytes, Bytes)> descend =
      [&](std::size_t item, std::size_t choice, int layers, double extra, Bytes freed, Bytes live) {
        if (item == instance.items.size()) {
          visit(extra, freed * instance.in_flight - live);
          return;
        }
        const RecomputeItem& current = instance.items[item];
        if (choice == current.choices.size()) {
          const int next = item + 1 < instance.items.size() ? instance.items[item + 1].layers : 0;
          descend(item + 1, 1, next, extra, freed, live);
          return;
        }
        const RecomputeChoice& option = current.choices[choice];
        for (int count = 0; count <= layers; ++count) {
          descend(item, choice + 1, layers - count, extra + option.extra.value() * count, freed + option.freed * count,
                  count > 0 ? std::max(live, option.live) : live);
        }
      };
  descend(0, 1, instance.items[0].layers, 0.0, Bytes{0}, Bytes{0});
}

}  // namespace

TEST_CASE("the cheapest recomputation is that of brute force", "[recompute][property]") {
  std::mt19937 random(7);
  int feasible = 0;
  int infeasible = 0;
  for (int round = 0; round < 1500; ++round) {
    CAPTURE(round);
    const Instance instance = random_instance(random);
    double best = std::numeric_limits<double>::infinity();
    Bytes most;
    for_all_selections(instance, [&](double extra, Bytes relief) {
      if (relief >= instance.excess) best = std::min(best, extra);
      most = std::max(most, relief);
    });
    const auto found = cheapest_recompute(instance.items, instance.in_flight, instance.excess);
    REQUIRE(found.has_value() == std::isfinite(best));
    CHECK(largest_relief(instance.items, instance.in_flight) == most);
    if (!found) {
      ++infeasible;
      continue;
    }
    ++feasible;
    CHECK(found->extra.value() == Approx(best).margin(1e-12));
    CHECK(found->freed * instance.in_flight - found->live >= instance.excess);
    // The counts are what the sums say.
    double extra = 0.0;
    for (const RecomputeCount& count : found->counts) {
      CHECK(count.choice > 0);
      CHECK(count.layers > 0);
      extra +=
          instance.choices[static_cast<std::size_t>(count.kind)][static_cast<std::size_t>(count.choice)].extra.value() *
          count.layers;
    }
    CHECK(extra == Approx(found->extra.value()).margin(1e-12));
  }
  CHECK(feasible > 300);
  CHECK(infeasible > 100);
}

TEST_CASE("what fits already recomputes nothing", "[recompute]") {
  std::mt19937 random(3);
  const Instance instance = random_instance(random);
  const auto found = cheapest_recompute(instance.items, instance.in_flight, Bytes{0});
  REQUIRE(found);
  CHECK(found->counts.empty());
  CHECK(found->extra == Seconds{0.0});
}
