#include "interrupt.hpp"

#include <atomic>
#include <csignal>

namespace hpplan {

namespace {

// A signal handler reaches nothing but what is global.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void remember_interrupt(int signal_number) {
  interrupted = true;
  std::signal(signal_number, SIG_DFL);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupted = false;
  std::signal(SIGINT, remember_interrupt);
}

InterruptGuard::~InterruptGuard() { std::signal(SIGINT, SIG_DFL); }

bool InterruptGuard::asked_to_end() { return interrupted; }

}  // namespace hpplan
