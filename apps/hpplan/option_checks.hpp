#pragma once

#include <limits>
#include <string>
#include <vector>

namespace CLI {
class Validator;
}  // namespace CLI

namespace hpplan {

// Checks of option values, of each element where an option takes a list. CLI11's own name the whole range of double and
// let NaN pass; these say what was found and what is allowed.

/// A whole number from `min` to `max`.
[[nodiscard]] CLI::Validator whole_number(int min, int max = std::numeric_limits<int>::max());

/// A finite number from `min` to `max`.
[[nodiscard]] CLI::Validator number_from(double min, double max = std::numeric_limits<double>::max());

/// A finite number above 0.
[[nodiscard]] CLI::Validator positive_number();

/// One of `words`.
[[nodiscard]] CLI::Validator one_of(std::vector<std::string> words);

}  // namespace hpplan
