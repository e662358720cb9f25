#include "base/diagnostic.hpp"

#include <utility>

#include "base/text.hpp"

namespace hpplan {

namespace {

std::string all_texts(const std::vector<Diagnostic>& diagnostics) {
  std::vector<std::string> texts;
  texts.reserve(diagnostics.size());
  for (const Diagnostic& diagnostic : diagnostics) texts.push_back(to_text(diagnostic));
  return join(texts, "\n");
}

}  // namespace

std::string to_text(const Diagnostic& diagnostic) {
  std::string text = diagnostic.file.empty() ? std::string("hpplan") : diagnostic.file;
  if (diagnostic.line > 0) text += concat(":", diagnostic.line, ":", diagnostic.column);
  text += ": error: ";
  if (!diagnostic.field.empty()) text += diagnostic.field + ": ";
  text += diagnostic.message;
  if (!diagnostic.hint.empty()) text += "\n  hint: " + diagnostic.hint;
  return text;
}

InputError::InputError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(all_texts(diagnostics)), diagnostics_(std::move(diagnostics)) {}

InputError::InputError(Diagnostic diagnostic) : InputError(std::vector<Diagnostic>{std::move(diagnostic)}) {}

}  // namespace hpplan
