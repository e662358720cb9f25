#pragma once

#include <string>

namespace hpplan {

/// A YAML or JSON text of hpplan as JSON: the same values under the same keys, for programs that read no YAML. Comments
/// are lost. Throws InputError for a text that is neither.
[[nodiscard]] std::string document_json(const std::string& text, const std::string& file);

}  // namespace hpplan
