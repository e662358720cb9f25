#pragma once

#include <string>

#include "profile/profile_table.hpp"

namespace hpplan {

/// True if `text` looks like a profile in our own format (profiles/README.md); foreign layouts need an import.
[[nodiscard]] bool is_native_profile(const std::string& text);

/// A profile in our own format. Throws InputError with every fault: unknown keys, lists of different length, values
/// that are negative, not finite, or zero where a layer takes time, points given twice.
/// Bytes that do not grow with the number of samples are accepted with a note.
[[nodiscard]] DeviceProfile parse_profile(std::string text, const std::string& file);

}  // namespace hpplan
