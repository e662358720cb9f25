#pragma once

namespace hpplan::detail {

// What readers of different files allow of the same thing: far above anything that exists, and low enough that sums of
// it can be counted.
inline constexpr int kMaxCount = 1 << 20;  // degrees, samples, heads, layers, devices
inline constexpr int kMaxWidth = 1 << 20;
inline constexpr int kMaxBlocks = 10'000;
inline constexpr double kLeastSeconds = 1e-12;  // a layer takes time; less is a gap that was filled with zero
inline constexpr double kMaxSeconds = 1e9;

}  // namespace hpplan::detail
