#include "completion.hpp"

#include <algorithm>
#include <set>

#include <CLI/CLI.hpp>

#include "base/text.hpp"
#include "usage.hpp"
#include "value_kinds.hpp"

namespace hpplan {

namespace {

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* verb) { return !verb->get_name().empty(); });
}

const CLI::App* find_verb(const CLI::App& app, const std::string& name) {
  for (const CLI::App* verb : verbs_of(app)) {
    if (verb->get_name() == name) return verb;
  }
  return nullptr;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

bool starts_with(const std::string& text, const std::string& start) { return text.rfind(start, 0) == 0; }

/// The part of an explanation that fits beside a word.
std::string first_clause(const std::string& text) { return text.substr(0, text.find(';')); }

/// Where the cursor is: the verb, the option whose value it stands in, and how many arguments came before.
struct Cursor {
  const CLI::App* verb = nullptr;
  const CLI::Option* option = nullptr;  // null: not in a value
  std::size_t arguments = 0;
  bool arguments_only = false;  // after "--"
  std::set<std::string> used;   // options
};

void take_option(Cursor& cursor, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const CLI::Option* const option = cursor.verb->get_option_no_throw(name);
  cursor.used.insert(name);
  const bool value_follows = name == word && option != nullptr && takes_value(*option);
  cursor.option = value_follows ? option : nullptr;
}

Cursor find_cursor(const CLI::App& app, const std::vector<std::string>& words) {
  Cursor cursor;
  cursor.verb = &app;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "=" && cursor.option != nullptr) continue;
    if (cursor.option != nullptr) {
      cursor.option = nullptr;
    } else if (word == "--") {
      cursor.arguments_only = true;
    } else if (!cursor.arguments_only && word.size() > 1 && word.front() == '-') {
      take_option(cursor, word);
    } else if (const CLI::App* verb = cursor.arguments == 0 ? find_verb(*cursor.verb, word) : nullptr) {
      cursor.verb = verb;
      cursor.used.clear();
    } else {
      ++cursor.arguments;
    }
  }
  return cursor;
}

void add_values(Completion& completion, const CLI::App& app, const CLI::Option& option, const std::string& before,
                std::string written) {
  std::vector<std::string> verbs;
  for (const CLI::App* verb : verbs_of(app)) verbs.push_back(verb->get_name());
  const OptionValue kind = value_kind(option, verbs);
  std::string start = before;
  // In a list the last element is completed.
  const std::size_t comma = option.get_delimiter() == '\0' ? std::string::npos : written.rfind(option.get_delimiter());
  if (comma != std::string::npos) {
    start += written.substr(0, comma + 1);
    written.erase(0, comma + 1);
  }
  for (const std::string& word : kind.words) {
    if (starts_with(word, written)) completion.words.push_back({start + word, ""});
  }
  completion.files = completion.files || kind.files;
  completion.folders = completion.folders || kind.folders;
}

void add_options(Completion& completion, const Cursor& cursor, const std::string& written) {
  for (const CLI::Option* option : cursor.verb->get_options()) {
    for (const std::string& name : option->get_lnames()) {
      const std::string word = "--" + name;
      const bool once = option->get_items_expected_max() <= 1;
      if (!starts_with(word, written) || (once && cursor.used.count(word) > 0)) continue;
      completion.words.push_back({word, first_clause(option->get_description())});
    }
  }
}

void add_verbs(Completion& completion, const CLI::App& app, const std::string& written) {
  for (const CLI::App* verb : verbs_of(app)) {
    if (!starts_with(verb->get_name(), written)) continue;
    completion.words.push_back({verb->get_name(), verb->get_description()});
  }
}

}  // namespace

Completion complete(const CLI::App& app, const std::vector<std::string>& words) {
  Completion completion;
  if (words.empty()) return completion;
  const Cursor cursor = find_cursor(app, words);
  const std::string written = words.back() == "=" ? "" : words.back();
  const std::size_t equals = written.find('=');
  if (cursor.option != nullptr) {
    add_values(completion, app, *cursor.option, "", written);
  } else if (!cursor.arguments_only && starts_with(written, "--") && equals != std::string::npos) {
    const CLI::Option* const option = cursor.verb->get_option_no_throw(written.substr(0, equals));
    if (option != nullptr) {
      add_values(completion, app, *option, written.substr(0, equals + 1), written.substr(equals + 1));
    }
  } else if (!cursor.arguments_only && starts_with(written, "-")) {
    add_options(completion, cursor, written);
  } else {
    if (cursor.arguments == 0) add_verbs(completion, *cursor.verb, written);
    const std::vector<const CLI::Option*> arguments = arguments_of(*cursor.verb);
    // The last argument may be one that takes all further words.
    const std::size_t at = std::min(cursor.arguments, arguments.empty() ? 0 : arguments.size() - 1);
    const bool taken = cursor.arguments > at && arguments[at]->get_items_expected_max() <= 1;
    if (at < arguments.size() && !taken) add_values(completion, app, *arguments[at], "", written);
    if (completion.words.empty() && !completion.files && !completion.folders && written.empty()) {
      add_options(completion, cursor, "");
    }
  }
  return completion;
}

std::string completion_lines(const Completion& completion) {
  std::string text;
  for (const CompletionWord& word : completion.words) {
    text += word.meaning.empty() ? word.word + "\n" : concat(word.word, "\t", word.meaning, "\n");
  }
  if (completion.files) text += ":files\n";
  if (completion.folders) text += ":folders\n";
  return text;
}

const std::vector<std::string>& completion_shells() {
  static const std::vector<std::string> shells = {"bash", "zsh", "fish"};
  return shells;
}

std::string completion_script(const std::string& shell) {
  if (shell == "bash") {
    return R"sh(# bash completion of hpplan; made by `hpplan completion bash`
_hpplan() {
  local program=$1 word current=${COMP_WORDS[COMP_CWORD]} found=()
  [ "$current" = "=" ] && current=
  while IFS=$'\t' read -r word _; do
    case $word in
      :files) compopt -o filenames 2>/dev/null; mapfile -t -O "${#found[@]}" found < <(compgen -f -- "$current") ;;
      :folders) compopt -o filenames 2>/dev/null; mapfile -t -O "${#found[@]}" found < <(compgen -d -- "$current") ;;
      *) found+=("$word") ;;
    esac
  done < <("$program" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  COMPREPLY=("${found[@]}")
}
complete -F _hpplan hpplan
)sh";
  }
  if (shell == "zsh") {
    return R"sh(#compdef hpplan
# zsh completion of hpplan; made by `hpplan completion zsh`
_hpplan() {
  local line word paths=
  local -a found
  for line in "${(@f)$("${words[1]}" completion words -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}"; do
    case $line in
      '') ;;
      :files) paths=files ;;
      :folders) [[ -n $paths ]] || paths=folders ;;
      *) word=${line%%$'\t'*}; found+=("${word//:/\\:}${${line#$word}/$'\t'/:}") ;;
    esac
  done
  (( $#found )) && _describe -t hpplan 'hpplan' found
  [[ -n $paths && $PREFIX == --*=* ]] && compset -P '*='
  case $paths in
    files) _files ;;
    folders) _files -/ ;;
  esac
}
if [ "${funcstack[1]}" = "_hpplan" ]; then _hpplan "$@"; elif (( $+functions[compdef] )); then compdef _hpplan hpplan; fi
)sh";
  }
  return R"sh(# fish completion of hpplan; made by `hpplan completion fish`
function __hpplan_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  for line in ($words[1] completion words -- $words[2..-1] "$current" 2>/dev/null)
    switch $line
      case ':files'
        __fish_complete_path (string replace -r '^--[^=]*=' '' -- $current)
      case ':folders'
        __fish_complete_directories (string replace -r '^--[^=]*=' '' -- $current)
      case '*'
        echo $line
    end
  end
end
complete -c hpplan -f -a '(__hpplan_complete)'
)sh";
}

}  // namespace hpplan
