#pragma once

#include <cstddef>
#include <vector>

namespace hpplan {

/// The linear program  max sum value_c x_c  subject to  sum use_c[r] x_c <= stock[r],  x >= 0,  with few rows and a
/// growing number of columns: pipelines (columns) out of devices (rows), search-notes C.11.
class PackingLp {
 public:
  /// stock: of each row, positive.
  explicit PackingLp(std::vector<double> stock);

  /// use: at least one positive entry, none negative.
  void add(std::vector<double> use, double value);
  void set_value(std::size_t column, double value) { values_[column] = value; }

  struct Solution {
    double value = 0.0;
    std::vector<double> prices;   // dual, of each row, at least 0
    std::vector<double> amounts;  // of each column
  };
  /// By the primal simplex method from the empty packing: the largest gains first, then by Bland's rule.
  [[nodiscard]] Solution solve() const;

 private:
  std::vector<double> stock_;
  std::vector<std::vector<double>> uses_;
  std::vector<double> values_;
};

}  // namespace hpplan
