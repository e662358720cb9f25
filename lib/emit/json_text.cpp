#include "emit/json_text.hpp"

#include <cmath>

#include "base/check.hpp"
#include "base/text.hpp"

namespace hpplan {

namespace {

using Json = nlohmann::ordered_json;

std::string scalar(const Json& value) {
  if (!value.is_number_float()) return value.dump();
  check_invariant(std::isfinite(value.get<double>()), "a finite number to write");
  return shortest(value.get<double>());
}

std::string key_text(const std::string& key) { return Json(key).dump() + ": "; }

/// Appends `value` on one line; false as soon as it passes `limit` characters.
bool append_line(const Json& value, std::size_t limit, std::string& line) {
  if (!value.is_structured()) {
    line += scalar(value);
    return line.size() <= limit;
  }
  line += value.is_object() ? '{' : '[';
  bool first = true;
  for (const auto& item : value.items()) {
    if (!first) line += ", ";
    first = false;
    if (value.is_object()) line += key_text(item.key());
    if (!append_line(item.value(), limit, line)) return false;
  }
  line += value.is_object() ? '}' : ']';
  return line.size() <= limit;
}

/// Appends `value`; `indent` is the column its lines start at, `used` what stands before it on the first line.
void append(const Json& value, std::size_t indent, std::size_t used, std::size_t width, std::string& out) {
  std::string line;
  if (append_line(value, width > used ? width - used : 0, line) || !value.is_structured()) {
    out += value.is_structured() ? line : scalar(value);
    return;
  }
  out += value.is_object() ? "{\n" : "[\n";
  bool first = true;
  for (const auto& item : value.items()) {
    if (!first) out += ",\n";
    first = false;
    const std::string key = value.is_object() ? key_text(item.key()) : std::string();
    out += std::string(indent + 2, ' ') + key;
    append(item.value(), indent + 2, indent + 2 + key.size() + 1, width, out);  // + 1: a comma may follow
  }
  out += '\n' + std::string(indent, ' ') + (value.is_object() ? '}' : ']');
}

}  // namespace

std::string json_text(const Json& value, std::size_t width) {
  std::string out;
  append(value, 0, 0, width, out);
  return out + '\n';
}

}  // namespace hpplan
