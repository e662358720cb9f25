#pragma once

#include <string>

// The one place that knows which Catch2 is installed: 2 is a single header, 3 is split and renames what tests use.
// Tests include this file and take `Approx` and `Contains` from here, never from a namespace of Catch.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>

using Catch::Approx;

/// Matches a text that holds `part`. In Catch2 3 a matcher of this name looks for an element of a range.
inline auto Contains(const std::string& part) { return Catch::Matchers::ContainsSubstring(part); }
#else
#include <catch2/catch.hpp>

/// Matches a text that holds `part`.
inline auto Contains(const std::string& part) { return Catch::Matchers::Contains(part); }
#endif
