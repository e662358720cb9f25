#pragma once

#include <vector>

#include "predict/problem.hpp"
#include "predict/rejection.hpp"

namespace hpplan {

/// Why a problem has no plan: the binding limits with the nearest miss of each, most fundamental first.
[[nodiscard]] std::vector<Rejection> explain_infeasible(const Problem& problem);

/// Whether the global batch is a sum of allowed micro-batch sizes.
[[nodiscard]] bool batch_reachable(const Job& job);

}  // namespace hpplan
