#include "interrupt.hpp"

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>

namespace hpplan {

namespace {

constexpr std::array<int, 2> kSignals{SIGINT, SIGTERM};

// A signal handler reaches nothing but what is global.
std::atomic<bool> interrupted{false};
std::atomic<std::int64_t> interrupted_at{0};  // nanoseconds
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

/// Signals so close are one: `timeout` sends its own to the program and to its group.
constexpr std::int64_t kTogether = 200'000'000;

/// The second signal ends the program at once.
extern "C" void remember_interrupt(int signal_number) {
  timespec time = {};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  const std::int64_t now = std::int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
  if (!interrupted) {
    interrupted_at = now;
    interrupted = true;
  } else if (now - interrupted_at > kTogether) {
    std::signal(signal_number, SIG_DFL);
    static_cast<void>(std::raise(signal_number));
  }
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
