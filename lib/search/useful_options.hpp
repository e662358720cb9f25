#pragma once

#include <algorithm>
#include <vector>

namespace hpplan {

/// Adds a way to run a stage, unless one of `options` covers it: no plan needs it then. Those that the new one covers
/// are dropped.
template <typename Option, typename Covers>
void add_if_useful(std::vector<Option>& options, const Option& option, Covers covers) {
  if (std::any_of(options.begin(), options.end(), [&](const Option& known) { return covers(known, option); })) return;
  std::erase_if(options, [&](const Option& known) { return covers(option, known); });
  options.push_back(option);
}

/// One covers another that takes as long at least and has as long a tail.
template <typename Option>
void add_if_useful(std::vector<Option>& options, const Option& option) {
  add_if_useful(options, option, [](const Option& a, const Option& b) { return a.time <= b.time && a.tail <= b.tail; });
}

}  // namespace hpplan
