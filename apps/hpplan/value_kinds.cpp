#include "value_kinds.hpp"

#include <algorithm>
#include <map>

#include <CLI/CLI.hpp>

#include "app.hpp"
#include "emit/export.hpp"
#include "load.hpp"
#include "schedule/table.hpp"
#include "schedule_names.hpp"

namespace hpplan {

namespace {

template <typename Table>
std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.name);
  return names;
}

/// Shipped profiles; beside them lie files that are none.
std::vector<std::string> profile_names() {
  std::vector<std::string> names = shipped_names("profiles");
  std::erase_if(names, [](const std::string& name) { return name == "devices" || name == "profile.schema"; });
  return names;
}

bool is_choice(const std::string& word) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !word.empty() && std::all_of(word.begin(), word.end(), fits);
}

}  // namespace

std::vector<std::string> choices_in(const std::string& placeholder) {
  std::string text = placeholder;
  if (const std::size_t more = text.find(",..."); more != std::string::npos) text.erase(more);
  std::vector<std::string> words{""};
  for (const char c : text) {
    if (c == '|') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  if (!std::all_of(words.begin(), words.end(), is_choice)) return {};
  return words;
}

OptionValue value_kind(const CLI::Option& option, const std::vector<std::string>& verbs) {
  const std::string name = option.get_type_name();
  if (name == "MODEL") return {shipped_names("configs/models"), true, false};
  if (name == "CLUSTER") return {shipped_names("configs/clusters"), true, false};
  if (name == "PROFILE") return {profile_names(), true, true};
  if (name == "DEVICE") return {names_of(load_device_types()), false, false};
  if (name == "FAMILY") return {names_of(schedule_families()), false, false};
  if (name == "FAMILIES") {
    std::vector<std::string> names = names_of(schedule_families());
    names.emplace_back(kAllSynchronous);
    return {std::move(names), false, false};
  }
  if (name == "TARGET") return {names_of(export_targets()), false, false};
  if (name == "VERB") return {verbs, false, false};
  if (name == "FILE") return {{}, true, false};
  if (name == "FOLDER") return {{}, false, true};
  if (name == "PATH") return {{}, true, true};
  return {choices_in(name), false, false};
}

}  // namespace hpplan
