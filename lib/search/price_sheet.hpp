#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "search/stage_menu.hpp"

namespace hpplan {

/// What one device of each node group, and the right to one more pipeline, are worth in samples.
struct Prices {
  std::vector<double> device;
  double pipeline = 0.0;
  double credit = 0.0;  // samples that a pipeline is taken to make beside its own, where a plan must have several
};

/// Comparisons of prices and times that drop something allow for rounding: a bound must never exceed the truth.
inline constexpr double kPriceRound = 1e-9;

/// Work of a look at the ranges of up to `reach` layers that start in so many places, in transitions: such a look is
/// some four times quicker than a transition each.
[[nodiscard]] constexpr std::int64_t range_steps(int starts, int reach) {
  return static_cast<std::int64_t>(starts) * reach / 4 + 1;
}

/// [layer]: least cost of one stage more in front of those whose least costs are `rest`, for its first layers in
/// `starts`; infinity, the cost of nothing, elsewhere. k stages hold at least k layers: from layers - k + 1 on there is
/// no start.
///   reach   most layers of a stage
///   stage   [range class]
template <typename Cost>
[[nodiscard]] std::vector<Cost> one_stage_more(const StageMenu& menu, LayerRange starts, int reach,
                                               const std::vector<Cost>& stage, const std::vector<Cost>& rest) {
  std::vector<Cost> next(rest.size(), Cost{kInfinity});
  for (int layer = starts.first; layer < starts.last; ++layer) {
    Cost& best = next[static_cast<std::size_t>(layer)];
    for (int end = layer + 1; end <= std::min(starts.last, layer + reach); ++end) {
      const Cost cost =
          rest[static_cast<std::size_t>(end)] + stage[static_cast<std::size_t>(menu.ranges().of(layer, end))];
      if (cost < best) best = cost;
    }
  }
  return next;
}

class SumBound;

/// Lower bounds of what pipelines cost that run one number of micro-batches within a time, for every number of stages
/// at once: the least price over stages that fit on their own.
class PriceSheet {
 public:
  PriceSheet() = default;
  /// limit: of the pipeline's time and what follows it, in seconds. Depths that no pipeline can have are left out.
  PriceSheet(const StageMenu& menu, int min_stages, int max_stages, int micro_batches, double limit,
             const Prices& prices);

  enum class Sharpness { Sums, Slices };
  /// Raises the least prices that are no higher than `dear`.
  ///   Sums     by multipliers on the sum of all stages
  ///   Slices   and by cases of the largest window average, at some five times the work
  void sharpen(const StageMenu& menu, double dear, Sharpness sharpness);

  [[nodiscard]] int micro_batches() const { return micro_batches_; }
  [[nodiscard]] double limit() const { return limit_; }
  [[nodiscard]] const Prices& prices() const { return prices_; }
  /// Number of stages of the deepest pipeline that may exist.
  [[nodiscard]] int stages() const { return static_cast<int>(least_.size()); }
  /// Least price of a pipeline of p stages; infinity if none exists.
  [[nodiscard]] double least(int p) const { return least_[static_cast<std::size_t>(p - 1)]; }
  /// The multiplier on the sum of all stages that alone bounds it best, in samples per second; 0 if there is none.
  [[nodiscard]] double multiplier(int p) const { return multipliers_[static_cast<std::size_t>(p - 1)]; }
  [[nodiscard]] double port_price(int port) const { return port_price_[static_cast<std::size_t>(port)]; }
  /// [range class]: least price of a stage that fits.
  [[nodiscard]] const std::vector<double>& stage_price(int in_flight) const {
    return stage_price_[static_cast<std::size_t>(in_flight - 1)];
  }
  /// Most layers of a stage that fits.
  [[nodiscard]] int reach(int in_flight) const { return reach_[static_cast<std::size_t>(in_flight - 1)]; }
  [[nodiscard]] std::int64_t work() const { return work_; }

 private:
  /// Prices the stages of the next depth.
  ///   ports    ascending in price
  ///   cheapest [range class] the first of them that fits at the depth before; then that of this depth
  void price_stages(const StageMenu& menu, const std::vector<int>& ports, std::vector<std::size_t>& cheapest);
  void slice(double dear, SumBound& bound);

  int micro_batches_ = 1;
  double limit_ = 0.0;
  Prices prices_;
  std::vector<double> port_price_;
  std::vector<std::vector<double>> stage_price_;  // [in flight - 1][range class]
  std::vector<int> reach_;                        // [in flight - 1]
  std::vector<double> least_;                     // [p - 1]
  std::vector<double> multipliers_;               // [p - 1]
  std::int64_t work_ = 0;
};

}  // namespace hpplan
