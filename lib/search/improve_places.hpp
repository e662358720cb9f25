#pragma once

#include <cstdint>

#include "search/realise.hpp"

namespace hpplan {

/// A plan at least as good as `plan`: the same pipelines with two stages on parts of nodes exchanged, or one moved to
/// another node, while that helps, after a look at many placements. The same is tried with each pipeline as its twins
/// (twin_of), and with theirs: they have more ways to lie on nodes. Which links and which gradients stay inside a node
/// is chosen by that. Proves nothing.
///   most_work  see trial_work()
[[nodiscard]] Improved improve_places(SearchTables& tables, Realised plan, std::int64_t most_work);

}  // namespace hpplan
