#pragma once

#include <cstdint>

#include "search/realise.hpp"

namespace hpplan {

/// A plan at least as good as `plan`, by changes to its pipelines one after the other while they help: another split of
/// a stage's devices, stages swapped, halved or joined, another micro-batch size, and single layers moved. Pipelines
/// that are equal change together. For spaces that are too large to be searched whole; proves nothing.
///   most_work  see trial_work()
/// Changes are tried in one order, so that equal plans give equal plans.
[[nodiscard]] Improved climb(SearchTables& tables, Realised plan, std::int64_t most_work);

}  // namespace hpplan
