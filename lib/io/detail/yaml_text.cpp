#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include "base/text.hpp"
#include "io/detail/document_tree.hpp"

namespace hpplan::detail {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// True for the decimal numbers of JSON, and only for them: YAML's octal, hexadecimal, infinite and padded forms differ
/// between parsers, so here they are text.
bool is_decimal(std::string_view text, bool& has_fraction) {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t start = i;
    while (i < text.size() && is_digit(text[i])) ++i;
    return i - start;
  };
  if (i < text.size() && text[i] == '-') ++i;
  const std::size_t whole_start = i;
  const std::size_t whole = digits();
  if (whole == 0 || (whole > 1 && text[whole_start] == '0')) return false;
  has_fraction = false;
  if (i < text.size() && text[i] == '.') {
    has_fraction = true;
    ++i;
    if (digits() == 0) return false;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    has_fraction = true;
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (digits() == 0) return false;
  }
  return i == text.size();
}

DocumentNode text_node(const std::string& text) {
  DocumentNode node;
  node.kind = ValueKind::Text;
  node.text = text;
  return node;
}

/// What an unquoted scalar means.
DocumentNode plain_node(const std::string& text) {
  DocumentNode node;
  if (text == "true" || text == "false") {
    node.kind = ValueKind::Boolean;
    node.integer = text == "true" ? 1 : 0;
    return node;
  }
  bool has_fraction = false;
  if (!is_decimal(text, has_fraction)) return text_node(text);
  const char* const end = text.data() + text.size();
  if (!has_fraction && std::from_chars(text.data(), end, node.integer).ec == std::errc{}) {
    node.kind = ValueKind::Integer;
    node.real = static_cast<double>(node.integer);
    return node;
  }
  if (std::from_chars(text.data(), end, node.real).ec != std::errc{}) return text_node(text);
  node.kind = ValueKind::Real;
  node.text = text;
  return node;
}

/// Feeds the events of yaml-cpp's parser to a TreeBuilder. Events instead of yaml-cpp's own tree: that tree keeps the
/// first of two equal keys in silence, and shares aliased values, so that a few lines can stand for millions of values.
class YamlEvents : public YAML::EventHandler {
 public:
  YamlEvents(TreeBuilder& builder, DocumentState& state) : builder_(builder), state_(state) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (take_key(mark, "")) return;
    add(mark, anchor, DocumentNode{});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    last_scalar_ = place(mark);
    if (take_key(mark, value)) return;
    const bool is_plain = tag == "?" || tag.empty();
    if (!is_plain && tag != "!" && tag != "tag:yaml.org,2002:str") refuse_tag(mark, tag);
    add(mark, anchor, is_plain ? plain_node(value) : text_node(value));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) refuse(mark, "an alias inside the value that it stands for");
    if (is_key_next()) refuse(mark, "an alias as a key");
    // Copied: a reader then sees every use of an aliased value as a value of its own.
    const std::uint32_t first = builder_.next_order();
    note_place(mark);
    at_ = place(mark);
    if (first + size_of(found->second) > kMaxNodes) refuse(mark, "an alias that stands for too many values");
    builder_.copy(found->second);
    state_.places.resize(builder_.next_order(), state_.places.back());
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    start(mark, tag, anchor, ValueKind::List);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    start(mark, tag, anchor, ValueKind::Map);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapEnd() override { end(); }

  /// Where the last event was: for faults of the tree builder, which knows no places.
  [[nodiscard]] Place at() const { return at_; }
  [[nodiscard]] Place last_scalar() const { return last_scalar_; }

 private:
  static Place place(const YAML::Mark& mark) { return {std::max(0, mark.line) + 1, std::max(0, mark.column) + 1}; }

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& what) const {
    const Place where = place(mark);
    throw InputError(Diagnostic{state_.file, where.line, where.column, "", what + " is not supported", ""});
  }
  [[noreturn]] void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    refuse(mark, concat("the tag \"", tag.substr(0, 100), "\""));
  }

  [[nodiscard]] bool is_key_next() {
    const DocumentNode* const map = builder_.open();
    return map != nullptr && map->kind == ValueKind::Map && map->keys.size() == map->items.size();
  }
  bool take_key(const YAML::Mark& mark, const std::string& text) {
    if (!is_key_next()) return false;
    at_ = key_place_ = place(mark);
    builder_.key(text);
    return true;
  }
  void note_place(const YAML::Mark& mark) {
    const DocumentNode* const parent = builder_.open();
    const bool has_key = parent != nullptr && parent->kind == ValueKind::Map;
    state_.places.push_back({place(mark), has_key ? key_place_ : place(mark)});
  }
  void add(const YAML::Mark& mark, YAML::anchor_t anchor, DocumentNode node) {
    at_ = place(mark);
    note_place(mark);
    builder_.scalar(std::move(node));
    keep(mark, anchor);
  }
  void start(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, ValueKind kind) {
    if (is_key_next()) refuse(mark, "a list or map as a key");
    if (!tag.empty() && tag != "?" && tag != "!") refuse_tag(mark, tag);
    at_ = place(mark);
    note_place(mark);
    builder_.start(kind);
    open_anchors_.push_back(anchor);
  }
  void end() {
    builder_.end();
    keep(YAML::Mark(), open_anchors_.back());
    open_anchors_.pop_back();
  }
  /// Keeps the value just finished for the aliases of `anchor`.
  void keep(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor == YAML::NullAnchor) return;
    kept_nodes_ += size_of(builder_.last());
    if (kept_nodes_ > kMaxNodes) refuse(mark, "an anchor of too many values");
    anchors_.emplace(anchor, builder_.last());
  }
  static std::size_t size_of(const DocumentNode& node) {
    std::size_t size = 1;
    for (const DocumentNode& item : node.items) size += size_of(item);
    return size;
  }

  TreeBuilder& builder_;
  DocumentState& state_;
  Place at_;
  Place key_place_;
  Place last_scalar_;
  std::map<YAML::anchor_t, DocumentNode> anchors_;
  std::size_t kept_nodes_ = 0;
  std::vector<YAML::anchor_t> open_anchors_;
};

/// yaml-cpp takes a tab for a space in some places and not in others; YAML allows none in indentation.
void refuse_tab_indentation(const DocumentState& state) {
  int line = 0;
  std::istringstream lines(state.text);
  for (std::string text; std::getline(lines, text);) {
    ++line;
    const std::size_t content = text.find_first_not_of(" \t\r");
    if (content == std::string::npos || text[content] == '#') continue;
    const std::size_t tab = text.find('\t');
    if (tab < content) {
      throw InputError(Diagnostic{state.file, line, static_cast<int>(tab) + 1, "", "a tab in the indentation",
                                  "indent with spaces"});
    }
  }
}

/// yaml-cpp takes the end of the file for the end of a quoted text, if there is a line break before.
///   start   of the last scalar
void refuse_open_quote(const DocumentState& state, Place start) {
  const std::string& text = state.text;
  std::size_t at = 0;
  for (int line = 1; line < start.line && at != std::string::npos; ++line) at = text.find('\n', at) + 1;
  at += static_cast<std::size_t>(start.column - 1);
  if (at >= text.size()) return;
  const char quote = text[at];
  if (quote != '"' && quote != '\'') return;
  while (++at < text.size()) {
    const bool is_escape = quote == '"' ? text[at] == '\\' : text.compare(at, 2, "''") == 0;
    if (is_escape) {
      ++at;
    } else if (text[at] == quote) {
      return;
    }
  }
  throw InputError(Diagnostic{state.file, start.line, start.column, "", "a quote that is not closed",
                              concat("end the text with ", quote)});
}

class NoEvents : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { place = {mark.line + 1, mark.column + 1}; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

  Place place;
};

void parse_one_document(DocumentState& state, TreeBuilder& builder, YamlEvents& events) {
  std::istringstream stream(state.text);
  YAML::Parser parser(stream);
  if (!parser.HandleNextDocument(events)) {
    throw InputError(Diagnostic{state.file, 1, 1, "", "the file is empty", ""});
  }
  state.root = std::move(builder.root());
  NoEvents rest;
  if (parser.HandleNextDocument(rest)) {
    throw InputError(Diagnostic{state.file, rest.place.line, rest.place.column, "", "a second YAML document",
                                "keep one document in a file"});
  }
}

}  // namespace

void parse_yaml(DocumentState& state) {
  const std::size_t first = state.text.find_first_not_of(" \t\r\n");
  const bool is_flow = first != std::string::npos && (state.text[first] == '{' || state.text[first] == '[');
  if (!is_flow) refuse_tab_indentation(state);

  TreeBuilder builder(state.file);
  YamlEvents events(builder, state);
  const auto refuse = [&](Place place, const std::string& message) {
    throw InputError(Diagnostic{state.file, place.line, place.column, "", message, ""});
  };
  try {
    parse_one_document(state, builder, events);
    refuse_open_quote(state, events.last_scalar());
  } catch (const YAML::Exception& error) {
    refuse({std::max(0, error.mark.line) + 1, std::max(0, error.mark.column) + 1}, error.msg);
  } catch (const InputError& error) {
    // Limits of the tree have no place of their own.
    Diagnostic diagnostic = error.diagnostics().front();
    if (diagnostic.line > 0) throw;
    refuse(events.at(), diagnostic.message);
  }
  state.read.assign(builder.next_order(), false);
  report_duplicates(state, builder);
}

}  // namespace hpplan::detail
