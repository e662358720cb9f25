#pragma once

#include <string>
#include <vector>

namespace CLI {
class Option;
}  // namespace CLI

namespace hpplan {

/// What a value on the command line may be, as far as it is known beforehand.
struct OptionValue {
  std::vector<std::string> words;  // names and choices, in the order of the tables they come from
  bool files = false;              // a path of a file may stand here
  bool folders = false;            // a path of a folder may
};

/// The values that `option` takes, told by what help shows in their place: MODEL is a file or a shipped model, FAMILY a
/// schedule family, `auto|always|never` one of these words; of anything else, such as N or SECONDS, nothing is known.
/// `verbs` are the words for VERB.
[[nodiscard]] OptionValue value_kind(const CLI::Option& option, const std::vector<std::string>& verbs);

/// The words of "auto|always|never", also of a list of them, "none|zero,..."; empty for another text.
[[nodiscard]] std::vector<std::string> choices_in(const std::string& placeholder);

}  // namespace hpplan
