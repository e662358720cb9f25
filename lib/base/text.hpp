#pragma once

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"

namespace hpplan {

/// Joins the text forms of all arguments; g++ 12 has no std::format.
template <typename... Parts>
[[nodiscard]] std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// `parts` with `separator` between them.
[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view separator);
/// The parts of `text` between separators; at least one, which may be empty.
[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);

/// Shortest text that reads back as the same double ("0.1", "1e-05").
[[nodiscard]] std::string shortest(double value);
/// `value` with exactly `digits` digits after the point.
[[nodiscard]] std::string fixed(double value, int digits);
/// `value` with `digits` significant digits, without an exponent where it can be avoided.
[[nodiscard]] std::string significant(double value, int digits);
/// "12.3 %" for 0.123.
[[nodiscard]] std::string percent(double share, int digits = 1);

/// For people: "12.3 GiB", "845 MiB".
[[nodiscard]] std::string pretty(Bytes size);
/// For people: "1.23 s", "45.6 ms", "7.8 us".
[[nodiscard]] std::string pretty(Seconds time);
/// For people: "200 Gbps" (10^9 bits per second).
[[nodiscard]] std::string pretty(BytesPerSecond rate);

/// The candidate nearest to `word`: in other case, else by edit distance; or "" when none is near enough to be meant.
[[nodiscard]] std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace hpplan
