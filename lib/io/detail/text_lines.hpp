#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.hpp"

namespace hpplan::detail {

/// A word of a line and the column where it starts, from 1.
struct TextWord {
  std::string text;
  int column = 1;
};

/// One line of a text without its line end (LF or CR LF). Lines count from 1.
struct TextLine {
  int number = 1;
  std::string text;
};

/// Throws InputError for a text with a zero byte: no person and no tool that prints lines wrote it.
void check_is_text(const std::string& text, const std::string& file);

/// A byte order mark at the start is left out.
[[nodiscard]] std::vector<TextLine> lines_of(const std::string& text);

/// `text` without ANSI escape sequences (colour, underline), which terminals add when output is captured.
[[nodiscard]] std::string without_escapes(const std::string& text);

/// Words of a line, separated by spaces and tabs.
[[nodiscard]] std::vector<TextWord> words_of(const std::string& line);

/// Cells of a line, separated by exactly one `separator` each, with spaces around a cell dropped.
[[nodiscard]] std::vector<TextWord> cells_of(const std::string& line, char separator);

/// A whole number of at least 0 that takes up all of `text`; nothing if it is none or exceeds 10^9.
[[nodiscard]] std::optional<int> whole_number(std::string_view text);

/// A finite decimal number that takes up all of `text`.
[[nodiscard]] std::optional<double> decimal_number(std::string_view text);

/// Part of a text from a file, fit for a message: in quotes, one line, at most 60 bytes.
[[nodiscard]] std::string quoted_text(std::string_view text);

/// Faults of one text file, all shown at once.
class TextFaults {
 public:
  explicit TextFaults(std::string file) : file_(std::move(file)) {}

  void add(int line, int column, const std::string& field, const std::string& message, const std::string& hint);
  [[nodiscard]] bool empty() const { return faults_.empty(); }
  /// Throws InputError if there was any fault.
  void finish() const;

 private:
  std::string file_;
  std::vector<Diagnostic> faults_;
};

}  // namespace hpplan::detail
