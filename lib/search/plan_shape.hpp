#pragma once

#include <set>
#include <span>
#include <vector>

#include "search/candidate.hpp"

namespace hpplan {

/// One stage of a shape: devices by kind and number, how they split the work, and the layers.
struct StageShape {
  Port port;
  Split split;
  LayerRange layers;

  friend auto operator<=>(const StageShape&, const StageShape&) = default;
};

/// What makes two plans truly different: the set of their pipelines, each as the list of its stages. The micro-batches
/// (their size and how many each pipeline runs), recomputation, the order of the pipelines, and which of several equal
/// nodes a stage lies on do not count: they follow from the shape, or change nothing that a user would build anew.
using PlanShape = std::vector<std::vector<StageShape>>;  // ascending
using PlanShapes = std::set<PlanShape>;

[[nodiscard]] PlanShape shape_of(const Space& space, std::span<const Candidate> pipelines);
[[nodiscard]] PlanShape shape_of(const Plan& plan);

}  // namespace hpplan
