#include "search/placement.hpp"

#include <algorithm>
#include <utility>

namespace hpplan {

namespace {

/// Depth-first search over the nodes of all stages, pipelines in order and stages in order.
class PlacementSearch {
 public:
  PlacementSearch(const Problem& problem, const Space& space, const std::vector<Candidate>& pipelines,
                  PlacementVisitor& visitor)
      : problem_(problem), space_(space), pipelines_(pipelines), visitor_(visitor) {
    free_ = usable_devices(problem);
    for (const Candidate& pipeline : pipelines) placement_.emplace_back(pipeline.stages.size());
  }

  bool run() { return descend(0, 0, false); }

 private:
  ///   level   the stages of this pipeline lie so far where those of its equal before it do
  bool descend(std::size_t pipeline, std::size_t stage, bool level) {
    if (pipeline == pipelines_.size()) return visitor_.visit(placement_);
    if (stage == pipelines_[pipeline].stages.size()) return descend(pipeline + 1, 0, false);
    if (stage == 0) level = pipeline > 0 && pipelines_[pipeline - 1] == pipelines_[pipeline];
    const Port& port = space_.ports[static_cast<std::size_t>(pipelines_[pipeline].stages[stage].port)];
    const int per_node = problem_.cluster.node_groups[static_cast<std::size_t>(port.group)].devices_per_node;
    return port.devices >= per_node ? take_whole_nodes(pipeline, stage, level, port, per_node)
                                    : take_part(pipeline, stage, level, port, per_node);
  }

  /// With the stage placed. Of equal pipelines each lies, as a list of nodes, not before the one ahead of it: of all
  /// placements that are equal up to renaming nodes and exchanging pipelines, the first in lexicographic order does so.
  bool go_on(std::size_t pipeline, std::size_t stage, bool level) {
    if (level) {
      const std::vector<int>& ahead = placement_[pipeline - 1][stage];
      const std::vector<int>& here = placement_[pipeline][stage];
      if (here < ahead) return true;
      level = here == ahead;
    }
    const bool matters = visitor_.enter(pipeline, stage, placement_[pipeline][stage]);
    const bool whole = !matters || descend(pipeline, stage + 1, level);
    visitor_.leave();
    return whole;
  }

  /// Empty nodes are alike: the first ones stand for all.
  bool take_whole_nodes(std::size_t pipeline, std::size_t stage, bool level, const Port& port, int per_node) {
    std::vector<int>& free = free_[static_cast<std::size_t>(port.group)];
    std::vector<int>& nodes = placement_[pipeline][stage];
    nodes.clear();
    for (std::size_t n = 0; n < free.size() && static_cast<int>(nodes.size()) < port.devices / per_node; ++n) {
      if (free[n] == per_node) nodes.push_back(static_cast<int>(n));
    }
    if (static_cast<int>(nodes.size()) < port.devices / per_node) return true;
    const std::vector<int> taken = nodes;
    for (const int n : taken) free[static_cast<std::size_t>(n)] = 0;
    const bool whole = go_on(pipeline, stage, level);
    for (const int n : taken) free[static_cast<std::size_t>(n)] = per_node;
    return whole;
  }

  bool take_part(std::size_t pipeline, std::size_t stage, bool level, const Port& port, int per_node) {
    std::vector<int>& free = free_[static_cast<std::size_t>(port.group)];
    std::vector<int> order;
    // The neighbour's node first, then nodes in use, then one empty node.
    const int neighbour = neighbour_node(pipeline, stage, port.group);
    if (neighbour >= 0) order.push_back(neighbour);
    bool empty_seen = false;
    for (std::size_t n = 0; n < free.size(); ++n) {
      if (static_cast<int>(n) == neighbour) continue;
      if (free[n] == per_node) {
        if (empty_seen) continue;
        empty_seen = true;
      }
      order.push_back(static_cast<int>(n));
    }
    for (const int n : order) {
      int& left = free[static_cast<std::size_t>(n)];
      if (left < port.devices) continue;
      left -= port.devices;
      placement_[pipeline][stage] = {n};
      const bool whole = go_on(pipeline, stage, level);
      left += port.devices;
      if (!whole) return false;
    }
    return true;
  }

  [[nodiscard]] int neighbour_node(std::size_t pipeline, std::size_t stage, int group) const {
    if (stage == 0) return -1;
    const Port& port = space_.ports[static_cast<std::size_t>(pipelines_[pipeline].stages[stage - 1].port)];
    if (port.group != group || placement_[pipeline][stage - 1].size() != 1) return -1;
    return placement_[pipeline][stage - 1].front();
  }

  const Problem& problem_;
  const Space& space_;
  const std::vector<Candidate>& pipelines_;
  PlacementVisitor& visitor_;
  std::vector<std::vector<int>> free_;  // [group][node]: devices left
  Placement placement_;
};

}  // namespace

std::vector<std::vector<int>> usable_devices(const Problem& problem) {
  std::vector<std::vector<int>> usable;
  for (int g = 0; g < problem.cluster.group_count(); ++g) {
    std::vector<int>& nodes = usable.emplace_back();
    for (int n = 0; n < problem.cluster.node_groups[static_cast<std::size_t>(g)].nodes; ++n) {
      nodes.push_back(static_cast<int>(problem.places.usable(g, n).size()));
    }
  }
  return usable;
}

bool for_each_placement(const Problem& problem, const Space& space, const std::vector<Candidate>& pipelines,
                        PlacementVisitor& visitor) {
  return PlacementSearch(problem, space, pipelines, visitor).run();
}

std::optional<Placement> aligned_placement(const Problem& problem, const Space& space,
                                           const std::vector<Candidate>& pipelines) {
  struct Seat {
    std::size_t pipeline;
    std::size_t stage;
    Port port;
    LayerRange layers;
  };
  if (pipelines.size() < 2) return std::nullopt;
  std::vector<Seat> seats;
  std::vector<std::vector<int>> free = usable_devices(problem);
  std::vector<std::vector<std::vector<LayerRange>>> held;
  for (const std::vector<int>& nodes : free) held.emplace_back(nodes.size());
  Placement placement;
  for (std::size_t i = 0; i < pipelines.size(); ++i) {
    placement.emplace_back(pipelines[i].stages.size());
    for (std::size_t s = 0; s < pipelines[i].stages.size(); ++s) {
      const CandidateStage& stage = pipelines[i].stages[s];
      seats.push_back({i, s, space.ports[static_cast<std::size_t>(stage.port)], stage.layers});
    }
  }
  // Whole nodes first, then parts along the model.
  const auto whole = [&](const Seat& seat) {
    return seat.port.devices >= problem.cluster.node_groups[static_cast<std::size_t>(seat.port.group)].devices_per_node;
  };
  std::stable_sort(seats.begin(), seats.end(), [&](const Seat& a, const Seat& b) {
    return std::pair(!whole(a), a.layers.first + a.layers.last) < std::pair(!whole(b), b.layers.first + b.layers.last);
  });
  for (const Seat& seat : seats) {
    const auto g = static_cast<std::size_t>(seat.port.group);
    const int per_node = problem.cluster.node_groups[g].devices_per_node;
    std::vector<int>& nodes = placement[seat.pipeline][seat.stage];
    if (whole(seat)) {
      for (std::size_t n = 0; n < free[g].size() && static_cast<int>(nodes.size()) < seat.port.devices / per_node;
           ++n) {
        if (free[g][n] != per_node) continue;
        nodes.push_back(static_cast<int>(n));
        free[g][n] = 0;
      }
      if (static_cast<int>(nodes.size()) < seat.port.devices / per_node) return std::nullopt;
      continue;
    }
    int best = -1;
    std::pair<int, int> most{-1, 0};
    for (std::size_t n = 0; n < free[g].size(); ++n) {
      if (free[g][n] < seat.port.devices) continue;
      int overlap = 0;
      for (const LayerRange& other : held[g][n]) {
        overlap += std::max(0, std::min(other.last, seat.layers.last) - std::max(other.first, seat.layers.first));
      }
      const std::pair<int, int> score{overlap, -free[g][n]};
      if (best >= 0 && !(score > most)) continue;
      best = static_cast<int>(n);
      most = score;
    }
    if (best < 0) return std::nullopt;
    free[g][static_cast<std::size_t>(best)] -= seat.port.devices;
    held[g][static_cast<std::size_t>(best)].push_back(seat.layers);
    nodes = {best};
  }
  return placement;
}

std::vector<PipelinePlan> skeleton(const Problem& problem, const Space& space, const std::vector<Candidate>& pipelines,
                                   const Placement& placement, const std::vector<int>& micro_batches) {
  std::vector<std::vector<int>> next(problem.cluster.node_groups.size());
  for (std::size_t g = 0; g < next.size(); ++g) {
    next[g].assign(static_cast<std::size_t>(problem.cluster.node_groups[g].nodes), 0);
  }
  std::vector<PipelinePlan> plans;
  for (std::size_t i = 0; i < pipelines.size(); ++i) {
    PipelinePlan plan;
    plan.micro_batch = pipelines[i].micro_batch;
    plan.micro_batches = micro_batches.empty() ? 1 : micro_batches[i];
    for (std::size_t s = 0; s < pipelines[i].stages.size(); ++s) {
      const CandidateStage& candidate = pipelines[i].stages[s];
      const Port& port = space.ports[static_cast<std::size_t>(candidate.port)];
      StagePlan stage;
      stage.node_group = port.group;
      stage.layers = candidate.layers;
      stage.tensor_parallel = candidate.split.tensor_parallel;
      stage.data_parallel = candidate.split.data_parallel;
      const std::vector<int>& nodes = placement[i][s];
      const int on_node = port.devices / static_cast<int>(nodes.size());
      for (const int node : nodes) {
        int& device = next[static_cast<std::size_t>(port.group)][static_cast<std::size_t>(node)];
        const std::vector<int>& usable = problem.places.usable(port.group, node);
        for (int d = 0; d < on_node; ++d) {
          stage.devices.push_back({port.group, node, usable[static_cast<std::size_t>(device++)]});
        }
      }
      plan.stages.push_back(std::move(stage));
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace hpplan
