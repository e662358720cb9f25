#pragma once

#include <string>

#include "domain/model.hpp"

namespace hpplan {

/// The model that a YAML or JSON text describes; configs/README.md lists the fields. `file` is shown in messages.
/// Throws InputError with every fault found.
[[nodiscard]] ModelSpec parse_model(std::string text, std::string file);

}  // namespace hpplan
