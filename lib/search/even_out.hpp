#pragma once

#include "search/realise.hpp"

namespace hpplan {

/// How unlike the stage times of a pipeline are: the sum over its stages of the squared distance from the mean time,
/// relative to the mean; 0 for equal stages. Times are those of one micro-batch in flight. In single precision, so that
/// what differs by rounding alone is equal.
[[nodiscard]] float unevenness(SearchTables& tables, const Candidate& pipeline);

/// Moves single layers from one stage of a pipeline to another, the boundaries between them with it, while that makes
/// the pipeline more even and the plan takes no more than `limit`. The plan that is given must take no more.
///   most_tries  plans that are priced
/// Moves are tried in one order, so that equal plans give equal plans.
[[nodiscard]] Realised even_out(SearchTables& tables, Realised plan, double limit, int most_tries);

}  // namespace hpplan
