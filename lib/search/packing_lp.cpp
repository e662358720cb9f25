#include "search/packing_lp.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.hpp"

namespace hpplan {

namespace {

/// Reduced values below this part of the largest value do not enter the basis.
constexpr double kEnter = 1e-11;
constexpr double kPivot = 1e-12;
/// Pivots by the largest gain; after so many Bland's rule takes over and excludes cycles.
constexpr int kGreedyPivots = 2000;

}  // namespace

PackingLp::PackingLp(std::vector<double> stock) : stock_(std::move(stock)) {}

void PackingLp::add(std::vector<double> use, double value) {
  check_invariant(use.size() == stock_.size(), "a use for every row");
  uses_.push_back(std::move(use));
  values_.push_back(value);
}

PackingLp::Solution PackingLp::solve() const {
  const std::size_t rows = stock_.size();
  const std::size_t slacks = values_.size();  // columns from here on are slack
  std::vector<std::size_t> basis(rows);
  std::iota(basis.begin(), basis.end(), slacks);
  std::vector<std::vector<double>> inverse(rows, std::vector<double>(rows, 0.0));
  for (std::size_t r = 0; r < rows; ++r) inverse[r][r] = 1.0;
  std::vector<double> amounts = stock_;
  double scale = 1e-300;
  for (const double value : values_) scale = std::max(scale, value);

  Solution solution;
  for (int pivot = 0;; ++pivot) {
    solution.prices.assign(rows, 0.0);
    for (std::size_t r = 0; r < rows; ++r) {
      const double value = basis[r] < slacks ? values_[basis[r]] : 0.0;
      for (std::size_t c = 0; c < rows; ++c) solution.prices[c] += value * inverse[r][c];
    }
    std::size_t entering = slacks + rows;
    double most = kEnter * scale;
    for (std::size_t column = 0; column < slacks + rows; ++column) {
      double gain = column < slacks ? values_[column] : 0.0;
      if (column < slacks) {
        for (std::size_t r = 0; r < rows; ++r) gain -= solution.prices[r] * uses_[column][r];
      } else {
        gain -= solution.prices[column - slacks];
      }
      if (gain <= most) continue;
      entering = column;
      if (pivot >= kGreedyPivots) break;
      most = gain;
    }
    if (entering == slacks + rows) break;
    std::vector<double> direction(rows, 0.0);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < rows; ++c) {
        const double use = entering < slacks ? uses_[entering][c] : (entering - slacks == c ? 1.0 : 0.0);
        direction[r] += inverse[r][c] * use;
      }
    }
    std::size_t leaving = rows;
    for (std::size_t r = 0; r < rows; ++r) {
      if (direction[r] <= kPivot) continue;
      if (leaving == rows) {
        leaving = r;
        continue;
      }
      const double here = amounts[r] / direction[r];
      const double there = amounts[leaving] / direction[leaving];
      if (here < there || (here == there && basis[r] < basis[leaving])) leaving = r;
    }
    check_invariant(leaving < rows, "every column uses some stock");
    const double step = amounts[leaving] / direction[leaving];
    for (std::size_t r = 0; r < rows; ++r) {
      if (r == leaving) continue;
      amounts[r] = std::max(0.0, amounts[r] - step * direction[r]);
      for (std::size_t c = 0; c < rows; ++c) {
        inverse[r][c] -= direction[r] / direction[leaving] * inverse[leaving][c];
      }
    }
    for (std::size_t c = 0; c < rows; ++c) inverse[leaving][c] /= direction[leaving];
    amounts[leaving] = step;
    basis[leaving] = entering;
  }
  solution.amounts.assign(slacks, 0.0);
  for (std::size_t r = 0; r < rows; ++r) {
    if (basis[r] >= slacks) continue;
    solution.amounts[basis[r]] = amounts[r];
    solution.value += values_[basis[r]] * amounts[r];
  }
  for (double& price : solution.prices) price = std::max(0.0, price);
  return solution;
}

}  // namespace hpplan
