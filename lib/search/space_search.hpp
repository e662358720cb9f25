#pragma once

#include <cstdint>

#include "search/knowledge.hpp"
#include "search/sync_share.hpp"

namespace hpplan {

/// Branch and bound over the plans of one space with so many pipelines; what is found and proved, of these, goes to
/// `known`.
///   budget   work (counted_work) after which the remaining gap is left open
void search_space(StageRows& rows, const SearchOptions& options, const Space& space, PipelineCount pipelines,
                  Knowledge& known, std::int64_t budget);

}  // namespace hpplan
