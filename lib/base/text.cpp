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

std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    std::vector<std::size_t> row(candidate.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const std::size_t substitute = diagonal + (word[i - 1] == candidate[j - 1] ? 0U : 1U);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace hpplan
