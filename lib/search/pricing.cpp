#include "search/pricing.hpp"

#include <algorithm>
#include <cmath>
#include <memory_resource>
#include <optional>

#include "search/sum_bound.hpp"

namespace hpplan {

namespace {

/// Points of a frontier that differ by less than this part of a stage's time are merged into a better one.
constexpr double kMergeSum = 3e-2;
constexpr double kMergeWindow = 2e-3;
/// Points of a frontier that are looked at in the time of a transition.
constexpr std::int64_t kPointsPerStep = 8;
/// Rounds of tightening the window limit; it moves little after the second.
constexpr int kRounds = 3;

}  // namespace

Pricer::Pricer(const StageMenu& menu, int min_stages, int max_stages)
    : menu_(&menu), min_stages_(std::max(1, min_stages)), max_stages_(max_stages) {}

/// The DP of one (m, p): for the suffixes of k stages that start at a layer on a port, the Pareto frontier of
/// (price, S, largest window excess over lambda).
class Pricer::Table {
 public:
  Table(const StageMenu& menu, const PriceSheet& sheet, int p, double budget, Nodes nodes, std::int64_t most_work)
      : menu_(menu), sheet_(sheet), p_(p), m_(sheet.micro_batches()), counted_(nodes == Nodes::Counted),
        budget_(budget * (1.0 + kPriceRound)), most_work_(most_work), layers_(menu.layers()),
        ports_(static_cast<int>(menu.ports().size())), limit_(sheet.limit() * (1.0 + kPriceRound)) {
    least_sums_.assign(static_cast<std::size_t>(p_) + 1, 0.0);
    prefixes_ = least_before(0.0, [&](int depth) -> const std::vector<double>& { return sheet_.stage_price(depth); });
    const double multiplier = sheet.multiplier(p);
    if (multiplier > 0.0) value_prefixes(multiplier);
  }

  Priced run() {
    Priced priced;
    double rate = kInfinity;
    for (int round = 0; round < kRounds; ++round) {
      const double tighter = window_rate();
      if (tighter > rate * (1.0 - 2e-4) && round > 0) break;
      rate = tighter;
      fill(rate);
      priced.work = work_;
      if (work_ > most_work_) {
        priced.price = std::max(round > 0 ? priced.price : 0.0, sheet_.least(p_));
        priced.cut = true;
        return priced;
      }
      const Point* best = cheapest();
      if (best == nullptr) {
        priced.price = kInfinity;
        return priced;
      }
      priced.price = std::max(best->price, sheet_.least(p_));
      if (!measure()) break;
    }
    trace(priced);
    return priced;
  }

 private:
  struct Point {
    double price = 0.0;
    double sum = 0.0;     // S: of this stage and all after it, with their links
    double window = 0.0;  // largest excess over lambda of a window that starts here
    double parts = 0.0;   // of the sum that has a multiplier
    std::int32_t variant = 0;
    std::int32_t next_layer = 0;
    std::int16_t next_port = 0;
    std::int16_t room = 0;  // devices of its node that neither this stage nor those after it there hold, if counted
    std::int32_t next_point = 0;
  };
  using Frontier = std::pmr::vector<Point>;

  [[nodiscard]] Frontier& frontier(int k, int layer, int port) {
    return frontiers_[(static_cast<std::size_t>(k - 1) * static_cast<std::size_t>(layers_) +
                       static_cast<std::size_t>(layer)) *
                          static_cast<std::size_t>(ports_) +
                      static_cast<std::size_t>(port)];
  }
  /// Least price of the first p - k stages when they hold the layers before `layer`.
  [[nodiscard]] double prefix(int layer, int k) const {
    return prefixes_[static_cast<std::size_t>(k)][static_cast<std::size_t>(layer)];
  }
  [[nodiscard]] std::int16_t room_of(int port) const {
    return counted_ ? static_cast<std::int16_t>(menu_.room(port)) : std::int16_t{0};
  }
  [[nodiscard]] int in_flight(int k) const { return menu_.in_flight(k, m_); }

  /// [k][layer]: least cost of the first p - k stages when they hold the layers before `layer`; `none` for no stage.
  /// stage_costs gives the costs of stages by range class for an in-flight depth.
  template <typename StageCosts>
  [[nodiscard]] std::vector<std::vector<double>> least_before(double none, StageCosts stage_costs) {
    std::vector<std::vector<double>> least(static_cast<std::size_t>(p_) + 1,
                                           std::vector<double>(static_cast<std::size_t>(layers_) + 1, kInfinity));
    least[static_cast<std::size_t>(p_)][0] = none;
    for (int k = p_ - 1; k >= 1; --k) {
      const std::vector<double>& stage = stage_costs(in_flight(k + 1));
      const int reach = sheet_.reach(in_flight(k + 1));
      for (int layer = 1; layer < layers_; ++layer) {
        double best = kInfinity;  // not in its place, so that it stays in a register
        for (int first = std::max(0, layer - reach); first < layer; ++first) {
          const double before = least[static_cast<std::size_t>(k) + 1][static_cast<std::size_t>(first)];
          if (before == kInfinity) continue;
          best = std::min(best, before + stage[static_cast<std::size_t>(menu_.ranges().of(first, layer))]);
        }
        least[static_cast<std::size_t>(k)][static_cast<std::size_t>(layer)] = best;
      }
      work_ += range_steps(layers_, reach);
    }
    return least;
  }

  void value_prefixes(double multiplier) {
    sums_.emplace(menu_, sheet_, p_);
    sums_->set_multiplier(multiplier);
    std::vector<double> costs;
    values_ = least_before(-multiplier * sums_->most(p_), [&](int depth) -> const std::vector<double>& {
      costs.clear();
      for (const SumBound::Cost& cost : sums_->stages(depth)) costs.push_back(cost.value);
      return costs;
    });
    work_ += sums_->work();
  }
  /// Least cost of the first p - k stages with the multiplier, less the most that it may give back.
  [[nodiscard]] double value_before(int k, int layer) const {
    return values_[static_cast<std::size_t>(k)][static_cast<std::size_t>(layer)];
  }

  /// lambda: the largest average that a window of a pipeline within the limit can have.
  [[nodiscard]] double window_rate() const {
    const double time = limit_ - menu_.least_tail();
    double rate = 0.0;
    for (int w = 1; w <= p_; ++w) {
      const int around = m_ - 1 - w;
      if (around <= 0) return kInfinity;
      rate = std::max(rate, (time - least_sum(p_) - least_sum(w) + 2.0 * menu_.link_cap()) / around);
    }
    return rate * (1.0 + kPriceRound);
  }
  [[nodiscard]] double least_sum(int k) const { return least_sums_[static_cast<std::size_t>(k)]; }

  /// rate: lambda
  void fill(double rate) {
    rate_ = rate;
    frontiers_.resize(static_cast<std::size_t>(p_) * static_cast<std::size_t>(layers_) *
                      static_cast<std::size_t>(ports_));
    for (Frontier& points : frontiers_) points.clear();
    work_ += static_cast<std::int64_t>(frontiers_.size());
    merge_sum_ = kMergeSum * (limit_ / m_);
    merge_window_ = kMergeWindow * (limit_ / m_);
    for (int layer = p_ - 1; layer < layers_; ++layer) {
      for (int port = 0; port < ports_; ++port) {
        const double price = sheet_.port_price(port) + sheet_.prices().pipeline;
        if (price + prefix(layer, 1) > budget_) continue;
        for (const MenuOption& option : menu_.at(port, menu_.ranges().of(layer, layers_), 1)) {
          if (!fits(option.time, limit_ - option.tail, 1, 0.0)) continue;
          const double window = rate == kInfinity ? -kInfinity : option.time - rate;
          if (window > 0.0) continue;
          const double parts = sums_ ? sums_->part(option) : 0.0;
          const double cut = p_ > 1 ? menu_.cut_charge() : 0.0;
          if (sums_ && price + sums_->multiplier() * (parts - cut) + value_before(1, layer) > budget_) continue;
          add(frontier(1, layer, port),
              {price, option.time, window, parts, option.variant, layers_, 0, room_of(port), 0});
        }
      }
    }
    for (int k = 2; k <= p_ && work_ <= most_work_; ++k) prepend(k);
  }

  [[nodiscard]] double cheapest_rest(int k, int layer) {
    double least = kInfinity;
    for (int port = 0; port < ports_; ++port) {
      const Frontier& points = frontier(k, layer, port);
      if (!points.empty()) least = std::min(least, points.front().price);
    }
    return least;
  }

  void prepend(int k) {
    const int depth = in_flight(k);
    const int first_layer = k == p_ ? 0 : p_ - k;
    const int last_layer = k == p_ ? 0 : layers_ - k;
    const std::vector<double>& stage_price = sheet_.stage_price(depth);
    const int reach = sheet_.reach(depth);
    for (int next_layer = p_ - k + 1; next_layer <= layers_ - k + 1; ++next_layer) {
      const double rest = cheapest_rest(k - 1, next_layer);
      if (rest == kInfinity) continue;
      if (work_ > most_work_) return;
      for (int layer = std::max(first_layer, next_layer - reach); layer <= std::min(last_layer, next_layer - 1);
           ++layer) {
        const double before = prefix(layer, k);
        const int range = menu_.ranges().of(layer, next_layer);
        ++work_;
        if (before + stage_price[static_cast<std::size_t>(range)] + rest > budget_) continue;
        work_ += ports_;
        for (int port = 0; port < ports_; ++port) {
          const double own = sheet_.port_price(port);
          const double affordable = budget_ - before - own;
          if (rest > affordable) continue;
          for (const MenuOption& option : menu_.at(port, range, depth)) {
            if (m_ * option.time + option.tail > limit_) continue;
            extend({k, layer, next_layer, port, range, option, own, affordable});
          }
        }
      }
    }
  }

  struct Stage {
    int k = 1;  // stages from it on
    int layer = 0;
    int next_layer = 0;
    int port = 0;
    int range = 0;
    MenuOption option;
    double price = 0.0;       // of its devices
    double affordable = 0.0;  // for the stages after it
  };

  /// Puts the stage in front of all that may follow it: on the node of the next stage, where that has room, or on
  /// another one.
  void extend(const Stage& stage) {
    const int devices = menu_.ports()[static_cast<std::size_t>(stage.port)].devices;
    for (int next_port = 0; next_port < ports_; ++next_port) {
      const Frontier& rest = frontier(stage.k - 1, stage.next_layer, next_port);
      if (rest.empty()) continue;
      const double inner = menu_.transfer(stage.port, next_port);
      const double outer = menu_.outer_transfer(stage.port, next_port);
      if (inner == kInfinity) continue;
      const Join apart = join_of(stage, next_port, {stage.option.tail, counted_ ? outer : inner});
      Join beside = join_of(stage, next_port, {stage.option.tail, inner});
      const std::int16_t room = room_of(stage.port);
      for (std::size_t i = 0; i < rest.size(); ++i) {
        const Point& next = rest[i];
        if (next.price > stage.affordable) break;  // ascending in price
        const double price = stage.price + next.price;
        join(apart, i, price, room);
        if (!counted_ || inner >= outer || next.room < devices) continue;
        const int taken = room + devices - next.room;
        beside.time = limit_ - menu_.tail(stage.option, stage.range, taken);
        join(beside, i, price, static_cast<std::int16_t>(next.room - devices));
      }
    }
  }

  /// What the place of a stage decides.
  struct Place {
    double tail = 0.0;
    double link = 0.0;  // to the next stage
  };

  /// A stage at a place, in front of any suffix that starts on a port.
  struct Join {
    Frontier* points = nullptr;      // where the new suffixes go
    const Frontier* rest = nullptr;  // and those that it stands before
    std::int32_t variant = 0;
    std::int32_t next_layer = 0;
    std::int16_t next_port = 0;
    int k = 1;
    double stage = 0.0;   // its time
    double time = 0.0;    // for the pipeline, before the stage's tail
    double links = 0.0;   // both ways
    double capped = 0.0;  // the same as the window terms count it
    double part = 0.0;    // of the sum that has a multiplier, with the link
    double before = 0.0;  // least cost of the stages before it, with that multiplier
    double cut = 0.0;     // by which the sum is taken lower
  };

  [[nodiscard]] Join join_of(const Stage& stage, int next_port, const Place& place) {
    Join join;
    join.points = &frontier(stage.k, stage.layer, stage.port);
    join.rest = &frontier(stage.k - 1, stage.next_layer, next_port);
    join.variant = stage.option.variant;
    join.next_layer = stage.next_layer;
    join.next_port = static_cast<std::int16_t>(next_port);
    join.k = stage.k;
    join.stage = stage.option.time;
    join.time = limit_ - place.tail;
    join.links = 2.0 * place.link;
    join.capped = 2.0 * std::min(place.link, menu_.link_cap());
    join.part = (sums_ ? sums_->part(stage.option) : 0.0) + join.capped;
    if (sums_) join.before = value_before(stage.k, stage.layer);
    join.cut = stage.k < p_ ? menu_.cut_charge() : 0.0;
    return join;
  }

  /// Adds the point of a stage in front of the i-th suffix, if it may be worth its price. The point is made last:
  /// few are worth it, and one that is copied as soon as it is written costs more than all that is asked of it.
  void join(const Join& stage, std::size_t i, double price, std::int16_t room) {
    ++work_;
    const Point& next = (*stage.rest)[i];
    const double parts = stage.part + next.parts;
    if (sums_ && price + sums_->multiplier() * (parts - stage.cut) + stage.before > budget_) return;
    const double after = stage.links + next.sum;
    if (!fits(stage.stage, stage.time, stage.k, after)) return;
    double window = -kInfinity;
    if (rate_ < kInfinity) {
      window = stage.stage - rate_ + std::max(0.0, stage.capped + next.window);
      if (window > 0.0) return;
      // Below this it can no longer matter to the stage before.
      window = std::max(window, -2.0 * menu_.link_cap());
    }
    add(*stage.points, {price, stage.stage + after, window, parts, stage.variant, stage.next_layer, stage.next_port,
                        room, static_cast<std::int32_t>(i)});
  }

  /// The conditions on one stage with k - 1 stages after it that take `after` (R) in all.
  ///   time   for the pipeline, before the stage's tail
  [[nodiscard]] bool fits(double stage, double time, int k, double after) const {
    const double sum = std::max(least_sum(p_), stage + after);
    if (m_ > k) return sum + (m_ - k) * stage + after <= time && m_ * stage <= time;
    return sum + (m_ - 1) * 0.5 * stage <= time;
  }

  /// Keeps the frontier ascending in price. A point that is hardly better than a cheaper one is merged into it, with
  /// the better of both values: the frontier stays small and the prices stay lower bounds.
  void add(Frontier& points, const Point& point) {
    const auto merged = [&](Point& known) {
      if (known.room < point.room) return false;
      if (known.sum > point.sum + merge_sum_ || known.window > point.window + merge_window_) return false;
      known.sum = std::min(known.sum, point.sum);
      known.window = std::min(known.window, point.window);
      known.parts = std::min(known.parts, point.parts);
      return true;
    };
    // One point takes most of its neighbours: the last that took one is asked first.
    if (last_merged_ < points.size() && points[last_merged_].price <= point.price && merged(points[last_merged_]))
      return;
    work_ += static_cast<std::int64_t>(points.size()) / kPointsPerStep;
    std::size_t place = points.size();
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (points[i].price > point.price) {
        place = i;
        break;
      }
      if (merged(points[i])) {
        last_merged_ = i;
        return;
      }
    }
    std::size_t kept = place;
    Point added = point;
    for (std::size_t i = place; i < points.size(); ++i) {
      if (points[i].sum >= point.sum && points[i].window >= point.window && points[i].room <= point.room) {
        added.parts = std::min(added.parts, points[i].parts);
      } else {
        points[kept++] = points[i];
      }
    }
    points.resize(kept);
    points.insert(points.begin() + static_cast<std::ptrdiff_t>(place), added);
  }

  const Point* cheapest() {
    const Point* best = nullptr;
    for (int port = 0; port < ports_; ++port) {
      const Frontier& points = frontier(p_, 0, port);
      if (points.empty() || (best != nullptr && points.front().price >= best->price)) continue;
      best = &points.front();
      best_port_ = port;
    }
    return best;
  }

  /// Notes the least S of every suffix length; whether that tightens anything.
  bool measure() {
    bool tighter = false;
    for (int k = 1; k <= p_; ++k) {
      double least = kInfinity;
      for (int layer = 0; layer < layers_; ++layer) {
        for (int port = 0; port < ports_; ++port) {
          for (const Point& point : frontier(k, layer, port)) least = std::min(least, point.sum);
        }
      }
      double& known = least_sums_[static_cast<std::size_t>(k)];
      const double sound = least * (1.0 - kPriceRound);
      tighter = tighter || sound > known * (1.0 + 1e-3);
      known = std::max(known, sound);
    }
    return tighter;
  }

  void trace(Priced& priced) {
    priced.candidate.micro_batch = menu_.micro_batch();
    int port = best_port_;
    int layer = 0;
    const Point* point = &frontier(p_, 0, port).front();
    for (int k = p_; k >= 1; --k) {
      splits_.push_back(point->variant);
      priced.candidate.stages.push_back({menu_.space_port(port), {}, {layer, point->next_layer}});
      if (k == 1) break;
      const Frontier& rest = frontier(k - 1, point->next_layer, point->next_port);
      layer = point->next_layer;
      port = point->next_port;
      point = &rest[static_cast<std::size_t>(point->next_point)];
    }
    for (std::size_t s = 0; s < splits_.size(); ++s) {
      priced.candidate.stages[s].split = menu_.split(splits_[s]);
    }
  }

  const StageMenu& menu_;
  const PriceSheet& sheet_;
  int p_;
  int m_;
  bool counted_;  // nodes
  double budget_;
  std::int64_t most_work_;
  int layers_;
  int ports_;
  double limit_;
  double rate_ = kInfinity;  // lambda
  double merge_sum_ = 0.0;
  double merge_window_ = 0.0;
  std::size_t last_merged_ = 0;  // of the frontier that points are being added to, or of another
  int best_port_ = 0;
  std::vector<std::vector<double>> prefixes_;  // prices of the first p - k stages
  std::optional<SumBound> sums_;
  std::vector<std::vector<double>> values_;  // the same with the multiplier on their sum, less the most it may be
  std::vector<double> least_sums_;
  std::pmr::monotonic_buffer_resource memory_;  // many frontiers grow by a few points, and end together
  std::pmr::vector<Frontier> frontiers_{&memory_};
  std::vector<int> splits_;
  std::int64_t work_ = 0;
};

Pricer::Priced Pricer::cheapest(const PriceSheet& sheet, int p, double budget, Nodes nodes,
                                std::int64_t most_work) const {
  return Table(*menu_, sheet, p, budget, nodes, most_work).run();
}

}  // namespace hpplan
