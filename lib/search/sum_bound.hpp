#pragma once

#include <cstdint>
#include <vector>

#include "search/price_sheet.hpp"

namespace hpplan {

/// The most that the sum S of a pipeline of p stages can be that runs m micro-batches within `time` over links of at
/// most `link`; all in seconds. See SumBound.
[[nodiscard]] double most_sum(int micro_batches, int stages, double time, double link);
/// The same where m > p and the largest window average is at least `average`.
[[nodiscard]] double most_sum_above(int micro_batches, int stages, double time, double link, double average);

/// Prices of pipelines by the sum of all their stages (Lagrange): the sum S = sum of stage times + 2 sum of links of a
/// pipeline within a time is limited, so for any multiplier mu >= 0 a pipeline costs at least
///     min over pipelines of (price + mu S)  -  mu (the most that S may be),
/// and the minimum is a DP with one number per state.
///
/// With p stages, m micro-batches, links of at most c, the limit T after the tails, and lambda the largest average of a
/// window of stages (see Pricer), the path of the window of largest average takes S + S_j + (m - 1 - w_j) lambda - 2 c.
/// What stands before that window averages at most lambda too, so S_j >= S - j lambda - 2 c, and
///     2 S + (m - 1 - p) lambda <= T + 4 c        m > p, and S <= p lambda, so
///     S (m + p - 1) / p        <= T + 4 c        m > p
///     S (1 + w)  <=  T + w (4 + 2 (p - m + 1)) c        m <= p, w = (m - 1) / (2 p - m + 1)
/// The last gives weight w to the line above for the last m - 1 stages, and 1 - w to the mean of S + (m - 1) / 2 t_j <=
/// T over the others. The first is used by cases of lambda.
class SumBound {
 public:
  /// For pipelines of at most so many stages. Menu and sheet must outlive the bound.
  SumBound(const StageMenu& menu, const PriceSheet& sheet, int most_stages);

  [[nodiscard]] double most(int p) const { return most_sum(m_, p, limit_ - menu_->least_tail(), menu_->link_cap()); }
  [[nodiscard]] double most_above(int p, double average) const {
    return most_sum_above(m_, p, limit_ - menu_->least_tail(), menu_->link_cap(), average);
  }

  /// A stage's part of the sum, without links. The tail of a plan is no less than the mean of its stages' tails, and
  /// either limit of the sum falls by at least 1 / (m + p - 1) of what the tails are longer together.
  [[nodiscard]] double part(const MenuOption& option) const {
    return option.time + tail_weight_ * (option.tail - menu_->least_tail());
  }

  struct Cost {
    double value = kInfinity;  // price + multiplier * sum
    double sum = 0.0;

    friend Cost operator+(const Cost& a, const Cost& b) { return {a.value + b.value, a.sum + b.sum}; }
    friend bool operator<(const Cost& a, const Cost& b) { return a.value < b.value; }
  };
  void set_multiplier(double multiplier);
  [[nodiscard]] double multiplier() const { return multiplier_; }
  /// Leaves out stages that take longer for one micro-batch.
  void limit_stages(double time);
  /// [range class]: the least cost of a stage.
  [[nodiscard]] const std::vector<Cost>& stages(int in_flight);

  /// Raises least prices by a number of multipliers, the lowest price first, as far as they are no higher than `dear`.
  ///   sums   [p - 1] the most that the sum of a pipeline can be
  void raise(const std::vector<double>& sums, double dear, int multipliers, std::vector<double>& least,
             std::vector<double>& best_multipliers);

  [[nodiscard]] std::int64_t work() const { return work_; }

 private:
  /// One way to run a stage that fits; all in the units above.
  struct Choice {
    double price = 0.0;
    double sum = 0.0;
    double time = 0.0;
  };
  /// A range of choices_.
  struct Choices {
    std::size_t first = 0;
    std::size_t last = 0;
  };
  void add_choices(int in_flight);
  [[nodiscard]] Choices choices_of(int range_class, int in_flight);
  [[nodiscard]] Cost cheapest_stage(const Choices& choices);
  [[nodiscard]] std::vector<Cost> pipelines();

  const StageMenu* menu_;
  const PriceSheet* sheet_;
  int most_stages_;
  int m_;
  double limit_;
  double tail_weight_;
  double multiplier_ = 0.0;
  double most_stage_ = kInfinity;
  std::vector<Choice> choices_;               // those that no other beats in price, sum and time
  std::vector<std::vector<Choices>> places_;  // [in flight - 1][range class]
  std::vector<std::vector<int>> fitting_;     // [in flight - 1]: range classes that some stage fits
  std::vector<std::vector<Cost>> stages_;     // [in flight - 1][range class]
  int depths_ = 0;                            // of stages_ that are up to date
  std::int64_t work_ = 0;
};

}  // namespace hpplan
