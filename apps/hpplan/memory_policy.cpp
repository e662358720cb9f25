#include "memory_policy.hpp"

#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

namespace hpplan {

void keep_freed_memory() {
#ifdef M_TRIM_THRESHOLD
  constexpr int kMegabyte = 1 << 20;
  mallopt(M_TRIM_THRESHOLD, -1);              // never
  mallopt(M_MMAP_THRESHOLD, 32 * kMegabyte);  // the most that it allows
  mallopt(M_TOP_PAD, 16 * kMegabyte);         // fetched at once
#endif
}

}  // namespace hpplan
