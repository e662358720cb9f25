#include "predict/recompute.hpp"

#include <algorithm>
#include <limits>

namespace hpplan {

namespace {

/// One step along a lower convex hull: `freed` bytes more per layer at `slope` seconds per byte.
struct HullSegment {
  double freed = 0.0;
  double slope = 0.0;
};

/// Lower convex hull of (freed, extra) over choices whose live set is at most `live_cap`, starting at (0, 0).
std::vector<HullSegment> hull_of(std::span<const RecomputeChoice> choices, Bytes live_cap) {
  std::vector<std::pair<double, double>> points{{0.0, 0.0}};
  for (const RecomputeChoice& choice : choices.subspan(1)) {
    if (choice.live > live_cap) continue;
    const std::pair<double, double> point{choice.freed.value(), choice.extra.value()};
    while (points.size() >= 2) {
      const auto& a = points[points.size() - 2];
      const auto& b = points.back();
      if ((b.second - a.second) * (point.first - a.first) < (point.second - a.second) * (b.first - a.first)) break;
      points.pop_back();
    }
    if (point.first > points.back().first) points.push_back(point);
  }
  std::vector<HullSegment> segments;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double freed = points[i].first - points[i - 1].first;
    segments.push_back({freed, (points[i].second - points[i - 1].second) / freed});
  }
  return segments;
}

/// Depth-first search over (item, choice, count) for one cap on the live set.
class Knapsack {
 public:
  Knapsack(std::span<const RecomputeItem> items, Bytes live_cap, std::int64_t need, double best)
      : items_(items), live_cap_(live_cap), need_(need), best_(best) {
    for (const RecomputeItem& item : items_) hulls_.push_back(hull_of(item.choices, live_cap));
  }

  void solve() {
    current_.clear();
    descend(0, items_.empty() ? 0 : items_[0].layers, items_.empty() ? 0 : last_choice(0), 0.0, 0);
  }
  [[nodiscard]] bool improved() const { return improved_; }
  [[nodiscard]] double best() const { return best_; }
  [[nodiscard]] const std::vector<RecomputeCount>& counts() const { return best_counts_; }

 private:
  [[nodiscard]] int last_choice(std::size_t item) const { return static_cast<int>(items_[item].choices.size()) - 1; }

  /// Least extra time to free `need` more bytes with `layers` layers left of `item` and all later items; fractional.
  [[nodiscard]] double relaxed(std::size_t item, int layers, double need) const {
    double cost = 0.0;
    // Segments of one hull have rising slopes, so taking the cheapest slope first over all items is optimal.
    std::vector<std::size_t> next(items_.size(), 0);
    while (need > 0.0) {
      std::size_t cheapest = items_.size();
      for (std::size_t i = item; i < items_.size(); ++i) {
        if (next[i] >= hulls_[i].size()) continue;
        if ((i == item ? layers : items_[i].layers) == 0) continue;
        if (cheapest == items_.size() || hulls_[i][next[i]].slope < hulls_[cheapest][next[cheapest]].slope) cheapest = i;
      }
      if (cheapest == items_.size()) return std::numeric_limits<double>::infinity();
      const HullSegment& segment = hulls_[cheapest][next[cheapest]++];
      const double capacity = segment.freed * (cheapest == item ? layers : items_[cheapest].layers);
      const double used = std::min(need, capacity);
      cost += used * segment.slope;
      need -= used;
    }
    return cost;
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
    for (int count = 0; count <= most; ++count) {
      const double spent = extra + option.extra.value() * count;
      const std::int64_t gained = freed + option.freed.count() * count;
      // A rounding error must not cut the optimum off: keep what is within one part in 10^12.
      const double bound = spent + relaxed(item, layers - count, static_cast<double>(need_ - gained));
      if (bound * (1.0 - 1e-12) >= best_) {
        if (spent >= best_) break;
        continue;
      }
      if (count > 0) current_.push_back({items_[item].kind, choice, count});
      descend(item, layers - count, choice - 1, spent, gained);
      if (count > 0) current_.pop_back();
      if (gained >= need_) break;
    }
  }

  std::span<const RecomputeItem> items_;
  Bytes live_cap_;
  std::int64_t need_;
  double best_;
  bool improved_ = false;
  std::vector<std::vector<HullSegment>> hulls_;
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

std::optional<RecomputeSelection> cheapest_recompute(std::span<const RecomputeItem> items, int in_flight, Bytes excess) {
  RecomputeSelection selection;
  if (excess <= Bytes{0}) return selection;
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
