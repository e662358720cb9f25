#pragma once

namespace hpplan {

/// While one is alive, the first Ctrl-C (SIGINT) asks to end instead of ending the program; the second ends it as
/// usual. One at a time: signals know no objects.
class InterruptGuard {
 public:
  InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard();

  [[nodiscard]] static bool asked_to_end();

 private:
  void (*before_)(int) = nullptr;  // what SIGINT did
};

}  // namespace hpplan
