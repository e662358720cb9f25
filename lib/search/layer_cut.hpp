#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "search/candidate.hpp"

namespace hpplan {

/// The stages of a pipeline without their layers: ports and splits.
using StageList = std::vector<std::pair<int, Split>>;
[[nodiscard]] StageList stages_of(const Candidate& pipeline);

struct LayerCut {
  Candidate pipeline;
  double slowest = 0.0;  // seconds per micro-batch of the slowest stage
};

/// A pipeline of these stages whose slowest stage is as fast as a cut of the layers can make it (but for a few parts in
/// ten thousand); nothing if the layers do not fit.
///   variants   of the micro-batch size's stage table, in the order of the stages
/// Placement rules that bar single layers may hide a cut that fits.
/// The stages are filled from the last one on, whose micro-batches in flight are known whatever is before them.
[[nodiscard]] std::optional<LayerCut> cut_layers(SearchTables& tables, int micro_batch, std::span<const int> variants,
                                                 int micro_batches);

/// The pipeline of such stages with its layers cut that way, for about so many samples; nothing if the layers do not
/// fit, or the job's limits or the micro-batch size do not allow such stages.
[[nodiscard]] std::optional<Candidate> cut_pipeline(SearchTables& tables, int micro_batch, const StageList& stages,
                                                    int samples);

}  // namespace hpplan
