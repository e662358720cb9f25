#pragma once

#include <array>

namespace hpplan {

/// While one is alive, the first Ctrl-C (SIGINT) or end of a batch job (SIGTERM) asks to end instead of ending the
/// program; the second ends it as usual. One at a time: signals know no objects.
class InterruptGuard {
 public:
  InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard();

  [[nodiscard]] static bool asked_to_end();

 private:
  using Handler = void (*)(int);
  std::array<Handler, 2> before_{};  // what the signals did
};

}  // namespace hpplan
