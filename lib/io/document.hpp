#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/diagnostic.hpp"
#include "io/quantity.hpp"

namespace hpplan {

namespace detail {
struct DocumentNode;
struct DocumentState;
}  // namespace detail

enum class ValueKind { Null, Boolean, Integer, Real, Text, List, Map };

/// Whether a quantity may be 0 (a latency may, a bandwidth may not).
enum class ZeroRule { Refused, Allowed };

/// A place in a document: one value, its path and its position. Cheap to copy; lives as long as its Document.
///
/// Accessors never throw: a fault is recorded in the document and a fallback returned, so that one pass finds every
/// fault. Values are only valid after Document::finish(), which throws if there was any. Accessors of an absent value
/// return their fallback in silence: `required` has already recorded that it is missing.
class Reader {
 public:
  /// False for an absent optional key and for a missing required one.
  [[nodiscard]] bool exists() const { return node_ != nullptr; }
  [[nodiscard]] ValueKind kind() const;  // Null when absent

  /// The value of `key`. Keys that nobody asks for are faults ("unknown key") when the document is finished.
  [[nodiscard]] Reader required(const std::string& key) const;
  [[nodiscard]] Reader optional(const std::string& key) const;
  /// Whether the value is a map with `key`. Unlike `optional` it does not count as asking for the key.
  [[nodiscard]] bool has(const std::string& key) const;
  /// `others` are names of `key` in other tools: not accepted, but answered with `key` as the hint.
  void also_called(const std::string& key, const std::vector<std::string>& others) const;
  /// Keys nobody asks for are fine in this map: for formats that are not ours.
  void allow_other_keys() const;

  /// The elements of a list of at least `min_count`.
  [[nodiscard]] std::vector<Reader> items(std::size_t min_count = 0) const;
  /// Keys and values of a map whose keys are data.
  [[nodiscard]] std::vector<std::pair<std::string, Reader>> entries(std::size_t min_count = 0) const;

  [[nodiscard]] std::string text() const;
  /// A text fit to be shown and to be looked up: not empty, at most 200 bytes, one line.
  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::int64_t integer(std::int64_t min, std::int64_t max) const;
  [[nodiscard]] int count(int min, int max = std::numeric_limits<int>::max()) const;
  /// A finite number in [min, max].
  [[nodiscard]] double number(double min = std::numeric_limits<double>::lowest(),
                              double max = std::numeric_limits<double>::max()) const;
  [[nodiscard]] bool boolean() const;

  /// A number with a unit, such as "64 GB"; see parse_quantity.
  template <typename Quantity>
  [[nodiscard]] Quantity quantity(ZeroRule zero = ZeroRule::Refused) const;

  /// One of the given words, as the value that belongs to it.
  template <typename Value>
  [[nodiscard]] Value one_of(std::initializer_list<std::pair<const char*, Value>> choices) const;

  // The same, with the value that an absent key stands for.
  [[nodiscard]] std::string text_or(const std::string& fallback) const { return exists() ? text() : fallback; }
  [[nodiscard]] int count_or(int fallback, int min, int max = std::numeric_limits<int>::max()) const {
    return exists() ? count(min, max) : fallback;
  }
  [[nodiscard]] double number_or(double fallback, double min, double max) const {
    return exists() ? number(min, max) : fallback;
  }
  [[nodiscard]] bool boolean_or(bool fallback) const { return exists() ? boolean() : fallback; }

  /// Records a fault at this value (at its parent when absent).
  void fault(const std::string& message, const std::string& hint = "") const;

  /// The fault that `fault` would record, for checks that come after the document is finished.
  [[nodiscard]] Diagnostic placed(const std::string& message, const std::string& hint = "") const;

  /// "node_groups[1].devices_per_node".
  [[nodiscard]] std::string path() const;
  /// "cluster.yaml:6:14", to name another place in a message.
  [[nodiscard]] std::string position() const;
  /// True while no fault at all was recorded in the document: cross-field checks need valid fields.
  [[nodiscard]] bool document_ok() const;

 private:
  friend class Document;
  Reader(detail::DocumentState* state, const detail::DocumentNode* node) : state_(state), node_(node) {}

  [[nodiscard]] Reader absent_child(const std::string& key) const;
  [[nodiscard]] Reader child(const std::string& key, bool is_required) const;
  [[nodiscard]] bool is_map() const;
  void fault_kind(const std::string& wanted, const std::string& hint = "") const;
  [[nodiscard]] std::string quantity_text(const std::string& example, const std::string& units) const;
  [[nodiscard]] int choose(const std::vector<std::string>& names) const;

  detail::DocumentState* state_ = nullptr;
  const detail::DocumentNode* node_ = nullptr;    // null: absent
  const detail::DocumentNode* parent_ = nullptr;  // of an absent value
  std::string key_;                               // of an absent value
};

/// A YAML or JSON text as a tree of values with positions. The text decides which of the two it is.
///
/// What it refuses besides bad syntax: duplicate keys, text that is not UTF-8, control characters, more than one YAML
/// document, YAML tags, and sizes that only an attack has (depth, aliases, number of values). YAML words stay text:
/// only true and false are booleans, and only decimal numbers are numbers (`yes`, `0x10`, `.inf` are text).
class Document {
 public:
  /// Throws InputError with every fault of the syntax. `file` is the name shown in messages.
  [[nodiscard]] static Document parse(std::string text, std::string file);

  Document(Document&&) noexcept;
  Document& operator=(Document&&) noexcept;
  ~Document();

  [[nodiscard]] Reader root() const;
  [[nodiscard]] const std::string& file() const;
  [[nodiscard]] bool ok() const;
  /// Reports keys that nobody read, then throws InputError if any fault was recorded. Call it before using a value.
  void finish() const;

 private:
  explicit Document(std::unique_ptr<detail::DocumentState> state);
  std::unique_ptr<detail::DocumentState> state_;
};

template <typename Quantity>
Quantity Reader::quantity(ZeroRule zero) const {
  if (!exists()) return Quantity{};
  const std::string text = quantity_text(quantity_example<Quantity>(), known_units<Quantity>());
  if (text.empty()) return Quantity{};
  const std::variant<Quantity, QuantityFault> parsed = parse_quantity<Quantity>(text);
  if (const auto* found = std::get_if<QuantityFault>(&parsed)) {
    fault(found->message, found->hint);
    return Quantity{};
  }
  const Quantity value = std::get<Quantity>(parsed);
  if (zero == ZeroRule::Refused && !(value > Quantity{})) {
    fault("\"" + text + "\" is zero", "write " + quantity_example<Quantity>());
  }
  return value;
}

template <typename Value>
Value Reader::one_of(std::initializer_list<std::pair<const char*, Value>> choices) const {
  std::vector<std::string> names;
  for (const auto& choice : choices) names.emplace_back(choice.first);
  return (choices.begin() + choose(names))->second;
}

}  // namespace hpplan
