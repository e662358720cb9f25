#pragma once

#include <compare>

namespace hpplan {

/// Consecutive layers `[first, last)`. Layer indices count every layer of the model: embedding 0, blocks from 1, head
/// last.
struct LayerRange {
  int first = 0;
  int last = 0;

  [[nodiscard]] constexpr int size() const { return last - first; }
  [[nodiscard]] constexpr bool contains(int layer) const { return first <= layer && layer < last; }
  friend constexpr auto operator<=>(const LayerRange&, const LayerRange&) = default;
};

}  // namespace hpplan
