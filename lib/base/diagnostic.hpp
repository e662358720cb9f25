#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace hpplan {

/// One fault of an input. `line` and `column` count from 1; 0 means that the fault has no place in a file.
struct Diagnostic {
  std::string file;
  int line = 0;
  int column = 0;
  std::string field;    // path such as "node_groups[1].devices_per_node"; may be empty
  std::string message;  // what was found and what is allowed
  std::string hint;     // what to do; may be empty
};

/// One line that editors can jump to, and an indented hint:
///   cluster.yaml:6:14: error: inter_node.bandwidth: unknown unit "Gb" in "25 Gb"
///     hint: use GBps or Gbps
[[nodiscard]] std::string to_text(const Diagnostic& diagnostic);

/// Bad input or usage: carries every fault found, not only the first. Ends the program with exit code 2.
class InputError : public std::runtime_error {
 public:
  explicit InputError(std::vector<Diagnostic> diagnostics);
  explicit InputError(Diagnostic diagnostic);

  [[nodiscard]] const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

}  // namespace hpplan
