#include "wait_policy.hpp"

#include <cstdlib>

#if defined(__linux__) && !defined(HPPLAN_USE_JTHREAD)
#include <unistd.h>
#endif

namespace hpplan {

void let_waiting_threads_sleep(char** arguments) {
#if defined(__linux__) && !defined(HPPLAN_USE_JTHREAD)
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  if (setenv("OMP_WAIT_POLICY", "passive", 0) != 0) return;
  execv("/proc/self/exe", arguments);
  unsetenv("OMP_WAIT_POLICY");  // still here: it cannot be started again
#else
  static_cast<void>(arguments);
#endif
}

}  // namespace hpplan
