#include "io/placement_rule_reader.hpp"

#include <charconv>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "io/detail/limits.hpp"

namespace hpplan {

namespace {

std::optional<int> index_of(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (!whole || value < 0 || value > detail::kMaxCount) return std::nullopt;
  return value;
}

class RuleParser {
 public:
  explicit RuleParser(RuleKind kind) { rule_.kind = kind; }

  std::variant<PlacementRule, RuleFault> run(const std::string& text) {
    std::istringstream words(text);
    bool any = false;
    for (std::string word; fault_.message.empty() && words >> word; any = true) read(word);
    if (!any) refuse("an empty rule", kRuleForms);
    if (!fault_.message.empty()) return fault_;
    return rule_;
  }

 private:
  void refuse(const std::string& message, const std::string& hint) { fault_ = {rule_.kind, message, hint}; }

  void read(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    if (equals == std::string::npos || equals + 1 == word.size()) {
      refuse(concat("\"", word, "\" is not KEY=VALUE"), kRuleForms);
      return;
    }
    const std::string value = word.substr(equals + 1);
    if (key == "layers" || key == "stage") {
      read_layers(word, key, value);
    } else if (std::vector<std::string>* names = list_of(key)) {
      for (const std::string& name : values(word, value)) names->push_back(name);
    } else if (key == "device") {
      for (const std::string& name : values(word, value)) read_device(word, name);
    } else {
      const std::string nearest = nearest_name(key, {"type", "group", "node", "device", "layers", "stage"});
      refuse(concat("unknown word \"", key, "\" in \"", word, "\""),
             nearest.empty() ? kRuleForms : concat("did you mean \"", nearest, "\"?"));
    }
  }

  std::vector<std::string>* list_of(const std::string& key) {
    if (key == "type") return &rule_.types;
    if (key == "group") return &rule_.groups;
    return key == "node" ? &rule_.nodes : nullptr;
  }

  std::vector<std::string> values(const std::string& word, const std::string& text) {
    std::vector<std::string> parts(1);
    for (const char c : text) {
      if (c == ',') {
        parts.emplace_back();
      } else {
        parts.back() += c;
      }
    }
    for (const std::string& part : parts) {
      if (part.empty()) refuse(concat("an empty name in \"", word, "\""), "write names with commas between");
    }
    return parts;
  }

  void read_device(const std::string& word, const std::string& name) {
    const std::size_t colon = name.rfind(':');
    const auto index = colon == std::string::npos ? std::nullopt : index_of(name.substr(colon + 1));
    if (!index || colon == 0) {
      refuse(concat("\"", name, "\" in \"", word, "\" is not NODE:INDEX"),
             "such as device=a100-0:3; devices count from 0");
      return;
    }
    rule_.devices.push_back({name.substr(0, colon), *index});
  }

  void read_layers(const std::string& word, const std::string& key, const std::string& value) {
    if (rule_.choice != LayerChoice::All) {
      refuse(concat("\"", word, "\" after other layers"), "one rule names one range of layers; give another rule");
      return;
    }
    const bool first = key == "stage" ? value == "first" : value == "embedding";
    const bool last = key == "stage" ? value == "last" : value == "head";
    if (last) rule_.choice = LayerChoice::Head;
    if (first || last) {
      if (first) set_range(0, 0);
      return;
    }
    if (key == "stage") {
      refuse(concat("\"", word, "\""),
             "stage=first holds the embedding, stage=last the head; others are named by layers=");
      return;
    }
    const std::size_t dash = value.find('-');
    const std::size_t dots = value.find("..");
    const std::size_t split = dash != std::string::npos ? dash : dots;
    const std::size_t skip = dash != std::string::npos ? 1 : 2;
    const auto from = index_of(value.substr(0, split));
    const auto to = split == std::string::npos ? from : index_of(value.substr(split + skip));
    if (!from || !to || *to < *from) {
      refuse(concat("\"", word, "\" is no range of layers"),
             "layers=0-3 is the embedding and blocks 1 to 3; also layers=5, layers=embedding, layers=head");
      return;
    }
    set_range(*from, *to);
  }

  void set_range(int first, int last) {
    rule_.choice = LayerChoice::Range;
    rule_.layers = {first, last + 1};
  }

  PlacementRule rule_;
  RuleFault fault_;
};

}  // namespace

std::variant<PlacementRule, RuleFault> parse_placement_rule(RuleKind kind, const std::string& text) {
  return RuleParser(kind).run(text);
}

}  // namespace hpplan
