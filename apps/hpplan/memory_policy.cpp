#include "memory_policy.hpp"

#if defined(__GLIBC__)
#include <limits>

#include <malloc.h>
#endif

namespace hpplan {

void keep_freed_memory() {
#if defined(__GLIBC__)
  constexpr int kMegabyte = 1 << 20;
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_MMAP_THRESHOLD, 32 * kMegabyte);  // the most that it allows: larger blocks always go back
  mallopt(M_TOP_PAD, 16 * kMegabyte);         // fetched at once
#endif
}

}  // namespace hpplan
