#pragma once

#include <vector>

#include "predict/problem.hpp"
#include "predict/rejection.hpp"

namespace hpplan {

/// Why a problem has no plan: what is short with the nearest miss of each, most fundamental first. Nothing where it can
/// only be the job's limits.
[[nodiscard]] std::vector<Rejection> explain_infeasible(const Problem& problem);

/// The limits of a job that leave no plan together, and which of them alone is in the way: some simple plans are looked
/// at without each.
[[nodiscard]] Rejection limits_rejection(const Problem& problem);

/// Whether all devices together have the memory for one copy of the model's training state: if not, no plan exists.
[[nodiscard]] bool states_fit(const Problem& problem);

/// Whether the global batch is a sum of allowed micro-batch sizes.
[[nodiscard]] bool batch_reachable(const Job& job);

}  // namespace hpplan
