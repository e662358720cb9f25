#pragma once

#include <string>
#include <vector>

#include "domain/job.hpp"

namespace hpplan {

/// Stands for every synchronous family in a list of schedules.
inline constexpr const char* kAllSynchronous = "all-synchronous";

enum class InFlight { Standard, Adaptive };

/// The families that the job's schedules ask for, each once, all-synchronous written out. An asynchronous one changes
/// what is trained, so it must be named and the job must limit the drift.
/// Errors (InputError, naming `field`): an unknown name, an asynchronous family without a limit, adaptive without 1f1b.
[[nodiscard]] std::vector<std::string> wanted_schedules(const std::string& field, const Job& job,
                                                        InFlight in_flight = InFlight::Standard);

}  // namespace hpplan
