#include "interrupt.hpp"

#include <atomic>
#include <csignal>
#include <cstddef>

namespace hpplan {

namespace {

constexpr std::array<int, 2> kSignals{SIGINT, SIGTERM};

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
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    before_[i] = std::signal(kSignals[i], remember_interrupt);
    // Whoever starts a program with a signal ignored does not want it ended by one that is meant for another.
    if (before_[i] == SIG_IGN) std::signal(kSignals[i], SIG_IGN);
  }
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    std::signal(kSignals[i], before_[i] == SIG_ERR ? SIG_DFL : before_[i]);
  }
}

bool InterruptGuard::asked_to_end() { return interrupted; }

}  // namespace hpplan
