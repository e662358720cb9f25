#pragma once

#include <algorithm>
#include <vector>

namespace hpplan {

/// Adds a way to run a stage, unless one of `options` takes no longer and has no longer a tail; those that the new one
/// beats are dropped.
template <typename Option>
void add_if_useful(std::vector<Option>& options, const Option& option) {
  const auto covers = [](const Option& a, const Option& b) { return a.time <= b.time && a.tail <= b.tail; };
  if (std::any_of(options.begin(), options.end(), [&](const Option& known) { return covers(known, option); })) return;
  std::erase_if(options, [&](const Option& known) { return covers(option, known); });
  options.push_back(option);
}

}  // namespace hpplan
