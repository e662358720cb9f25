#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace hpplan {

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string joined;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) joined += separator;
    joined += parts[i];
  }
  return joined;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::string shortest(double value) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return std::string(buffer.data(), end);
}

std::string fixed(double value, int digits) {
  // 330 holds the longest double in fixed notation (309 digits before the point).
  std::array<char, 400> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, digits).ptr;
  return std::string(buffer.data(), end);
}

std::string percent(double share, int digits) { return fixed(share * 100.0, digits) + " %"; }

std::string significant(double value, int digits) {
  if (value == 0.0 || !std::isfinite(value)) return shortest(value);
  const int magnitude = static_cast<int>(std::floor(std::log10(std::fabs(value))));
  if (magnitude < -6 || magnitude > 15) return shortest(value);
  return fixed(value, std::max(0, digits - 1 - magnitude));
}

std::string pretty(Bytes size) {
  const double count = size.value();
  const double magnitude = std::fabs(count);
  if (magnitude >= 1024.0 * 1024.0 * 1024.0) return fixed(count / (1024.0 * 1024.0 * 1024.0), 2) + " GiB";
  if (magnitude >= 1024.0 * 1024.0) return fixed(count / (1024.0 * 1024.0), 1) + " MiB";
  if (magnitude >= 1024.0) return fixed(count / 1024.0, 1) + " KiB";
  return concat(size.count(), " B");
}

std::string pretty(Seconds time) {
  const double magnitude = std::fabs(time.value());
  if (magnitude >= 1.0 || magnitude == 0.0) return significant(time.value(), 4) + " s";
  if (magnitude >= 1e-3) return significant(time.value() * 1e3, 3) + " ms";
  return significant(time.value() * 1e6, 3) + " us";
}

std::string pretty(BytesPerSecond rate) { return significant(rate.value() * 8e-9, 4) + " Gbps"; }

namespace {

/// Letters to insert, delete, replace or swap with their neighbour to turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row.back();
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

}  // namespace

std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates) {
  for (const std::string& candidate : candidates) {
    if (lower_case(word) == lower_case(candidate)) return candidate;
  }
  std::string best;
  // At most a third of the letters wrong, one in a short word, and never all of them.
  std::size_t best_distance = std::min(word.size(), std::max<std::size_t>(1, word.size() / 3) + 1);
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace hpplan
