#include "io/detail/document_tree.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/text.hpp"

namespace hpplan::detail {

namespace {

/// Text from a file must not break a message: no line ends, no terminal codes, no megabytes.
std::string printable(std::string text, std::size_t limit) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  if (text.size() > limit) text = text.substr(0, limit) + "...";
  return text;
}

}  // namespace

void DocumentState::add_fault(Diagnostic diagnostic) {
  if (faults_are_enough()) {
    ++faults_left_out;
    return;
  }
  diagnostic.field = printable(std::move(diagnostic.field), 200);
  diagnostic.message = printable(std::move(diagnostic.message), 1000);
  diagnostic.hint = printable(std::move(diagnostic.hint), 1000);
  // The same field may be asked for more than once.
  const bool is_known = std::any_of(faults.begin(), faults.end(), [&](const Diagnostic& other) {
    return other.line == diagnostic.line && other.column == diagnostic.column && other.field == diagnostic.field &&
           other.message == diagnostic.message;
  });
  if (!is_known) faults.push_back(std::move(diagnostic));
}

const NodePlaces& DocumentState::places_of(const DocumentNode& node) {
  if (places.empty() && is_json) places = json_places(text);
  static const NodePlaces unknown;
  return node.order < places.size() ? places[node.order] : unknown;
}

DocumentNode& TreeBuilder::add(DocumentNode node) {
  if (next_order_ >= kMaxNodes) {
    throw InputError(Diagnostic{file_, 0, 0, "", concat("more than ", kMaxNodes, " values"), ""});
  }
  number(node);
  if (open_.empty()) return root_ = std::move(node);
  open_.back()->items.push_back(std::move(node));
  return open_.back()->items.back();
}

void TreeBuilder::number(DocumentNode& node) {
  node.order = next_order_++;
  for (DocumentNode& item : node.items) number(item);
}

void TreeBuilder::scalar(DocumentNode node) { add(std::move(node)); }

void TreeBuilder::start(ValueKind kind) {
  if (open_.size() >= static_cast<std::size_t>(kMaxDepth)) {
    throw InputError(Diagnostic{file_, 0, 0, "", concat("lists and maps nested more than ", kMaxDepth, " deep"), ""});
  }
  DocumentNode node;
  node.kind = kind;
  open_.push_back(&add(std::move(node)));
}

void TreeBuilder::end() {
  if (open_.back()->kind == ValueKind::Map) find_duplicates(*open_.back());
  open_.pop_back();
}

void TreeBuilder::key(std::string name) { open_.back()->keys.push_back(std::move(name)); }

void TreeBuilder::copy(const DocumentNode& node) { add(node); }

DocumentNode& TreeBuilder::last() { return open_.empty() ? root_ : open_.back()->items.back(); }

void TreeBuilder::find_duplicates(const DocumentNode& map) {
  std::unordered_map<std::string_view, std::size_t> first;
  for (std::size_t i = 0; i < map.keys.size() && i < map.items.size(); ++i) {
    const auto [place, is_new] = first.emplace(map.keys[i], i);
    if (!is_new) duplicates_.push_back({map.items[place->second].order, map.items[i].order, map.keys[i]});
  }
}

void report_duplicates(DocumentState& state, const TreeBuilder& builder) {
  if (builder.duplicates().empty()) return;
  if (state.places.empty() && state.is_json) state.places = json_places(state.text);
  for (const TreeBuilder::Duplicate& duplicate : builder.duplicates()) {
    const Place second = state.places[duplicate.second].key;
    const Place first = state.places[duplicate.first].key;
    state.add_fault({state.file, second.line, second.column, duplicate.key,
                     concat("duplicate key, first given at line ", first.line, ", column ", first.column),
                     "remove one of the two"});
  }
}

namespace {

/// Length of the UTF-8 character at `at`, or 0 if there is none.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, UTF-16 surrogates, beyond U+10FFFF.
  const unsigned char second = byte(at + 1);
  if (lead == 0xE0 && second < 0xA0) return 0;
  if (lead == 0xED && second > 0x9F) return 0;
  if (lead == 0xF0 && second < 0x90) return 0;
  if (lead == 0xF4 && second > 0x8F) return 0;
  return length;
}

std::string hex_byte(unsigned char byte) {
  const char* const digits = "0123456789abcdef";
  return concat("0x", digits[byte >> 4], digits[byte & 15]);
}

}  // namespace

Place place_at(const std::string& text, std::size_t offset) {
  Place place;
  for (std::size_t i = 0; i < std::min(offset, text.size()); ++i) {
    if (text[i] == '\n') {
      ++place.line;
      place.column = 1;
    } else {
      ++place.column;
    }
  }
  return place;
}

std::string checked_text(std::string text, const std::string& file) {
  if (text.rfind("\xEF\xBB\xBF", 0) == 0) text.erase(0, 3);
  const auto refuse = [&](std::size_t at, const std::string& message) {
    const Place place = place_at(text, at);
    throw InputError(Diagnostic{file, place.line, place.column, "", message, "files are YAML or JSON text in UTF-8"});
  };
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_control = (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F;
    if (is_control) refuse(i, concat("control character ", hex_byte(byte)));
    const std::size_t length = utf8_length(text, i);
    if (length == 0) refuse(i, concat("byte ", hex_byte(byte), " is not UTF-8"));
    i += length;
  }
  return text;
}

}  // namespace hpplan::detail
