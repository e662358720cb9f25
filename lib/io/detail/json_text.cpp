#include <algorithm>
#include <cstddef>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "io/detail/document_tree.hpp"

namespace hpplan::detail {

namespace {

using nlohmann::json;

/// Feeds the events of nlohmann's parser to a TreeBuilder.
class JsonEvents : public nlohmann::json_sax<json> {
 public:
  explicit JsonEvents(TreeBuilder& builder) : builder_(builder) {}

  bool null() override { return add(DocumentNode{}); }
  bool boolean(bool value) override {
    DocumentNode node;
    node.kind = ValueKind::Boolean;
    node.integer = value ? 1 : 0;
    return add(std::move(node));
  }
  bool number_integer(number_integer_t value) override {
    DocumentNode node;
    node.kind = ValueKind::Integer;
    node.integer = value;
    node.real = static_cast<double>(value);
    return add(std::move(node));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) {
      return number_integer(static_cast<number_integer_t>(value));
    }
    return number_float(static_cast<number_float_t>(value), std::to_string(value));
  }
  bool number_float(number_float_t value, const string_t& spelling) override {
    DocumentNode node;
    node.kind = ValueKind::Real;
    node.real = value;
    node.text = spelling;
    return add(std::move(node));
  }
  bool string(string_t& value) override {
    DocumentNode node;
    node.kind = ValueKind::Text;
    node.text = std::move(value);
    return add(std::move(node));
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return start(ValueKind::Map); }
  bool start_array(std::size_t) override { return start(ValueKind::List); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(string_t& value) override {
    builder_.key(std::move(value));
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    offset_ = position;
    message_ = error.what();
    return false;
  }

  [[nodiscard]] std::size_t offset() const { return offset_; }
  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  bool add(DocumentNode node) {
    builder_.scalar(std::move(node));
    return true;
  }
  bool start(ValueKind kind) {
    builder_.start(kind);
    return true;
  }
  bool end() {
    builder_.end();
    return true;
  }

  TreeBuilder& builder_;
  std::size_t offset_ = 0;
  std::string message_;
};

/// "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error ..." without the part we print
/// anyway.
std::string short_message(const std::string& message) {
  for (const char* const start : {"syntax error", "number overflow"}) {
    const std::size_t at = message.find(start);
    if (at != std::string::npos) return message.substr(at);
  }
  const std::size_t bracket = message.find("] ");
  return bracket == std::string::npos ? message : message.substr(bracket + 2);
}

/// Walks a JSON text, noting where each value starts, in the order in which the parser reports values.
class PlaceScanner {
 public:
  explicit PlaceScanner(const std::string& text) : text_(text) {}

  std::vector<NodePlaces> scan() {
    while (skip_space()) {
      const char c = text_[at_];
      if (c == ']' || c == '}') {
        if (!in_map_.empty()) in_map_.pop_back();
        step();
      } else if (c == ',' || c == ':') {
        expect_key_ = c == ',' && !in_map_.empty() && in_map_.back();
        step();
      } else if (expect_key_) {
        key_ = here_;
        expect_key_ = false;
        has_key_ = true;
        skip_scalar();
      } else {
        places_.push_back({here_, has_key_ ? key_ : here_});
        has_key_ = false;
        if (c == '[' || c == '{') {
          in_map_.push_back(c == '{');
          expect_key_ = c == '{';
          step();
        } else {
          skip_scalar();
        }
      }
    }
    return std::move(places_);
  }

 private:
  void step() {
    if (text_[at_] == '\n') {
      ++here_.line;
      here_.column = 1;
    } else {
      ++here_.column;
    }
    ++at_;
  }
  bool skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
      step();
    }
    return at_ < text_.size();
  }
  void skip_scalar() {
    if (text_[at_] != '"') {
      while (at_ < text_.size() && std::string_view(" \t\r\n,:]}").find(text_[at_]) == std::string_view::npos) step();
      return;
    }
    step();
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\') step();
      if (at_ < text_.size()) step();
    }
    if (at_ < text_.size()) step();
  }

  const std::string& text_;
  std::size_t at_ = 0;
  Place here_;
  Place key_;
  bool expect_key_ = false;
  bool has_key_ = false;
  std::vector<bool> in_map_;
  std::vector<NodePlaces> places_;
};

}  // namespace

bool parse_json(DocumentState& state, Diagnostic& fault) {
  TreeBuilder builder(state.file);
  JsonEvents events(builder);
  bool is_json = false;
  try {
    is_json = json::sax_parse(state.text, &events);
  } catch (const InputError& error) {
    // Limits of the tree have no place of their own.
    const std::vector<NodePlaces> places = json_places(state.text);
    const std::size_t last = std::min<std::size_t>(builder.next_order(), places.size()) - 1;
    const Place place = last < places.size() ? places[last].value : Place{};
    throw InputError(Diagnostic{state.file, place.line, place.column, "", error.diagnostics().front().message, ""});
  }
  if (!is_json) {
    // Positions count from 1 and point at the last byte read.
    const Place place = place_at(state.text, events.offset() > 0 ? events.offset() - 1 : 0);
    fault = {state.file, place.line, place.column, "", short_message(events.message()), ""};
    return false;
  }
  state.is_json = true;
  state.root = std::move(builder.root());
  state.read.assign(builder.next_order(), false);
  report_duplicates(state, builder);
  return true;
}

std::vector<NodePlaces> json_places(const std::string& text) { return PlaceScanner(text).scan(); }

}  // namespace hpplan::detail
