#pragma once

#include "search/candidate.hpp"
#include "search/stage_table.hpp"

namespace hpplan {

/// Which plans a relaxation is about: those of at least `first` and at most `last` pipelines.
struct PipelineCount {
  int first = 1;
  int last = 1;

  friend bool operator==(const PipelineCount&, const PipelineCount&) = default;
};

/// Least time of the gradient sync that a stage (a variant of the table with layers of a range class) pays in any plan
/// of so many pipelines, in seconds: every other pipeline holds each of its layers at least once. 0 where the drain of
/// the pipelines may hide the sync.
///   spread   each of its layers is known to have replicas on more than one node
///   taken    other devices of its node that are known to hold none of its layers
[[nodiscard]] double own_sync_share(const SearchTables& tables, const StageTable& stages, int variant, int range_class,
                                    PipelineCount pipelines, bool spread = false, int taken = 0);

/// Least time that any plan of so many pipelines spends after them because of this stage.
///   spread   each of its layers is known to have replicas on more than one node
[[nodiscard]] double stage_tail(SearchTables& tables, int micro_batch, const CandidateStage& stage,
                                PipelineCount pipelines, bool spread = false);

/// The same of a whole pipeline: the largest of its stages' tails.
[[nodiscard]] double pipeline_tail(SearchTables& tables, const Candidate& pipeline, PipelineCount pipelines,
                                   bool spread = false);

}  // namespace hpplan
