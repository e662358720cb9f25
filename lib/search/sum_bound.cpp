#include "search/sum_bound.hpp"

#include <algorithm>

namespace hpplan {

namespace {

/// Factor between multipliers that do not yet enclose the best one.
constexpr double kMultiplierStep = 3.0;
/// Ways to run a stage that are looked at in the time of a transition.
constexpr std::int64_t kChoicesPerStep = 4;

}  // namespace

double most_sum(int micro_batches, int stages, double time, double link) {
  const int m = micro_batches;
  const int p = stages;
  if (m > p) return (time + 4.0 * link) * p / (m + p - 1);
  const double weight = (m - 1.0) / (2 * p - m + 1);
  return (time + weight * (4.0 + 2.0 * (p - m + 1)) * link) / (1.0 + weight);
}

double most_sum_above(int micro_batches, int stages, double time, double link, double average) {
  const double by_average = 0.5 * (time + 4.0 * link - (micro_batches - 1 - stages) * average);
  return std::min(most_sum(micro_batches, stages, time, link), by_average);
}

SumBound::SumBound(const StageMenu& menu, const PriceSheet& sheet, int most_stages)
    : menu_(&menu), sheet_(&sheet), most_stages_(most_stages), m_(sheet.micro_batches()),
      limit_(sheet.limit() * (1.0 + kPriceRound)), tail_weight_(1.0 / (m_ + most_stages - 1)) {}

void SumBound::set_multiplier(double multiplier) {
  multiplier_ = multiplier;
  depths_ = 0;
}

void SumBound::limit_stages(double time) {
  most_stage_ = time * (1.0 + kPriceRound);
  depths_ = 0;
}

SumBound::Choices SumBound::choices_of(int range_class, int in_flight) {
  const LayerRange range = menu_->ranges().example(range_class);
  const bool first = range.first == 0;
  const bool last = range.last == menu_->layers();
  const std::size_t begin = choices_.size();
  const auto add = [&](const Choice& choice) {
    const auto beats = [](const Choice& a, const Choice& b) {
      return a.price <= b.price && a.sum <= b.sum && a.time <= b.time;
    };
    const auto known = choices_.begin() + static_cast<std::ptrdiff_t>(begin);
    if (std::any_of(known, choices_.end(), [&](const Choice& other) { return beats(other, choice); })) return;
    choices_.erase(std::remove_if(known, choices_.end(), [&](const Choice& other) { return beats(choice, other); }),
                   choices_.end());
    choices_.push_back(choice);
  };
  for (int port = 0; port < static_cast<int>(menu_->ports().size()); ++port) {
    const double price = sheet_->port_price(port);
    const double links = menu_->links(port, first, last);
    const auto options = menu_->at(port, range_class, in_flight);
    work_ += static_cast<std::int64_t>(options.size());
    for (const MenuOption& option : options) {
      if (m_ * option.time + option.tail <= limit_) add({price, part(option) + links, option.time});
    }
  }
  return {begin, choices_.size()};
}

void SumBound::add_choices(int in_flight) {
  const std::vector<double>& plain = sheet_->stage_price(in_flight);
  std::vector<Choices> places(plain.size());
  std::vector<int> fitting;
  for (std::size_t c = 0; c < plain.size(); ++c) {
    if (plain[c] == kInfinity) continue;
    fitting.push_back(static_cast<int>(c));
    const bool same = menu_->same_as_shallower(static_cast<int>(c), in_flight);
    places[c] = same ? places_.back()[c] : choices_of(static_cast<int>(c), in_flight);
  }
  places_.push_back(std::move(places));
  fitting_.push_back(std::move(fitting));
}

SumBound::Cost SumBound::cheapest_stage(const Choices& choices) {
  Cost best;
  for (std::size_t i = choices.first; i < choices.last; ++i) {
    const Choice& choice = choices_[i];
    const double value = choice.price + multiplier_ * choice.sum;
    if (value < best.value && choice.time <= most_stage_) best = {value, choice.sum};
  }
  work_ += static_cast<std::int64_t>(choices.last - choices.first) / kChoicesPerStep;
  return best;
}

const std::vector<SumBound::Cost>& SumBound::stages(int in_flight) {
  while (static_cast<int>(places_.size()) < in_flight) add_choices(static_cast<int>(places_.size()) + 1);
  for (; depths_ < in_flight; ++depths_) {
    const auto here = static_cast<std::size_t>(depths_);
    const std::vector<Choices>& places = places_[here];
    if (stages_.size() == here) stages_.emplace_back(places.size());
    // Most ranges of layers are too large for any stage: their costs stay infinite.
    for (const int c : fitting_[here]) {
      const auto place = static_cast<std::size_t>(c);
      const bool same = menu_->same_as_shallower(c, depths_ + 1);
      stages_[here][place] = same ? stages_[here - 1][place] : cheapest_stage(places[place]);
    }
    work_ += static_cast<std::int64_t>(places.size()) / kChoicesPerStep;
  }
  return stages_[static_cast<std::size_t>(in_flight) - 1];
}

/// [p - 1]: least cost of a pipeline of p stages.
std::vector<SumBound::Cost> SumBound::pipelines() {
  const int layers = menu_->layers();
  std::vector<Cost> least;
  std::vector<Cost> rest(static_cast<std::size_t>(layers) + 1);  // [layer]: of the last k stages
  rest[static_cast<std::size_t>(layers)] = {sheet_->prices().pipeline, 0.0};
  int widest = 0;  // most layers of any of the last k stages
  for (int k = 1; k <= most_stages_; ++k) {
    const int in_flight = menu_->in_flight(k, m_);
    const std::vector<Cost>& stage = stages(in_flight);
    const int reach = sheet_->reach(in_flight);
    widest = std::max(widest, reach);
    const int nearest = std::max(0, layers - k * widest);
    rest = one_stage_more(*menu_, {nearest, layers - k + 1}, reach, stage, rest);
    work_ += range_steps(layers - k + 1 - nearest, reach);
    least.push_back(rest[0]);
  }
  return least;
}

namespace {

/// What is known of the multiplier of one number of stages: too small at one end, large enough at the other.
struct MultiplierEnds {
  double low = 0.0;
  double high = kInfinity;
  SumBound::Cost at_low;
  SumBound::Cost at_high;

  [[nodiscard]] bool open() const { return high > low * (1.0 + 1e-3); }

  /// The multiplier to try next.
  [[nodiscard]] double next(double guess) const {
    if (low == 0.0 && high == kInfinity) return guess;
    if (high == kInfinity) return low * kMultiplierStep;
    if (low == 0.0) return high / kMultiplierStep;
    // Where the lines of both ends meet: no multiplier between them gives more than that.
    const double low_price = at_low.value - low * at_low.sum;
    const double high_price = at_high.value - high * at_high.sum;
    const double meet = (high_price - low_price) / (at_low.sum - at_high.sum);
    return meet > low && meet < high ? meet : 0.5 * (low + high);
  }

  void note(double multiplier, const SumBound::Cost& cost, double most) {
    if (cost.value == kInfinity || cost.sum <= most) {
      if (multiplier >= high) return;
      high = multiplier;
      at_high = cost;
    } else if (multiplier > low) {
      low = multiplier;
      at_low = cost;
    }
  }
};

}  // namespace

void SumBound::raise(const std::vector<double>& sums, double dear, int multipliers, std::vector<double>& least,
                     std::vector<double>& best_multipliers) {
  std::vector<MultiplierEnds> ends(sums.size());
  for (; multipliers > 0; --multipliers) {
    std::size_t p = sums.size();
    for (std::size_t k = 0; k < sums.size(); ++k) {
      if (least[k] > dear || !ends[k].open()) continue;
      if (p == sums.size() || least[k] < least[p]) p = k;
    }
    if (p == sums.size()) return;
    set_multiplier(ends[p].next(best_multipliers[p] > 0.0 ? best_multipliers[p] : least[p] / sums[p]));
    const std::vector<Cost> costs = pipelines();
    for (std::size_t k = 0; k < sums.size(); ++k) {
      const double value = costs[k].value - multiplier_ * sums[k];
      if (value > least[k]) {
        least[k] = value;
        best_multipliers[k] = multiplier_;
      }
      ends[k].note(multiplier_, costs[k], sums[k]);
    }
  }
}

}  // namespace hpplan
