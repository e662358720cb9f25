#pragma once

#include <cstdint>

#include "search/realise.hpp"

namespace hpplan {

enum class AnnealMoves {
  All,
  KeepCount,  // the number of pipelines stays as it is
};

/// A plan at least as good as `plan`, by random walks over single changes of its pipelines that now and then take a
/// slightly slower plan, less and less so: layers moved, devices split otherwise, stages halved, joined, swapped, taken
/// away, added or traded between pipelines, a pipeline made two of half its devices, other micro-batch sizes. Unlike
/// climb() they make equal pipelines unequal. They end with the first walk that finds nothing better. Prove nothing.
///   most_work  see trial_work()
///   seed       of the numbers that the walks draw: equal plans and seeds give equal plans on every machine
[[nodiscard]] Improved anneal(SearchTables& tables, Realised plan, std::int64_t most_work, AnnealMoves moves,
                              std::uint64_t seed = 0);

}  // namespace hpplan
