#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace hpplan {

/// A word that may stand at the cursor, and what it means in a few words ("": nothing to say).
struct CompletionWord {
  std::string word;
  std::string meaning;
};

/// What may stand at the cursor. Paths are left to the shell, which knows how its user wants them shown.
struct Completion {
  std::vector<CompletionWord> words;
  bool files = false;
  bool folders = false;
};

/// Completes the last of `words`, the words of a command line after the program's name; it may be "". Verbs, options
/// and values come from the tables that parse and help use. A "=" that a shell splits off as a word of its own is
/// understood.
[[nodiscard]] Completion complete(const CLI::App& app, const std::vector<std::string>& words);

/// A line for each word, "word<TAB>meaning", then ":files" and ":folders" where paths may stand as well.
[[nodiscard]] std::string completion_lines(const Completion& completion);

/// Names of the shells that completion_script knows.
[[nodiscard]] const std::vector<std::string>& completion_shells();

/// The script that makes a shell ask hpplan for completions.
[[nodiscard]] std::string completion_script(const std::string& shell);

}  // namespace hpplan
