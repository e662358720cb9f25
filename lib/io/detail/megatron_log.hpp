#pragma once

#include <string>
#include <vector>

#include "io/profile_import.hpp"

namespace hpplan::detail {

/// Whether a text is a training log of Megatron-LM with timers.
[[nodiscard]] bool is_megatron_log(const std::string& text);

/// The profile that timers of Megatron-LM state: one log for each TP degree and micro-batch size, each from a run with
/// one pipeline stage and --timing-log-level 2. The log itself says with which arguments it ran.
/// A timer is the time of one step over all micro-batches; of its values the largest over the ranks is taken, and the
/// median over the steps without the first. The forward and the backward are divided among blocks and head in
/// proportion to their operations.
[[nodiscard]] DeviceProfile read_megatron_logs(const std::vector<ImportFile>& files, const ImportOptions& options);

}  // namespace hpplan::detail
