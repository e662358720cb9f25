#include "io/import_model.hpp"

#include "io/detail/text_lines.hpp"

namespace hpplan {

ImportedModel import_model(const std::string& text, const std::string& file, const ModelImportOptions& options) {
  detail::check_is_text(text, file);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && text[first] == '{';
  return is_json ? import_hugging_face(text, file, options) : import_megatron_model(text, file, options);
}

}  // namespace hpplan
