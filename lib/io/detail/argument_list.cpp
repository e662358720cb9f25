#include "io/detail/argument_list.hpp"

#include <cctype>
#include <map>

#include "io/detail/text_lines.hpp"

namespace hpplan::detail {

namespace {

bool is_name(const std::string& text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) != 0) return false;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return false;
  }
  return true;
}

/// The word without quotes, as a shell passes it on.
std::string unquoted(const std::string& word) {
  std::string plain;
  for (const char c : word) {
    if (c != '"' && c != '\'') plain += c;
  }
  return plain;
}

/// `$NAME` and `${NAME}` replaced by what the script set before; others stay as they are.
std::string substituted(const std::string& word, const std::map<std::string, std::string>& variables) {
  if (word.size() < 2 || word.front() != '$') return word;
  const bool braces = word[1] == '{' && word.back() == '}';
  const std::string name = braces ? word.substr(2, word.size() - 3) : word.substr(1);
  const auto found = variables.find(name);
  return found == variables.end() ? word : found->second;
}

/// Words of a line as a shell sees them: quotes hold spaces together, `#` at the start of a word ends the line.
std::vector<TextWord> shell_words(const std::string& line) {
  std::vector<TextWord> words;
  std::string word;
  char quote = '\0';
  std::size_t start = 0;
  const auto finish = [&] {
    if (!word.empty()) words.push_back({word, static_cast<int>(start) + 1});
    word.clear();
  };
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == '\0' && (c == ' ' || c == '\t')) {
      finish();
      continue;
    }
    if (quote == '\0' && c == '#' && word.empty()) break;
    if (word.empty()) start = i;
    if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '"' || c == '\'')) {
      quote = c;
    }
    word += c;
  }
  finish();
  return words;
}

bool is_flag(const std::string& word) {
  return word.size() > 2 && word.compare(0, 2, "--") == 0 && std::isalpha(static_cast<unsigned char>(word[2])) != 0;
}

}  // namespace

std::vector<Argument> read_argument_list(const std::string& text) {
  std::vector<Argument> arguments;
  std::map<std::string, std::string> variables;
  for (const TextLine& line : lines_of(text)) {
    bool at_start = true;
    for (TextWord word : shell_words(line.text)) {
      const std::size_t equals = word.text.find('=');
      if (at_start && !is_flag(word.text) && equals != std::string::npos && is_name(word.text.substr(0, equals)) &&
          word.text.compare(equals + 1, 1, "(") != 0) {
        variables[word.text.substr(0, equals)] = substituted(unquoted(word.text.substr(equals + 1)), variables);
        continue;
      }
      at_start = false;
      if (word.text == "\\" || word.text == "(" || word.text == ")") continue;
      const std::string plain = unquoted(word.text);
      if (is_flag(plain)) {
        const std::size_t value = plain.find('=');
        arguments.push_back({plain.substr(0, value), {}, line.number, word.column});
        if (value != std::string::npos)
          arguments.back().values.push_back(substituted(plain.substr(value + 1), variables));
      } else if (!arguments.empty() && !plain.empty()) {
        arguments.back().values.push_back(substituted(plain, variables));
      }
    }
  }
  return arguments;
}

}  // namespace hpplan::detail
