#include "io/document.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "base/text.hpp"
#include "io/detail/document_tree.hpp"

namespace hpplan {

using detail::DocumentNode;
using detail::DocumentState;
using detail::NodePlaces;
using detail::Place;

namespace {

/// Text from a file inside a message, cut short.
std::string quoted(const std::string& text) {
  std::string shown;
  for (const char c : text) {
    if (shown.size() >= 60) {
      shown += "...";
      break;
    }
    shown += c;
  }
  return concat('"', shown, '"');
}

std::string described(const DocumentNode& node) {
  switch (node.kind) {
    case ValueKind::Null: return "nothing";
    case ValueKind::Boolean: return node.integer != 0 ? "true" : "false";
    case ValueKind::Integer: return concat("the number ", node.integer);
    case ValueKind::Real: return concat("the number ", node.text.substr(0, 60));
    case ValueKind::Text: return quoted(node.text);
    case ValueKind::List: return "a list";
    case ValueKind::Map: return "a map";
  }
  return "";
}

/// Appends the path from `node` to `target`; false if target is not below node.
bool find_path(const DocumentNode& node, const DocumentNode* target, std::string& path) {
  if (&node == target) return true;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const std::size_t length = path.size();
    if (node.kind == ValueKind::Map) {
      path += (path.empty() ? "" : ".") + node.keys[i];
    } else {
      path += concat("[", i, "]");
    }
    if (find_path(node.items[i], target, path)) return true;
    path.resize(length);
  }
  return false;
}

std::string path_to(const DocumentState& state, const DocumentNode* node) {
  std::string path;
  return node != nullptr && find_path(state.root, node, path) ? path : "";
}

std::string range_text(std::int64_t min, std::int64_t max) {
  if (max >= std::numeric_limits<int>::max()) return concat("a whole number of at least ", min);
  return concat("a whole number from ", min, " to ", max);
}

std::string hint_for_unknown_key(const std::string& key, const DocumentState::KnownKeys& known) {
  std::vector<std::string> candidates = known.names;
  for (const auto& other : known.other_names) candidates.push_back(other.first);
  // Edit distance of a hostile key would take minutes.
  std::string nearest = key.size() > 64 ? "" : nearest_name(key, candidates);
  for (const auto& other : known.other_names) {
    if (nearest == other.first) nearest = other.second;
  }
  if (key == "<<") return "write the keys out: merged maps of YAML are not read";
  if (!nearest.empty()) return concat("did you mean \"", nearest, "\"?");
  std::vector<std::string> names = known.names;
  std::sort(names.begin(), names.end());
  return concat("known keys: ", join(names, ", "));
}

}  // namespace

ValueKind Reader::kind() const { return exists() ? node_->kind : ValueKind::Null; }

Reader Reader::absent_child(const std::string& key) const {
  Reader absent(state_, nullptr);
  absent.parent_ = node_;
  absent.key_ = key;
  return absent;
}

bool Reader::is_map() const {
  if (!exists()) return false;
  if (node_->kind == ValueKind::Map) return true;
  // Said once per value, however many keys are asked for.
  if (!state_->known_keys.contains(node_->order)) {
    state_->known_keys[node_->order];
    fault_kind("a map of keys and values");
  }
  return false;
}

Reader Reader::child(const std::string& key, bool is_required) const {
  if (!is_map()) return absent_child(key);
  std::vector<std::string>& known = state_->known_keys[node_->order].names;
  if (std::find(known.begin(), known.end(), key) == known.end()) known.push_back(key);
  const auto place = std::find(node_->keys.begin(), node_->keys.end(), key);
  if (place == node_->keys.end()) {
    const Reader absent = absent_child(key);
    if (is_required) absent.fault("missing key");
    return absent;
  }
  const DocumentNode& value = node_->items[static_cast<std::size_t>(place - node_->keys.begin())];
  state_->read[value.order] = true;
  return Reader(state_, &value);
}

Reader Reader::required(const std::string& key) const { return child(key, true); }

Reader Reader::optional(const std::string& key) const { return child(key, false); }

bool Reader::has(const std::string& key) const {
  if (!exists() || node_->kind != ValueKind::Map) return false;
  return std::find(node_->keys.begin(), node_->keys.end(), key) != node_->keys.end();
}

void Reader::also_called(const std::string& key, const std::vector<std::string>& others) const {
  if (!is_map()) return;
  for (const std::string& other : others) state_->known_keys[node_->order].other_names.emplace_back(other, key);
}

void Reader::allow_other_keys() const {
  if (is_map()) state_->known_keys[node_->order].others_allowed = true;
}

std::vector<Reader> Reader::items(std::size_t min_count) const {
  std::vector<Reader> readers;
  if (!exists()) return readers;
  if (node_->kind != ValueKind::List) {
    fault_kind("a list");
    return readers;
  }
  if (node_->items.size() < min_count) {
    fault(concat(node_->items.size(), " elements in the list"), concat("at least ", min_count, " needed"));
  }
  readers.reserve(node_->items.size());
  for (const DocumentNode& item : node_->items) readers.push_back(Reader(state_, &item));
  return readers;
}

std::vector<std::pair<std::string, Reader>> Reader::entries(std::size_t min_count) const {
  std::vector<std::pair<std::string, Reader>> readers;
  if (!exists() || !is_map()) return readers;
  if (node_->items.size() < min_count) {
    fault(concat(node_->items.size(), " entries in the map"), concat("at least ", min_count, " needed"));
  }
  readers.reserve(node_->items.size());
  for (std::size_t i = 0; i < node_->items.size(); ++i) {
    state_->read[node_->items[i].order] = true;
    readers.emplace_back(node_->keys[i], Reader(state_, &node_->items[i]));
  }
  return readers;
}

std::string Reader::text() const {
  if (!exists()) return "";
  if (node_->kind == ValueKind::Text) return node_->text;
  const bool is_scalar =
      node_->kind == ValueKind::Boolean || node_->kind == ValueKind::Integer || node_->kind == ValueKind::Real;
  fault_kind("text", is_scalar ? "put it in quotes" : "");
  return "";
}

std::string Reader::name() const {
  const std::string name = text();
  if (kind() != ValueKind::Text) return name;
  const bool has_control = std::any_of(name.begin(), name.end(), [](char c) { return c >= 0 && c < 0x20; });
  if (name.empty() || name.size() > 200 || has_control) {
    fault(concat(quoted(name), " is not a name"), "a name is one line of 1 to 200 bytes");
  }
  return name;
}

std::int64_t Reader::integer(std::int64_t min, std::int64_t max) const {
  if (!exists()) return min;
  if (node_->kind != ValueKind::Integer) {
    const bool is_quoted_number = node_->kind == ValueKind::Text && !node_->text.empty() &&
                                  node_->text.find_first_not_of("0123456789") == std::string::npos;
    fault_kind(range_text(min, max), is_quoted_number ? "write it in decimal, without quotes or leading zeros" : "");
    return min;
  }
  if (node_->integer < min || node_->integer > max) {
    fault_kind(range_text(min, max));
    return min;
  }
  return node_->integer;
}

int Reader::count(int min, int max) const { return static_cast<int>(integer(min, max)); }

double Reader::number(double min, double max) const {
  if (!exists()) return std::max(min, 0.0);
  const double fallback = min > std::numeric_limits<double>::lowest() ? min : 0.0;
  if (node_->kind != ValueKind::Integer && node_->kind != ValueKind::Real) {
    fault_kind("a finite number");
    return fallback;
  }
  if (!std::isfinite(node_->real)) {
    fault_kind("a finite number");
    return fallback;
  }
  if (node_->real < min || node_->real > max) {
    const bool open_ended = max == std::numeric_limits<double>::max();
    fault_kind(open_ended ? concat("a number of at least ", shortest(min))
                          : concat("a number from ", shortest(min), " to ", shortest(max)));
    return fallback;
  }
  return node_->real;
}

bool Reader::boolean() const {
  if (!exists()) return false;
  if (node_->kind != ValueKind::Boolean) {
    fault_kind("true or false");
    return false;
  }
  return node_->integer != 0;
}

std::string Reader::quantity_text(const std::string& example, const std::string& units) const {
  if (node_->kind == ValueKind::Text && !node_->text.empty()) return node_->text;
  if (node_->kind == ValueKind::Integer || node_->kind == ValueKind::Real) {
    fault(concat(described(*node_), " has no unit"), concat("known units: ", units));
  } else {
    fault_kind(example);
  }
  return "";
}

int Reader::choose(const std::vector<std::string>& names) const {
  if (!exists()) return 0;
  if (node_->kind == ValueKind::Text) {
    const auto found = std::find(names.begin(), names.end(), node_->text);
    if (found != names.end()) return static_cast<int>(found - names.begin());
  }
  const std::string nearest = node_->kind == ValueKind::Text ? nearest_name(node_->text, names) : "";
  fault_kind("one of " + join(names, ", "), nearest.empty() ? "" : concat("did you mean \"", nearest, "\"?"));
  return 0;
}

void Reader::fault_kind(const std::string& wanted, const std::string& hint) const {
  fault(concat("found ", described(*node_), ", needed ", wanted), hint);
}

void Reader::fault(const std::string& message, const std::string& hint) const {
  const DocumentNode* const shown = exists() ? node_ : parent_;
  if (shown == nullptr) return;
  if (state_->faults_are_enough()) {
    ++state_->faults_left_out;
    return;
  }
  state_->add_fault(placed(message, hint));
}

Diagnostic Reader::placed(const std::string& message, const std::string& hint) const {
  const DocumentNode* const shown = exists() ? node_ : parent_;
  const Place place = shown == nullptr ? Place{0, 0} : state_->places_of(*shown).value;
  return {state_->file, place.line, place.column, path(), message, hint};
}

std::string Reader::path() const {
  if (exists()) return path_to(*state_, node_);
  const std::string parent = path_to(*state_, parent_);
  return parent.empty() ? key_ : parent + "." + key_;
}

std::string Reader::position() const {
  const DocumentNode* const shown = exists() ? node_ : parent_;
  if (shown == nullptr) return state_->file;
  const Place place = state_->places_of(*shown).value;
  return concat(state_->file, ":", place.line, ":", place.column);
}

bool Reader::document_ok() const { return state_->faults.empty(); }

Document::Document(std::unique_ptr<DocumentState> state) : state_(std::move(state)) {}
Document::Document(Document&&) noexcept = default;
Document& Document::operator=(Document&&) noexcept = default;
Document::~Document() = default;

Document Document::parse(std::string text, std::string file) {
  auto state = std::make_unique<DocumentState>();
  state->file = std::move(file);
  const auto refuse_size = [&](std::size_t limit) {
    throw InputError(Diagnostic{state->file, 0, 0, "", concat("the file is larger than ", pretty(Bytes{limit})), ""});
  };
  if (text.size() > detail::kMaxJsonBytes) refuse_size(detail::kMaxJsonBytes);
  state->text = detail::checked_text(std::move(text), state->file);

  const std::size_t first = state->text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) {
    throw InputError(Diagnostic{state->file, 1, 1, "", "the file is empty", ""});
  }
  Diagnostic json_fault;
  const bool may_be_json = state->text[first] == '{' || state->text[first] == '[';
  if (!may_be_json || !detail::parse_json(*state, json_fault)) {
    if (state->text.size() > detail::kMaxYamlBytes) {
      if (may_be_json) throw InputError(json_fault);
      refuse_size(detail::kMaxYamlBytes);
    }
    try {
      detail::parse_yaml(*state);
    } catch (const InputError&) {
      // Of a text that starts like JSON, the JSON parser's message is the better one; {a: 1 is YAML.
      const std::size_t second = state->text.find_first_not_of(" \t\r\n", first + 1);
      if (may_be_json && (second == std::string::npos || state->text[second] == '"')) throw InputError(json_fault);
      throw;
    }
  }
  if (!state->faults.empty()) throw InputError(state->faults);
  return Document(std::move(state));
}

Reader Document::root() const { return Reader(state_.get(), &state_->root); }

const std::string& Document::file() const { return state_->file; }

bool Document::ok() const { return state_->faults.empty(); }

namespace {

/// Keys of maps that were read, but that nobody asked for.
void report_unknown_keys(DocumentState& state, const DocumentNode& node) {
  const auto known = state.known_keys.find(node.order);
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const DocumentNode& item = node.items[i];
    const bool is_unknown = node.kind == ValueKind::Map && known != state.known_keys.end() &&
                            !known->second.others_allowed && !state.read[item.order];
    if (is_unknown && state.faults_are_enough()) {
      ++state.faults_left_out;
    } else if (is_unknown) {
      const Place place = state.places_of(item).key;
      const std::string path = path_to(state, &item);
      state.add_fault({state.file, place.line, place.column, path, "unknown key",
                       hint_for_unknown_key(node.keys[i], known->second)});
    } else {
      report_unknown_keys(state, item);
    }
  }
}

}  // namespace

void Document::finish() const {
  report_unknown_keys(*state_, state_->root);
  if (state_->faults.empty()) return;
  std::vector<Diagnostic> faults = state_->faults;
  std::stable_sort(faults.begin(), faults.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::pair(a.line, a.column) < std::pair(b.line, b.column);
  });
  if (state_->faults_left_out > 0) {
    // At the last place shown, so that an editor has somewhere to go.
    const Place last{faults.back().line, faults.back().column};
    faults.push_back(
        {state_->file, last.line, last.column, "", concat("and ", state_->faults_left_out, " more faults"), ""});
  }
  throw InputError(std::move(faults));
}

}  // namespace hpplan
