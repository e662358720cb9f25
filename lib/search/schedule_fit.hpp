#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "domain/plan.hpp"
#include "predict/problem.hpp"

namespace hpplan {

/// A way to run a pipeline: its schedule and chunks are decided; its micro-batches, recomputation and what follows from
/// them are not.
struct ScheduleVariant {
  PipelinePlan skeleton;
  bool is_costly = false;  // takes long to fit: tried only where it may decide
};

/// All ways to run `pipeline` (devices, degrees, layers and micro-batch size as they are) under the families of the
/// job. Families that need chunks are laid out as the stages' layers allow, and with the layers dealt anew.
[[nodiscard]] std::vector<ScheduleVariant> schedule_variants(const Problem& problem, const PipelinePlan& pipeline);

/// The variant with `micro_batches` micro-batches and the least recomputation that we find to fit every device, with
/// all numbers predicted. Nothing where the schedule refuses the counts, a device cannot hold it, or the drift is above
/// the job's limit.
///   stop   asked while a costly variant is fitted; true ends that with the best until then. May be empty.
[[nodiscard]] std::optional<PipelinePlan> fit(const Problem& problem, const ScheduleVariant& variant, int micro_batches,
                                              const std::function<bool()>& stop = {});

/// Why fit() gives nothing, for people; empty if it gives something.
[[nodiscard]] std::string refusal(const Problem& problem, const ScheduleVariant& variant, int micro_batches);

}  // namespace hpplan
