#include "predict/recompute.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.hpp"

namespace hpplan {

namespace {

/// More ways to recompute one layer than any operator list gives; keeps the hulls on the stack.
constexpr std::size_t kMostChoices = 16;
/// Kinds of layers with something to recompute inside one stage.
constexpr std::size_t kMostItems = 16;
/// A bound that is this part above the one before it rises, whatever the rounding.
constexpr double kRising = 1e-9;

/// Lower convex hull of (freed, extra) of one layer, from (0, 0): corner j is choice `choice[j]`.
struct Hull {
  std::array<double, kMostChoices> freed{};
  std::array<double, kMostChoices> extra{};
  std::array<double, kMostChoices> slopes{};  // of the segment that starts at corner j
  std::array<int, kMostChoices> choice{};
  std::size_t corners = 1;  // the first is "nothing"

  [[nodiscard]] double slope(std::size_t segment) const { return slopes[segment]; }
};

/// Hull over the choices whose live set is at most `live_cap`.
Hull hull_of(std::span<const RecomputeChoice> choices, Bytes live_cap) {
  check_invariant(choices.size() <= kMostChoices, "few ways to recompute a layer");
  Hull hull;
  for (std::size_t c = 1; c < choices.size(); ++c) {
    if (choices[c].live > live_cap) continue;
    const double freed = choices[c].freed.value();
    const double extra = choices[c].extra.value();
    if (freed <= hull.freed[hull.corners - 1]) continue;
    while (hull.corners >= 2) {
      const std::size_t a = hull.corners - 2;
      const double before = (hull.extra[a + 1] - hull.extra[a]) * (freed - hull.freed[a]);
      if (before < (extra - hull.extra[a]) * (hull.freed[a + 1] - hull.freed[a])) break;
      --hull.corners;
    }
    hull.freed[hull.corners] = freed;
    hull.extra[hull.corners] = extra;
    hull.choice[hull.corners] = static_cast<int>(c);
    ++hull.corners;
  }
  for (std::size_t j = 0; j + 1 < hull.corners; ++j) {
    hull.slopes[j] = (hull.extra[j + 1] - hull.extra[j]) / (hull.freed[j + 1] - hull.freed[j]);
  }
  return hull;
}

/// Depth-first search over (item, choice, count) for one cap on the live set.
class Knapsack {
 public:
  Knapsack(std::span<const RecomputeItem> items, Bytes live_cap, std::int64_t need, double best)
      : items_(items), live_cap_(live_cap), need_(need), best_(best) {
    for (const RecomputeItem& item : items_) hulls_.push_back(hull_of(item.choices, live_cap));
  }

  void solve() {
    round_up();
    descend(0, items_[0].layers, last_choice(0), 0.0, 0);
  }
  [[nodiscard]] bool improved() const { return improved_; }
  [[nodiscard]] double best() const { return best_; }
  [[nodiscard]] const std::vector<RecomputeCount>& counts() const { return best_counts_; }

 private:
  [[nodiscard]] int last_choice(std::size_t item) const { return static_cast<int>(items_[item].choices.size()) - 1; }

  /// The item from `item` on whose next hull segment is cheapest per byte; items_.size() when all are used up.
  [[nodiscard]] std::size_t cheapest(std::size_t item, const std::array<std::size_t, kMostItems>& next) const {
    std::size_t best = items_.size();
    for (std::size_t i = item; i < items_.size(); ++i) {
      if (next[i] + 1 >= hulls_[i].corners) continue;
      if (best == items_.size() || hulls_[i].slope(next[i]) < hulls_[best].slope(next[best])) best = i;
    }
    return best;
  }

  /// Least extra time to free `need` more bytes with `layers` layers left of `item` and all later items, when layers
  /// may be split. Segments of one hull have rising slopes, so the cheapest slope first is optimal.
  [[nodiscard]] double relaxed(std::size_t item, int layers, double need) const {
    double cost = 0.0;
    std::array<std::size_t, kMostItems> next{};
    while (need > 0.0) {
      const std::size_t i = cheapest(item, next);
      if (i == items_.size()) return std::numeric_limits<double>::infinity();
      const Hull& hull = hulls_[i];
      const std::size_t segment = next[i]++;
      const double capacity = (hull.freed[segment + 1] - hull.freed[segment]) * (i == item ? layers : items_[i].layers);
      const double used = std::min(need, capacity);
      cost += used * hull.slope(segment);
      need -= used;
    }
    return cost;
  }

  /// A first selection: the relaxed optimum with its one split layer rounded up. Within one layer of the optimum, so
  /// that the search below is left with little.
  void round_up() {
    std::vector<std::vector<int>> at(items_.size());  // layers at each corner
    for (std::size_t i = 0; i < items_.size(); ++i) {
      at[i].assign(hulls_[i].corners, 0);
      at[i][0] = items_[i].layers;
    }
    std::array<std::size_t, kMostItems> next{};
    double need = static_cast<double>(need_);
    double cost = 0.0;
    while (need > 0.0) {
      const std::size_t i = cheapest(0, next);
      if (i == items_.size()) return;
      const Hull& hull = hulls_[i];
      const std::size_t segment = next[i]++;
      const double each = hull.freed[segment + 1] - hull.freed[segment];
      const int moved = static_cast<int>(std::min<double>(at[i][segment], std::ceil(need / each)));
      at[i][segment] -= moved;
      at[i][segment + 1] += moved;
      cost += moved * (hull.extra[segment + 1] - hull.extra[segment]);
      need -= moved * each;
    }
    if (cost >= best_) return;
    // The sum is taken again in the order of the search, so that equal selections have equal costs.
    std::int64_t freed = 0;
    double extra = 0.0;
    std::vector<RecomputeCount> counts;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      for (std::size_t corner = hulls_[i].corners; corner-- > 1;) {
        if (at[i][corner] == 0) continue;
        const RecomputeChoice& option = items_[i].choices[static_cast<std::size_t>(hulls_[i].choice[corner])];
        counts.push_back({items_[i].kind, hulls_[i].choice[corner], at[i][corner]});
        extra += option.extra.value() * at[i][corner];
        freed += option.freed.count() * at[i][corner];
      }
    }
    if (freed < need_ || extra >= best_) return;
    best_ = extra;
    best_counts_ = std::move(counts);
    improved_ = true;
  }

  /// Fewest layers that must use `choice`, because the smaller choices alone cannot free `need` more bytes: the last
  /// choice of all is so decided without a search. Choices are ascending in freed.
  [[nodiscard]] int fewest(std::size_t item, int layers, int choice, std::int64_t need) const {
    if (item + 1 < items_.size()) return 0;
    const auto& choices = items_[item].choices;
    const std::int64_t less = choices[static_cast<std::size_t>(choice) - 1].freed.count();
    const std::int64_t step = choices[static_cast<std::size_t>(choice)].freed.count() - less;
    const std::int64_t missing = need - less * layers;
    if (missing <= 0) return 0;
    return step <= 0 ? layers + 1 : static_cast<int>(std::min<std::int64_t>(layers + 1, (missing + step - 1) / step));
  }

  void descend(std::size_t item, int layers, int choice, double extra, std::int64_t freed) {
    if (freed >= need_) {
      if (extra < best_) {
        best_ = extra;
        best_counts_ = current_;
        improved_ = true;
      }
      return;
    }
    if (item >= items_.size()) return;
    if (choice == 0) {
      if (item + 1 < items_.size()) descend(item + 1, items_[item + 1].layers, last_choice(item + 1), extra, freed);
      return;
    }
    const RecomputeChoice& option = items_[item].choices[static_cast<std::size_t>(choice)];
    const int most = option.live > live_cap_ ? 0 : layers;
    double before = std::numeric_limits<double>::infinity();
    for (int count = fewest(item, layers, choice, need_ - freed); count <= most; ++count) {
      const double spent = extra + option.extra.value() * count;
      if (spent >= best_) break;
      const std::int64_t gained = freed + option.freed.count() * count;
      // Many selections tie with the relaxed optimum: a gain below one part in 10^12 is rounding, not a better answer.
      const double bound = spent + relaxed(item, layers - count, static_cast<double>(need_ - gained));
      if (bound < best_ * (1.0 - 1e-12)) {
        if (count > 0) current_.push_back({items_[item].kind, choice, count});
        descend(item, layers - count, choice - 1, spent, gained);
        if (count > 0) current_.pop_back();
      } else if (bound > before * (1.0 + kRising)) {
        break;  // the relaxed cost is convex in the count
      }
      before = bound;
      if (gained >= need_) break;
    }
  }

  std::span<const RecomputeItem> items_;
  Bytes live_cap_;
  std::int64_t need_;
  double best_;
  bool improved_ = false;
  std::vector<Hull> hulls_;
  std::vector<RecomputeCount> current_;
  std::vector<RecomputeCount> best_counts_;
};

std::vector<Bytes> live_levels(std::span<const RecomputeItem> items) {
  std::vector<Bytes> levels;
  for (const RecomputeItem& item : items) {
    if (item.layers == 0) continue;
    for (const RecomputeChoice& choice : item.choices.subspan(1)) levels.push_back(choice.live);
  }
  std::sort(levels.begin(), levels.end());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  return levels;
}

/// Most bytes per micro-batch that choices with a live set of at most `cap` free.
Bytes most_freed(std::span<const RecomputeItem> items, Bytes cap) {
  Bytes total;
  for (const RecomputeItem& item : items) {
    Bytes best;
    for (const RecomputeChoice& choice : item.choices) {
      if (choice.live <= cap) best = std::max(best, choice.freed);
    }
    total += best * item.layers;
  }
  return total;
}

}  // namespace

std::optional<RecomputeSelection> cheapest_recompute(std::span<const RecomputeItem> items, int in_flight,
                                                     Bytes excess) {
  RecomputeSelection selection;
  if (excess <= Bytes{0}) return selection;
  check_invariant(items.size() <= kMostItems, "few kinds of layers in a stage");
  double best = std::numeric_limits<double>::infinity();
  bool found = false;
  for (const Bytes cap : live_levels(items)) {
    // in_flight * freed >= excess + cap, rounded up to whole bytes per micro-batch
    const std::int64_t target = (excess + cap).count();
    const std::int64_t need = (target + in_flight - 1) / in_flight;
    if (most_freed(items, cap).count() < need) continue;
    Knapsack knapsack(items, cap, need, best);
    knapsack.solve();
    if (!knapsack.improved()) continue;
    found = true;
    best = knapsack.best();
    selection.counts = knapsack.counts();
  }
  if (!found) return std::nullopt;
  for (const RecomputeCount& count : selection.counts) {
    for (const RecomputeItem& item : items) {
      if (item.kind != count.kind) continue;
      const RecomputeChoice& choice = item.choices[static_cast<std::size_t>(count.choice)];
      selection.extra += choice.extra * static_cast<double>(count.layers);
      selection.freed += choice.freed * count.layers;
      selection.live = std::max(selection.live, choice.live);
    }
  }
  return selection;
}

Bytes largest_relief(std::span<const RecomputeItem> items, int in_flight) {
  Bytes best;
  for (const Bytes cap : live_levels(items)) best = std::max(best, most_freed(items, cap) * in_flight - cap);
  return best;
}

}  // namespace hpplan
