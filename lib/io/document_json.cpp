#include "io/document_json.hpp"

#include <limits>

#include <nlohmann/json.hpp>

#include "io/document.hpp"

namespace hpplan {

namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Reader& reader) {
  switch (reader.kind()) {
    case ValueKind::Null: return nullptr;
    case ValueKind::Boolean: return reader.boolean();
    case ValueKind::Integer:
      return reader.integer(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
    case ValueKind::Real: return reader.number();
    case ValueKind::Text: return reader.text();
    case ValueKind::List: {
      Json list = Json::array();
      for (const Reader& item : reader.items()) list.push_back(json_of(item));
      return list;
    }
    case ValueKind::Map: {
      Json map = Json::object();
      for (const auto& [key, value] : reader.entries()) map[key] = json_of(value);
      return map;
    }
  }
  return nullptr;
}

}  // namespace

std::string document_json(const std::string& text, const std::string& file) {
  const Document document = Document::parse(text, file);
  Json json = json_of(document.root());
  document.finish();
  return json.dump(2) + "\n";
}

}  // namespace hpplan
