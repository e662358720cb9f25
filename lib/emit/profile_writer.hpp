#pragma once

#include <string>

#include "profile/profile_table.hpp"

namespace hpplan {

/// The profile in our own format (profiles/README.md): one series a line, doubles in their shortest exact form, so
/// that reading the text gives the same profile again.
[[nodiscard]] std::string emit_profile(const DeviceProfile& profile);

}  // namespace hpplan
