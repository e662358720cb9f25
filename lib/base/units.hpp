#pragma once

#include <compare>
#include <concepts>
#include <cstdint>

namespace hpplan {

/// Of a second: what tools write in milliseconds.
inline constexpr double kMilli = 1e-3;

/// A size or a change of size in bytes. Signed, because "budget - use" may be negative and still be right;
/// an integer, because sums must not depend on their order.
class Bytes {
 public:
  constexpr Bytes() = default;
  explicit constexpr Bytes(std::integral auto count) : count_(static_cast<std::int64_t>(count)) {}

  [[nodiscard]] constexpr std::int64_t count() const { return count_; }
  [[nodiscard]] constexpr double value() const { return static_cast<double>(count_); }

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes{a.count_ + b.count_}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes{a.count_ - b.count_}; }
  friend constexpr Bytes operator*(Bytes a, std::integral auto k) {
    return Bytes{a.count_ * static_cast<std::int64_t>(k)};
  }
  constexpr Bytes& operator+=(Bytes other) { return *this = *this + other; }
  constexpr Bytes& operator-=(Bytes other) { return *this = *this - other; }

 private:
  std::int64_t count_ = 0;
};

/// A real quantity with a unit in its type: quantities of different units do not mix.
template <typename Tag>
class Real {
 public:
  constexpr Real() = default;
  explicit constexpr Real(double value) : value_(value) {}

  [[nodiscard]] constexpr double value() const { return value_; }

  friend constexpr auto operator<=>(Real, Real) = default;
  friend constexpr Real operator+(Real a, Real b) { return Real{a.value_ + b.value_}; }
  friend constexpr Real operator-(Real a, Real b) { return Real{a.value_ - b.value_}; }
  friend constexpr Real operator*(Real a, double k) { return Real{a.value_ * k}; }
  friend constexpr Real operator/(Real a, double k) { return Real{a.value_ / k}; }
  friend constexpr double operator/(Real a, Real b) { return a.value_ / b.value_; }
  constexpr Real& operator+=(Real other) { return *this = *this + other; }

 private:
  double value_ = 0.0;
};

using Seconds = Real<struct SecondsTag>;
/// Floating-point operations. A double: one step of a large model passes 2^63.
using Flop = Real<struct FlopTag>;
using FlopPerSecond = Real<struct FlopPerSecondTag>;
using BytesPerSecond = Real<struct BytesPerSecondTag>;

/// The only ways from an amount of work to a time.
constexpr Seconds operator/(Bytes size, BytesPerSecond rate) { return Seconds{size.value() / rate.value()}; }
constexpr Seconds operator/(Flop work, FlopPerSecond rate) { return Seconds{work.value() / rate.value()}; }

namespace literals {
constexpr Bytes operator""_B(unsigned long long count) { return Bytes{count}; }
constexpr Bytes operator""_MiB(unsigned long long count) { return Bytes{count} * (1LL << 20); }
constexpr Bytes operator""_GiB(unsigned long long count) { return Bytes{count} * (1LL << 30); }
constexpr Bytes operator""_GB(unsigned long long count) { return Bytes{count} * 1'000'000'000LL; }
constexpr Seconds operator""_s(long double seconds) { return Seconds{static_cast<double>(seconds)}; }
constexpr Seconds operator""_ms(long double ms) { return Seconds{static_cast<double>(ms) * 1e-3}; }
constexpr BytesPerSecond operator""_GBps(unsigned long long rate) {
  return BytesPerSecond{static_cast<double>(rate) * 1e9};
}
/// 10^9 bits per second.
constexpr BytesPerSecond operator""_Gbps(unsigned long long rate) {
  return BytesPerSecond{static_cast<double>(rate) * 1e9 / 8.0};
}
constexpr FlopPerSecond operator""_TFLOPS(unsigned long long rate) {
  return FlopPerSecond{static_cast<double>(rate) * 1e12};
}
}  // namespace literals

}  // namespace hpplan
