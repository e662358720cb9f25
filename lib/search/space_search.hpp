#pragma once

#include <cstdint>

#include "search/knowledge.hpp"

namespace hpplan {

/// Branch and bound over the plans of one space; what is found and proved goes to `known`.
///   budget   work (counted_work) after which the remaining gap is left open
void search_space(StageRows& rows, const SearchOptions& options, const Space& space, Knowledge& known,
                  std::int64_t budget);

}  // namespace hpplan
