#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "domain/plan.hpp"
#include "search/candidate.hpp"

namespace hpplan {

/// Node of every stage of every pipeline: nodes[pipeline][stage] lists the nodes (one, or several whole ones).
using Placement = std::vector<std::vector<std::vector<int>>>;

/// [group][node]: devices that the job's rules leave.
[[nodiscard]] std::vector<std::vector<int>> usable_devices(const Problem& problem);

/// What a search over placements asks while it puts stages on nodes, pipelines in order and stages in order.
class PlacementVisitor {
 public:
  virtual ~PlacementVisitor() = default;
  /// A stage was put on nodes. False: no placement that goes on from here matters.
  virtual bool enter(std::size_t pipeline, std::size_t stage, const std::vector<int>& nodes) = 0;
  /// The stage entered last is taken away.
  virtual void leave() = 0;
  /// All stages are placed. False ends the search.
  virtual bool visit(const Placement& placement) = 0;
};

/// Visits placements of the stages on nodes, one of each set that is equal up to renaming nodes; of those that are
/// equal up to exchanging equal pipelines, which must be neighbours in the list, not all. The first keeps neighbouring
/// stages together. Returns whether all were visited or left out by the visitor.
bool for_each_placement(const Problem& problem, const Space& space, const std::vector<Candidate>& pipelines,
                        PlacementVisitor& visitor);

/// One placement that puts stages with the same layers onto the same nodes, as far as it finds room.
[[nodiscard]] std::optional<Placement> aligned_placement(const Problem& problem, const Space& space,
                                                         const std::vector<Candidate>& pipelines);

/// The candidates as a plan skeleton (devices, layers, degrees; no predicted numbers).
[[nodiscard]] std::vector<PipelinePlan> skeleton(const Problem& problem, const Space& space,
                                                 const std::vector<Candidate>& pipelines, const Placement& placement,
                                                 const std::vector<int>& micro_batches);

}  // namespace hpplan
