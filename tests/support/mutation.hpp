#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "io/document.hpp"

namespace hpplan::test {

using nlohmann::json;

/// Reads a text as a file called "f", or as the test says, and uses what it read; returns anything that tells two
/// results apart.
using Parse = std::function<std::string(const std::string& text)>;

/// What is wrong with the way in which `text` is handled; "" if nothing is.
inline std::string mishandled(const Parse& parse, const std::string& text, const std::string& file = "f") {
  try {
    (void)parse(text);
  } catch (const InputError& error) {
    for (const Diagnostic& fault : error.diagnostics()) {
      if (fault.line < 1 || fault.column < 1 || fault.file != file || fault.message.empty()) {
        return "no place: " + to_text(fault);
      }
    }
  } catch (const std::exception& error) {
    return std::string("exception: ") + error.what();
  }
  return "";
}

inline json to_json(const Reader& reader, const std::string& text) {
  switch (reader.kind()) {
    case ValueKind::Null: return nullptr;
    case ValueKind::Boolean: return reader.boolean();
    case ValueKind::Integer: return reader.integer(INT64_MIN, INT64_MAX);
    case ValueKind::Real: return reader.number();
    case ValueKind::Text: return reader.text();
    case ValueKind::List: {
      json list = json::array();
      for (const Reader& item : reader.items()) list.push_back(to_json(item, text));
      return list;
    }
    case ValueKind::Map: {
      json map = json::object();
      for (const auto& [key, value] : reader.entries()) map[key] = to_json(value, text);
      return map;
    }
  }
  return nullptr;
}

inline json as_json(const std::string& text) {
  const Document document = Document::parse(text, "f");
  return to_json(document.root(), text);
}

inline void collect_pointers(const json& value, const json::json_pointer& here,
                             std::vector<json::json_pointer>& pointers) {
  if (!here.empty()) pointers.push_back(here);
  if (value.is_object()) {
    for (const auto& [key, child] : value.items()) collect_pointers(child, here / key, pointers);
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) collect_pointers(value[i], here / i, pointers);
  }
}

inline std::vector<json> replacements(const json& old) {
  std::vector<json> values = {
      nullptr, true,  0,     -1,     1,          7,           INT64_MAX,     INT64_MIN,      1e300,
      0.5,     "",    "x",   "0",    "64 GB",    "-5 GB",     "1e30 GB",     "nan",          "5",
      "0 B",   "inf", "0x1", "1 us", "1 TFLOPS", "1e18 GB/s", json::array(), json::object(), std::string(5000, 'k')};
  values.push_back(json::array({old}));
  values.push_back(json::array({old, old}));
  values.push_back(json{{"key", old}});
  if (old.is_number()) values.push_back(-old.get<double>());
  if (old.is_number_integer()) values.push_back(old.get<std::int64_t>() * 1000);
  if (old.is_string()) values.push_back(concat("-", old.get<std::string>()));
  return values;
}

/// A field of a file and the file with that field broken.
struct Mutant {
  json::json_pointer field;
  std::string text;
  bool is_duplicate = false;  // a key given twice
};

/// The text of `good` with the member or element at `field` given twice.
inline Mutant duplicated(const json& good, const json::json_pointer& field) {
  json holder = good;
  json& parent = holder[field.parent_pointer()];
  if (parent.is_array()) {
    parent.push_back(good[field]);
    return {field, holder.dump(), false};
  }
  const std::string body = parent.dump();
  const std::string twice =
      body.substr(0, body.size() - 1) + "," + json(field.back()).dump() + ":" + good[field].dump() + "}";
  if (field.parent_pointer().empty()) return {field, twice, true};
  parent = "@parent@";
  std::string text = holder.dump();
  text.replace(text.find("\"@parent@\""), 10, twice);
  return {field, text, true};
}

/// Every field of `good` deleted, given twice, and replaced by values of every kind.
inline void for_each_mutant(const json& good, const std::function<void(const Mutant&)>& visit) {
  std::vector<json::json_pointer> fields;
  collect_pointers(good, json::json_pointer(), fields);
  for (const json::json_pointer& field : fields) {
    json broken = good;
    json& parent = broken[field.parent_pointer()];
    if (parent.is_object()) {
      parent.erase(field.back());
    } else {
      parent.erase(static_cast<std::size_t>(std::stoul(field.back())));
    }
    visit({field, broken.dump()});
    visit(duplicated(good, field));
    broken = good;
    for (const json& value : replacements(good[field])) {
      broken[field] = value;
      visit({field, broken.dump()});
    }
  }
}

/// Why some mutant of `good` is mishandled, or a key given twice accepted; "" if there is none.
inline std::string mishandled_mutant(const json& good, const Parse& parse, const std::string& file = "f") {
  std::string report;
  for_each_mutant(good, [&](const Mutant& mutant) {
    if (!report.empty()) return;
    std::string fault = mishandled(parse, mutant.text, file);
    if (fault.empty() && mutant.is_duplicate) {
      try {
        (void)parse(mutant.text);
        fault = "a key given twice was accepted";
      } catch (const InputError&) {
      }
    }
    if (!fault.empty()) report = concat(mutant.field.to_string(), ": ", fault, "\n", mutant.text.substr(0, 3000));
  });
  return report;
}

}  // namespace hpplan::test
