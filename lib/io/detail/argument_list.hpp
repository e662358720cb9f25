#pragma once

#include <string>
#include <vector>

namespace hpplan::detail {

/// One option of a command line and the words after it.
struct Argument {
  std::string flag;                 // with its dashes
  std::vector<std::string> values;  // up to the next option
  int line = 1;
  int column = 1;
};

/// Options of an argument list: one or several per line, `--flag value` or `--flag=value`, with or without the quotes,
/// line ends, array brackets and `NAME=value` variables of a shell script. `#` starts a comment.
[[nodiscard]] std::vector<Argument> read_argument_list(const std::string& text);

}  // namespace hpplan::detail
