#pragma once

namespace hpplan {

/// Lets the process keep the memory that it frees, but for blocks of more than 32 MiB. The search makes and frees
/// thousands of tables a second: as the C library gives freed memory back to the system by default, a third of the time
/// went to fetching it again. Where the C library cannot be told, nothing changes. To be called before anything is
/// allocated.
void keep_freed_memory();

}  // namespace hpplan
