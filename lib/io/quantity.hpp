#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/units.hpp"

namespace hpplan {

/// Why a text is not a quantity, and what would be one.
struct QuantityFault {
  std::string message;  // unknown unit "Gb" in "25 Gb"
  std::string hint;     // use GB/s (10^9 bytes per second) or Gbps (10^9 bits per second)
};

/// Value of "64 GB", "60 GiB", "376 TFLOPS", "200 Gbps", "25 GB/s", "5 us": a decimal number of at least 0, then a
/// unit, with or without a space between. Units are case-sensitive, because b (bit) and B (byte) differ by 8.
///   Quantity   Bytes, Seconds, Flop, FlopPerSecond or BytesPerSecond
/// Fractions of a byte are rounded to the nearest byte.
template <typename Quantity>
[[nodiscard]] std::variant<Quantity, QuantityFault> parse_quantity(std::string_view text);

/// "B, kB, MB, ...": the units that parse_quantity<Quantity> knows.
template <typename Quantity>
[[nodiscard]] std::string known_units();

/// "a size such as "64 GB"": for messages about values that are no quantity at all.
template <typename Quantity>
[[nodiscard]] std::string quantity_example();

}  // namespace hpplan
