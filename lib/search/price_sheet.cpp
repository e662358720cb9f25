#include "search/price_sheet.hpp"

#include <algorithm>
#include <numeric>

#include "search/sum_bound.hpp"

namespace hpplan {

namespace {

/// Multipliers that are tried for one sheet.
constexpr int kMultipliers = 6;
/// Cases of the largest window average, and multipliers that are tried for each.
constexpr int kSlices = 16;
constexpr int kSliceMultipliers = 2;

}  // namespace

PriceSheet::PriceSheet(const StageMenu& menu, int min_stages, int max_stages, int micro_batches, double limit,
                       const Prices& prices)
    : micro_batches_(micro_batches), limit_(limit), prices_(prices) {
  for (const Port& port : menu.ports()) {
    port_price_.push_back(prices.device[static_cast<std::size_t>(port.group)] * port.devices);
  }
  std::vector<int> ports(port_price_.size());
  std::iota(ports.begin(), ports.end(), 0);
  std::stable_sort(ports.begin(), ports.end(), [&](int a, int b) { return port_price(a) < port_price(b); });
  std::vector<std::size_t> cheapest(static_cast<std::size_t>(menu.ranges().count()), 0);
  const int layers = menu.layers();
  std::vector<double> rest(static_cast<std::size_t>(layers) + 1, kInfinity);  // [layer]: of the last k stages
  rest[static_cast<std::size_t>(layers)] = prices.pipeline;
  int widest = 0;  // most layers of any of the last k stages
  for (int k = 1; k <= std::min(max_stages, layers); ++k) {
    const int in_flight = menu.in_flight(k, micro_batches);
    if (static_cast<int>(stage_price_.size()) < in_flight) price_stages(menu, ports, cheapest);
    widest = std::max(widest, reach(in_flight));
    const int nearest = std::max(0, layers - k * widest);
    rest = one_stage_more(menu, {nearest, layers - k + 1}, reach(in_flight), stage_price(in_flight), rest);
    work_ += range_steps(layers - k + 1 - nearest, reach(in_flight));
    if (*std::min_element(rest.begin(), rest.end()) == kInfinity) break;
    least_.push_back(k >= min_stages ? rest[0] : kInfinity);
  }
  multipliers_.assign(least_.size(), 0.0);
}

void PriceSheet::price_stages(const StageMenu& menu, const std::vector<int>& ports,
                              std::vector<std::size_t>& cheapest) {
  const int in_flight = static_cast<int>(stage_price_.size()) + 1;
  const double most_time = limit_ * (1.0 + kPriceRound);
  const RangeClasses& ranges = menu.ranges();
  std::vector<double> stage(static_cast<std::size_t>(ranges.count()), kInfinity);
  int reach = 0;
  for (int c = 0; c < ranges.count(); ++c) {
    const auto fits = [&](int port) {
      const auto options = menu.at(port, c, in_flight);
      return std::any_of(options.begin(), options.end(), [&](const MenuOption& option) {
        return micro_batches_ * option.time + option.tail <= most_time;
      });
    };
    // More in flight, no stage is faster: a port that did not fit does not fit now.
    std::size_t& place = cheapest[static_cast<std::size_t>(c)];
    if (!menu.same_as_shallower(c, in_flight)) {
      while (place < ports.size() && !fits(ports[place])) ++place;
    }
    if (place == ports.size()) continue;
    stage[static_cast<std::size_t>(c)] = port_price(ports[place]);
    const LayerRange range = ranges.example(c);
    reach = std::max(reach, range.last - range.first);
  }
  work_ += ranges.count();
  stage_price_.push_back(std::move(stage));
  reach_.push_back(reach);
}

void PriceSheet::sharpen(const StageMenu& menu, double dear, Sharpness sharpness) {
  int most = stages();
  while (most > 0 && least(most) > dear) --most;
  if (most == 0) return;
  SumBound bound(menu, *this, most);
  std::vector<double> sums;
  for (int p = 1; p <= most; ++p) sums.push_back(bound.most(p));
  bound.raise(sums, dear, kMultipliers, least_, multipliers_);
  if (sharpness == Sharpness::Slices) slice(dear, bound);
  work_ += bound.work();
}

void PriceSheet::slice(double dear, SumBound& bound) {
  int most = std::min(stages(), micro_batches_ - 1);  // deeper pipelines have no case of their own
  while (most > 0 && least(most) > dear) --most;
  if (most == 0) return;
  // Stages of a balanced pipeline take between these times for a micro-batch; the first and the last case are open.
  const double top = limit_ / micro_batches_;
  const double bottom = limit_ / (micro_batches_ + most - 1);
  std::vector<double> least_of_all(static_cast<std::size_t>(most), kInfinity);
  double low = 0.0;
  for (int slice = 0; slice <= kSlices; ++slice) {
    const double high = slice == kSlices ? kInfinity : bottom + (top - bottom) * slice / (kSlices - 1);
    std::vector<double> sums;
    for (int p = 1; p <= most; ++p) sums.push_back(bound.most_above(p, low));
    std::vector<double> least(least_.begin(), least_.begin() + most);
    std::vector<double> multipliers(multipliers_.begin(), multipliers_.begin() + most);
    bound.limit_stages(high);
    bound.raise(sums, dear, kSliceMultipliers, least, multipliers);
    for (std::size_t k = 0; k < least.size(); ++k) least_of_all[k] = std::min(least_of_all[k], least[k]);
    low = high;
  }
  std::copy(least_of_all.begin(), least_of_all.end(), least_.begin());
}

}  // namespace hpplan
