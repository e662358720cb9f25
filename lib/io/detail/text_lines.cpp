#include "io/detail/text_lines.hpp"

#include <charconv>
#include <cmath>

namespace hpplan::detail {

namespace {

constexpr std::size_t kMaxFaultsShown = 50;

bool is_space(char c) { return c == ' ' || c == '\t'; }

}  // namespace

void check_is_text(const std::string& text, const std::string& file) {
  if (text.find('\0') != std::string::npos)
    throw InputError(Diagnostic{file, 0, 0, "", "not a text file: it holds a zero byte", ""});
}

std::vector<TextLine> lines_of(const std::string& text) {
  std::vector<TextLine> lines;
  std::size_t start = text.rfind("\xEF\xBB\xBF", 0) == 0 ? 3 : 0;
  while (start < text.size()) {
    std::size_t end = text.find('\n', start);
    if (end == std::string::npos) end = text.size();
    std::string line = text.substr(start, end - start);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back({static_cast<int>(lines.size()) + 1, std::move(line)});
    start = end + 1;
  }
  return lines;
}

std::string without_escapes(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033' && i + 1 < text.size() && text[i + 1] == '[') {
      i += 2;
      while (i < text.size() && (text[i] < '@' || text[i] > '~')) ++i;  // ends with a letter
      continue;
    }
    plain += text[i];
  }
  return plain;
}

std::vector<TextWord> words_of(const std::string& line) {
  std::vector<TextWord> words;
  for (std::size_t i = 0; i < line.size();) {
    if (is_space(line[i])) {
      ++i;
      continue;
    }
    const std::size_t start = i;
    while (i < line.size() && !is_space(line[i])) ++i;
    words.push_back({line.substr(start, i - start), static_cast<int>(start) + 1});
  }
  return words;
}

std::vector<TextWord> cells_of(const std::string& line, char separator) {
  std::vector<TextWord> cells;
  std::size_t start = 0;
  while (true) {
    std::size_t end = line.find(separator, start);
    if (end == std::string::npos) end = line.size();
    std::size_t first = start;
    std::size_t last = end;
    while (first < last && line[first] == ' ') ++first;
    while (last > first && line[last - 1] == ' ') --last;
    cells.push_back({line.substr(first, last - first), static_cast<int>(first) + 1});
    if (end == line.size()) return cells;
    start = end + 1;
  }
}

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (value < 0 || value > 1'000'000'000 || text.front() == '-') return std::nullopt;
  return value;
}

std::optional<double> decimal_number(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

std::string quoted_text(std::string_view text) {
  std::string shown = "\"";
  for (const char c : text) {
    if (shown.size() > 60) {
      shown += "...";
      break;
    }
    shown += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return shown + "\"";
}

void TextFaults::add(int line, int column, const std::string& field, const std::string& message,
                     const std::string& hint) {
  if (faults_.size() < kMaxFaultsShown) faults_.push_back({file_, line, column, field, message, hint});
}

void TextFaults::finish() const {
  if (!faults_.empty()) throw InputError(faults_);
}

}  // namespace hpplan::detail
