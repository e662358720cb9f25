#pragma once

// The one place that knows which Catch2 is installed: 2 is a single header, 3 is split.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::Contains;  // NOLINT: same spelling as Catch2 v2
#else
#include <catch2/catch.hpp>
#endif
