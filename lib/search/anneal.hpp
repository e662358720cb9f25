#pragma once

#include <cstdint>

#include "search/realise.hpp"

namespace hpplan {

/// A plan at least as good as `plan`, by a random walk over single changes of its pipelines that now and then takes a
/// slightly slower plan: layers moved, devices split otherwise, stages halved, joined, swapped, taken away, added or
/// traded between pipelines, a pipeline made two of half its devices, other micro-batch sizes. Unlike climb() it
/// changes the number of pipelines and makes equal pipelines unequal. Ends when several walks from the best plan in a
/// row found nothing better. Proves nothing.
///   most_work  micro-batches times stages that may be simulated, about
/// The walk draws its numbers from one fixed seed, so that equal plans give equal plans on every machine.
[[nodiscard]] Improved anneal(SearchTables& tables, Realised plan, std::int64_t most_work);

}  // namespace hpplan
