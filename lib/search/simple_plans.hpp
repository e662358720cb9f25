#pragma once

#include <vector>

#include "search/candidate.hpp"

namespace hpplan {

/// Plans that are easy to think of: 1, 2, 4, .. equal pipelines over all node groups together, and pipelines of one
/// group each, with equal stages inside a group and layers in proportion to what the stages' devices do at best. Most
/// are far from the best plan, and many do not fit; the fastest of them tells a search early what not to look at.
[[nodiscard]] std::vector<std::vector<Candidate>> simple_plans(SearchTables& tables);

}  // namespace hpplan
