#include "base/check.hpp"

#include "base/text.hpp"

namespace hpplan {

void fail_check(const std::string& text, std::source_location where) {
  throw InternalError(concat(where.file_name(), ":", where.line(), ": internal error: ", text));
}

}  // namespace hpplan
