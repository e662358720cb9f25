#pragma once

#include <optional>
#include <span>

#include "search/candidate.hpp"

namespace hpplan {

struct LayerCut {
  Candidate pipeline;
  double slowest = 0.0;   // seconds per micro-batch of the slowest stage
};

/// A pipeline of these stages whose slowest stage is as fast as a cut of the layers can make it (but for a few parts in
/// ten thousand); nothing if the layers do not fit.
///   variants   of the micro-batch size's stage table, in the order of the stages
/// Placement rules that bar single layers may hide a cut that fits.
/// The stages are filled from the last one on, whose micro-batches in flight are known whatever is before them.
[[nodiscard]] std::optional<LayerCut> cut_layers(SearchTables& tables, int micro_batch, std::span<const int> variants,
                                                 int micro_batches);

}  // namespace hpplan
