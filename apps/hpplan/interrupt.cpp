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
  before_ = std::signal(SIGINT, remember_interrupt);
  // Whoever starts a program with SIGINT ignored does not want it ended by a Ctrl-C that is meant for another.
  if (before_ == SIG_IGN) std::signal(SIGINT, SIG_IGN);
}

InterruptGuard::~InterruptGuard() { std::signal(SIGINT, before_ == SIG_ERR ? SIG_DFL : before_); }

bool InterruptGuard::asked_to_end() { return interrupted; }

}  // namespace hpplan
