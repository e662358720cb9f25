#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/diagnostic.hpp"
#include "io/document.hpp"

namespace hpplan::detail {

/// What no honest file needs: deeper, larger or longer input is refused before it costs memory or time.
constexpr int kMaxDepth = 100;
constexpr std::size_t kMaxNodes = 4'000'000;
constexpr std::size_t kMaxJsonBytes = std::size_t{128} << 20;
constexpr std::size_t kMaxYamlBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxFaults = 20;

/// Line and column, both from 1.
struct Place {
  int line = 1;
  int column = 1;
};

struct DocumentNode {
  ValueKind kind = ValueKind::Null;
  std::uint32_t order = 0;          // number of this value in document order; positions are looked up by it
  std::int64_t integer = 0;         // Integer; Boolean as 0 or 1
  double real = 0.0;                // Integer and Real
  std::string text;                 // Text; for a Real its spelling
  std::vector<std::string> keys;    // Map: keys[i] belongs to items[i]
  std::vector<DocumentNode> items;  // List and Map
};

/// Positions of a value and of its key (of a list element: the value again).
struct NodePlaces {
  Place value;
  Place key;
};

struct DocumentState {
  std::string file;
  std::string text;
  bool is_json = false;
  DocumentNode root;
  std::vector<NodePlaces> places;  // by order; of JSON only filled when the first message needs it
  std::vector<Diagnostic> faults;
  std::size_t faults_left_out = 0;

  std::vector<bool> read;  // by order
  struct KnownKeys {
    std::vector<std::string> names;                                // asked for
    std::vector<std::pair<std::string, std::string>> other_names;  // name elsewhere, name here
    bool others_allowed = false;
  };
  std::map<std::uint32_t, KnownKeys> known_keys;  // by order of the map

  void add_fault(Diagnostic diagnostic);
  /// Further faults are only counted: finding the path of each would take quadratic time in a hostile file.
  [[nodiscard]] bool faults_are_enough() const { return faults.size() >= kMaxFaults; }
  [[nodiscard]] const NodePlaces& places_of(const DocumentNode& node);
};

/// Builds the tree from the events of a parser. Refuses duplicate keys, depth and size, by throwing InputError where it
/// cannot go on; duplicate keys are only noted, because their places may not be known yet.
class TreeBuilder {
 public:
  explicit TreeBuilder(std::string file) : file_(std::move(file)) {}

  void scalar(DocumentNode node);
  void start(ValueKind kind);
  void end();
  void key(std::string name);
  /// Adds a copy of a finished value (a YAML alias).
  void copy(const DocumentNode& node);

  [[nodiscard]] DocumentNode& root() { return root_; }
  [[nodiscard]] std::uint32_t next_order() const { return next_order_; }
  /// The innermost open list or map; null outside.
  [[nodiscard]] DocumentNode* open() { return open_.empty() ? nullptr : open_.back(); }
  [[nodiscard]] DocumentNode& last();

  struct Duplicate {
    std::uint32_t first = 0;  // orders of the two values
    std::uint32_t second = 0;
    std::string key;
  };
  [[nodiscard]] const std::vector<Duplicate>& duplicates() const { return duplicates_; }

 private:
  DocumentNode& add(DocumentNode node);
  void number(DocumentNode& node);
  void find_duplicates(const DocumentNode& map);

  std::string file_;
  DocumentNode root_;
  std::vector<DocumentNode*> open_;
  std::uint32_t next_order_ = 0;
  std::vector<Duplicate> duplicates_;
};

/// Refuses what neither YAML nor JSON may hold: not UTF-8, control characters. Removes a byte order mark.
[[nodiscard]] std::string checked_text(std::string text, const std::string& file);

/// Line and column of byte `offset`.
[[nodiscard]] Place place_at(const std::string& text, std::size_t offset);

/// Fills state.root from state.text. False (and `fault` set) when the text is not JSON.
[[nodiscard]] bool parse_json(DocumentState& state, Diagnostic& fault);
/// The places of all values of a JSON text, by order; of a broken one, up to the fault.
[[nodiscard]] std::vector<NodePlaces> json_places(const std::string& text);

/// Fills state.root and state.places from state.text; throws InputError.
void parse_yaml(DocumentState& state);

/// Turns the duplicates noted by `builder` into faults of `state`.
void report_duplicates(DocumentState& state, const TreeBuilder& builder);

}  // namespace hpplan::detail
