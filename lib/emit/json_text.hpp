#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace hpplan {

/// JSON for people and for diffs: keys in the order of insertion, a list or map on one line where it fits into
/// `width` columns, doubles in the shortest form that reads back the same. Ends with a newline.
/// Infinity and NaN are refused (InternalError).
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& value, std::size_t width = 100);

}  // namespace hpplan
