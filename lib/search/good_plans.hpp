#pragma once

#include "search/knowledge.hpp"

namespace hpplan {

// Good plans without a proof: before the search as its first incumbents, and after it where a gap is left. All but the
// last end where the tables are told to stop, and say so in `known`.

/// Scores plans of simple shape: incumbents for everything that follows (OSO).
void start_simple(SearchTables& tables, const SearchOptions& options, Knowledge& known);

/// Scores plans of `fewer` pipelines than the job asks for, some of them cut into twins (twin_of) until it allows their
/// number: where equal changes to equal pipelines are what helps, they are found as one change to one pipeline.
void start_from_twins(SearchTables& tables, const SearchOptions& options, const Knowledge& fewer, Knowledge& known);

/// Changes the best plans of each number of pipelines side by side, and walks on from the best of all.
void climb_from_best(SearchTables& tables, const SearchOptions& options, Knowledge& known);

/// Stages of the best plan, and of such with its stages in other orders, moved between nodes.
void improve_places_of_best(SearchTables& tables, const SearchOptions& options, Knowledge& known);

/// Layers moved to make the best plan's stages even, where that costs no time.
void even_out_best(SearchTables& tables, Knowledge& known);

/// The first simple plan that is feasible: a search that was ended before it met a plan is not to end with nothing.
void take_simple_plan(SearchTables& tables, Knowledge& known);

}  // namespace hpplan
