#pragma once

#include <optional>
#include <vector>

#include "domain/plan.hpp"
#include "predict/problem.hpp"
#include "schedule/arrangement.hpp"

namespace hpplan {

/// The pipeline with its layers dealt to chunks of its stages: `chunks` per stage, all of equally many blocks, the
/// embedding with the first part of the model and the head with the last. Nothing where a stage's blocks do not divide.
[[nodiscard]] std::optional<PipelinePlan> deal_chunks(const Problem& problem, const PipelinePlan& pipeline,
                                                      Arrangement arrangement, int chunks);

/// The same with the blocks dealt anew, in whole rounds of chunks, each round to the stage that ends first with it and
/// has memory for it. Nothing where the blocks of the model do not divide by the chunks.
[[nodiscard]] std::optional<PipelinePlan> deal_chunks_anew(const Problem& problem, const PipelinePlan& pipeline,
                                                           Arrangement arrangement, int chunks);

/// The pipeline with replicas of the model side by side: each stage also holds the layers that the paths of
/// `arrangement` (TwoWay or Ring) bring to it. Nothing for an odd number of stages.
[[nodiscard]] std::optional<PipelinePlan> add_replicas(const PipelinePlan& pipeline, Arrangement arrangement);

}  // namespace hpplan
