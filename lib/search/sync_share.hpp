#pragma once

#include <span>

#include "search/candidate.hpp"
#include "search/node_load.hpp"
#include "search/stage_table.hpp"

namespace hpplan {

/// Which plans a relaxation is about: those of at least `first` and at most `last` pipelines.
struct PipelineCount {
  int first = 1;
  int last = 1;
};

/// What is known of the other replicas of a stage's layers.
struct OtherReplicas {
  PipelineCount pipelines;
  bool spread = false;             // each of its layers has replicas on more than one node
  int taken = 0;                   // devices of the stage's node that hold later stages of its pipeline
  const NodeLoad* load = nullptr;  // of nodes by the time that is of interest, if that is known
};

/// Least time of the gradient sync that a stage (a variant of the table with layers of a range class) pays in any plan
/// of so many pipelines, in seconds: every other pipeline holds each of its layers at least once. 0 where the drain of
/// the pipelines may hide the sync.
[[nodiscard]] double own_sync_share(const SearchTables& tables, const StageTable& stages, int variant, int range_class,
                                    const OtherReplicas& others);

/// Least time that any such plan spends after its pipelines because of this stage.
[[nodiscard]] double stage_tail(SearchTables& tables, int micro_batch, const CandidateStage& stage,
                                const OtherReplicas& others);

/// The same of a whole pipeline: the largest of its stages' tails.
///   taken   of each stage, in place of that of `others`; empty: as there
[[nodiscard]] double pipeline_tail(SearchTables& tables, const Candidate& pipeline, OtherReplicas others,
                                   std::span<const int> taken = {});

}  // namespace hpplan
