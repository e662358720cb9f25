#pragma once

#include <string>
#include <vector>

#include "schedule/arrangement.hpp"
#include "schedule/request.hpp"

namespace hpplan {

/// What the optimizer does to a family's steps.
///   Synchronous   all micro-batches of a step end before the update: the pipeline fills and drains in every step
///   Asynchronous  updates come while micro-batches are in flight: the pipeline never drains
enum class Stepping : std::uint8_t { Synchronous, Asynchronous };

/// Whether a family runs the weight gradients as ops of their own.
enum class BackwardOps : std::uint8_t { Whole, Split };

/// One schedule family.
struct ScheduleFamily {
  const char* name;
  const char* summary;       // one line
  const char* restrictions;  // "" when there are none
  Arrangement arrangement;
  Stepping stepping;
  BackwardOps backward;
  Schedule (*make)(const ScheduleRequest&);
  std::vector<std::string> options{};  // of the command line that not every family takes, beside what follows from
                                       // `stepping` and `backward`
};

/// All families, in the order in which help and documents list them. Command line, checks, documents and the property
/// tests go through this list: a new family is one file and one line here.
[[nodiscard]] const std::vector<ScheduleFamily>& schedule_families();

/// The family called `name`; throws InputError with the nearest name when there is none.
[[nodiscard]] const ScheduleFamily& schedule_family(const std::string& name);

/// Names of the synchronous families, in the order of the list.
[[nodiscard]] std::vector<std::string> synchronous_families();

/// Builds the op lists of family `name`.
[[nodiscard]] Schedule make_schedule_of(const std::string& name, const ScheduleRequest& request);

}  // namespace hpplan
