#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace hpplan {

/// A broken invariant: our own mistake, never the user's. Ends the program with exit code 1.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const std::string& text, std::source_location where);

/// Ends with InternalError unless `condition` holds. `text` says what was expected.
inline void check_invariant(bool condition, const char* text,
                            std::source_location where = std::source_location::current()) {
  if (!condition) fail_check(text, where);
}

}  // namespace hpplan
