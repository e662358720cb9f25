#include "search/improve_places.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace hpplan {

namespace {

constexpr int kMostLooks = 5000;
/// What is gained by less than this part is not worth another round.
constexpr double kGain = 1e-6;

class PlaceImprover {
 public:
  PlaceImprover(SearchTables& tables, Realised plan, std::int64_t most_work)
      : tables_(tables), problem_(tables.problem()), best_(std::move(plan)), trials_(tables, most_work) {}

  Improved run() {
    return trials_.run(best_, [this] {
      for (Realised plan = best_; plan.time < kInfinity && !trials_.spent(); plan = halved(plan)) {
        improve(plan);
        if (plan.time < best_.time * (1.0 - kGain)) best_ = plan;
      }
    });
  }

 private:
  /// What lies well by its links is several exchanges away from what lies well by its gradients: a long look at
  /// placements first.
  void improve(Realised& plan) {
    const std::int64_t cost = trial_work(problem_, plan.pipelines);
    const auto looks = static_cast<int>(std::min<std::int64_t>(kMostLooks, trials_.left() / (2 * cost)));
    Realised other = realise(tables_, plan.pipelines, plan.time, looks, plan.placement);
    trials_.count(other.tried, cost, other);
    if (other.time < plan.time) plan = std::move(other);
    descend(plan);
  }

  /// Each pipeline as its twins, where it lies; a time of infinity if there are none.
  [[nodiscard]] Realised halved(const Realised& plan) {
    const auto count = static_cast<int>(2 * plan.pipelines.size());
    if (count > tables_.space().max_pipelines || !problem_.job.constraints.pipelines.allows(count)) return {};
    std::vector<Candidate> pipelines;
    Placement placement;
    for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
      const std::optional<Candidate> twin = twin_of(tables_, plan.pipelines[i]);
      if (!twin) return {};
      pipelines.insert(pipelines.end(), 2, *twin);
      placement.insert(placement.end(), 2, plan.placement[i]);
      for (std::size_t s = 0; s < twin->stages.size(); ++s) {
        const std::vector<int>& nodes = plan.placement[i][s];
        const auto middle = nodes.begin() + static_cast<std::ptrdiff_t>(nodes.size() / 2);
        if (nodes.size() < 2) continue;
        placement[2 * i][s].assign(nodes.begin(), middle);
        placement[2 * i + 1][s].assign(middle, nodes.end());
      }
    }
    return trials_.realise(std::move(pipelines), kInfinity, 1, std::move(placement));
  }

  struct Seat {
    std::size_t pipeline = 0;
    std::size_t stage = 0;
    Port port;
  };

  [[nodiscard]] int room(const Port& port, int node) const {
    return static_cast<int>(problem_.places.usable(port.group, node).size());
  }

  /// Stages on parts of nodes, and the devices that are left on every node of every group.
  void look(const Realised& plan) {
    seats_.clear();
    free_ = usable_devices(problem_);
    for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
      for (std::size_t s = 0; s < plan.pipelines[i].stages.size(); ++s) {
        const Port& port = tables_.space().ports[static_cast<std::size_t>(plan.pipelines[i].stages[s].port)];
        const std::vector<int>& nodes = plan.placement[i][s];
        for (const int node : nodes) free_of(port.group, node) -= port.devices / static_cast<int>(nodes.size());
        const int per_node = problem_.cluster.node_groups[static_cast<std::size_t>(port.group)].devices_per_node;
        if (port.devices < per_node) seats_.push_back({i, s, port});
      }
    }
  }
  [[nodiscard]] int& free_of(int group, int node) {
    return free_[static_cast<std::size_t>(group)][static_cast<std::size_t>(node)];
  }

  /// Takes what helps, as long as something does.
  void descend(Realised& plan) {
    bool moved = true;
    while (moved && !trials_.spent()) {
      look(plan);
      moved = false;
      for (std::size_t a = 0; a < seats_.size() && !moved; ++a) {
        moved = move(plan, seats_[a]);
        for (std::size_t b = a + 1; b < seats_.size() && !moved; ++b)
          moved = take(plan, seats_[a], seats_[b], plan.time * (1.0 - kGain));
      }
    }
  }

  bool take(Realised& plan, Placement placement, double limit) {
    if (trials_.spent()) return false;
    Realised trial = trials_.realise(plan.pipelines, limit, 1, std::move(placement));
    if (trial.time == kInfinity) return false;
    plan = std::move(trial);
    return true;
  }

  bool move(Realised& plan, const Seat& seat) {
    const int from = plan.placement[seat.pipeline][seat.stage].front();
    const int nodes = problem_.cluster.node_groups[static_cast<std::size_t>(seat.port.group)].nodes;
    bool empty_seen = false;
    for (int node = 0; node < nodes; ++node) {
      const int free = free_of(seat.port.group, node);
      if (node == from || free < seat.port.devices) continue;
      const bool empty = free == room(seat.port, node);
      if (empty && empty_seen) continue;  // empty nodes are alike
      empty_seen = empty_seen || empty;
      Placement placement = plan.placement;
      placement[seat.pipeline][seat.stage] = {node};
      if (take(plan, std::move(placement), plan.time * (1.0 - kGain))) return true;
    }
    return false;
  }

  /// Exchanges two stages.
  bool take(Realised& plan, const Seat& a, const Seat& b, double limit) {
    if (a.port.group != b.port.group) return false;
    const int here = plan.placement[a.pipeline][a.stage].front();
    const int there = plan.placement[b.pipeline][b.stage].front();
    const int more = b.port.devices - a.port.devices;
    if (here == there || free_of(a.port.group, here) < more || free_of(a.port.group, there) < -more) return false;
    Placement placement = plan.placement;
    std::swap(placement[a.pipeline][a.stage], placement[b.pipeline][b.stage]);
    return take(plan, std::move(placement), limit);
  }

  SearchTables& tables_;
  const Problem& problem_;
  Realised best_;
  Trials trials_;
  std::vector<Seat> seats_;
  std::vector<std::vector<int>> free_;  // [group][node]
};

}  // namespace

Improved improve_places(SearchTables& tables, Realised plan, std::int64_t most_work) {
  return PlaceImprover(tables, std::move(plan), most_work).run();
}

}  // namespace hpplan
