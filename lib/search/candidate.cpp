#include "search/candidate.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "predict/evaluate.hpp"
#include "predict/gradient_sync.hpp"
#include "predict/link.hpp"
#include "predict/stage.hpp"
#include "simulate/one_f_one_b.hpp"

namespace hpplan {

SearchTables::SearchTables(StageRows& rows, const Space& space) : rows_(&rows), space_(&space) {}

const StageTable& SearchTables::stages(int micro_batch) {
  std::unique_ptr<StageTable>& table = stages_[micro_batch];
  if (!table) table = std::make_unique<StageTable>(*rows_, *space_, micro_batch);
  return *table;
}

const std::vector<double>& SearchTables::transfers(int micro_batch) {
  std::vector<double>& times = transfers_[micro_batch];
  if (!times.empty()) return times;
  const Bytes size = boundary_bytes(problem().model, micro_batch);
  for (const Port& from : space_->ports) {
    for (const Port& to : space_->ports) {
      const auto& groups = problem().cluster.node_groups;
      const bool same_type = groups[static_cast<std::size_t>(from.group)].device_type ==
                             groups[static_cast<std::size_t>(to.group)].device_type;
      const bool allowed = same_type || !problem().job.constraints.type_pure;
      const Link link = best_link(problem(), from.group, from.devices, to.group, to.devices);
      times.push_back(allowed ? transfer_time(size, link).value() : kInfinity);
    }
  }
  return times;
}

PipelineTimer::PipelineTimer(SearchTables& tables, const Candidate& candidate, std::vector<double> links)
    : table_(&tables.stages(candidate.micro_batch)), micro_batch_(candidate.micro_batch), links_(std::move(links)) {
  for (const CandidateStage& stage : candidate.stages) {
    variants_.push_back(table_->variant_of(stage.port, stage.split));
    classes_.push_back(tables.ranges().of(stage.layers.first, stage.layers.last));
    slowest_ = std::max(slowest_, table_->time(variants_.back(), classes_.back(), 1));
  }
}

double PipelineTimer::time(int micro_batches) {
  const auto known = known_->find(micro_batches);
  if (known != known_->end()) return known->second;
  std::vector<StageTime> stages;
  double time = 0.0;
  for (std::size_t s = 0; s < variants_.size(); ++s) {
    const int in_flight = std::min({micro_batches, static_cast<int>(variants_.size() - s), table_->max_in_flight()});
    const double backward = table_->backward(variants_[s], classes_[s], in_flight);
    if (backward == kInfinity) time = kInfinity;
    stages.push_back({Seconds{table_->forward(variants_[s], classes_[s])},
                      Seconds{backward},
                      {},
                      Seconds{s < links_.size() ? links_[s] : 0.0}});
  }
  if (time == 0.0) time = one_f_one_b_makespan(stages, micro_batches).value();
  known_->emplace(micro_batches, time);
  return time;
}

int PipelineTimer::most_within(double limit, int most) {
  // A pipeline takes at least as long as its slowest stage works: that spares long simulations.
  const double at_most = slowest_ > 0.0 ? limit / slowest_ * (1.0 + 1e-9) : kInfinity;
  if (!(at_most >= 1.0)) return 0;
  int low = 0;
  int high = at_most < most ? static_cast<int>(at_most) : most;
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    if (time(middle) <= limit) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

void PipelineTimers::add(PipelineTimer timer) {
  const auto same =
      std::find_if(distinct_.begin(), distinct_.end(), [&](const auto& other) { return other.same_as(timer); });
  owners_.push_back(static_cast<std::size_t>(same - distinct_.begin()));
  if (same == distinct_.end()) distinct_.push_back(std::move(timer));
}

std::vector<int> PipelineTimers::most_within(double limit, int global_batch) {
  std::vector<int> most;
  for (PipelineTimer& timer : distinct_) most.push_back(timer.most_within(limit, global_batch / timer.micro_batch()));
  std::vector<int> caps;
  for (const std::size_t owner : owners_) caps.push_back(most[owner]);
  return caps;
}

namespace {

/// Whether some m_i in [1, caps_i] give the exact sum; fills `counts` with such m_i, as even over the caps as they go.
bool exact_split(const PipelineTimers& timers, const std::vector<int>& caps, int global_batch,
                 std::vector<int>* counts) {
  // reachable[i][s]: samples s can be made by pipelines 0..i-1
  const auto target = static_cast<std::size_t>(global_batch);
  std::vector<std::vector<char>> reachable(timers.size() + 1, std::vector<char>(target + 1, 0));
  reachable[0][0] = 1;
  for (std::size_t i = 0; i < timers.size(); ++i) {
    const auto size = static_cast<std::size_t>(timers.micro_batch(i));
    // since[s]: pipelines of this kind used to reach s beyond the nearest earlier reachable sum, at least 1
    std::vector<int> since(target + 1, 0);
    for (std::size_t s = size; s <= target; ++s) {
      if (reachable[i][s - size]) {
        since[s] = 1;
      } else if (since[s - size] > 0 && since[s - size] < caps[i]) {
        since[s] = since[s - size] + 1;
      }
      reachable[i + 1][s] = since[s] > 0 ? 1 : 0;
    }
  }
  if (!reachable[timers.size()][target]) return false;
  if (counts == nullptr) return true;
  counts->assign(timers.size(), 0);
  std::size_t rest = target;
  for (std::size_t i = timers.size(); i-- > 0;) {
    const auto size = static_cast<std::size_t>(timers.micro_batch(i));
    for (int m = caps[i]; m >= 1; --m) {
      const std::size_t used = size * static_cast<std::size_t>(m);
      if (used > rest || !reachable[i][rest - used]) continue;
      (*counts)[i] = m;
      rest -= used;
      break;
    }
  }
  return true;
}

bool batch_fits(const PipelineTimers& timers, const std::vector<int>& caps, int global_batch) {
  std::int64_t most = 0;
  bool equal = true;
  for (std::size_t i = 0; i < timers.size(); ++i) {
    if (caps[i] < 1) return false;
    most += static_cast<std::int64_t>(caps[i]) * timers.micro_batch(i);
    equal = equal && timers.micro_batch(i) == timers.micro_batch(0);
  }
  if (most < global_batch) return false;
  if (equal) {
    const int size = timers.micro_batch(0);
    return global_batch % size == 0 && global_batch / size >= static_cast<int>(timers.size());
  }
  return exact_split(timers, caps, global_batch, nullptr);
}

}  // namespace

std::optional<Allocation> allocate(PipelineTimers& timers, int global_batch, double limit) {
  if (!batch_fits(timers, timers.most_within(limit, global_batch), global_batch)) return std::nullopt;
  // The optimum is the time of some (pipeline, m): for each pipeline the least such time that is enough for all.
  double best = limit;
  for (PipelineTimer& timer : timers.distinct()) {
    int low = 0;                                                             // too short
    int high = timer.most_within(best, global_batch / timer.micro_batch());  // its time may equal `best`
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      const bool enough = batch_fits(timers, timers.most_within(timer.time(middle), global_batch), global_batch);
      (enough ? high : low) = middle;
    }
    if (high < 1) continue;
    const double time = timer.time(high);
    if (time < best && batch_fits(timers, timers.most_within(time, global_batch), global_batch)) best = time;
  }
  if (best == kInfinity) return std::nullopt;  // every split holds a pipeline that does not fit
  Allocation allocation;
  const bool exact =
      exact_split(timers, timers.most_within(best, global_batch), global_batch, &allocation.micro_batches);
  check_invariant(exact, "a feasible batch split");
  for (std::size_t i = 0; i < timers.size(); ++i) {
    allocation.time = std::max(allocation.time, timers.at(i).time(allocation.micro_batches[i]));
  }
  return allocation;
}

namespace {

/// Depth-first search over the nodes of all stages, pipelines in order and stages in order.
class PlacementSearch {
 public:
  PlacementSearch(const Problem& problem, const Space& space, const std::vector<Candidate>& pipelines,
                  const std::function<bool(const Placement&)>& visit)
      : problem_(problem), space_(space), pipelines_(pipelines), visit_(visit) {
    for (int g = 0; g < problem.cluster.group_count(); ++g) {
      std::vector<int>& free = free_.emplace_back();
      const int nodes = problem.cluster.node_groups[static_cast<std::size_t>(g)].nodes;
      for (int n = 0; n < nodes; ++n) free.push_back(static_cast<int>(problem.places.usable(g, n).size()));
    }
    for (const Candidate& pipeline : pipelines) placement_.emplace_back(pipeline.stages.size());
  }

  bool run() { return descend(0, 0); }

 private:
  bool descend(std::size_t pipeline, std::size_t stage) {
    if (pipeline == pipelines_.size()) return visit_(placement_);
    if (stage == pipelines_[pipeline].stages.size()) return descend(pipeline + 1, 0);
    const Port& port = space_.ports[static_cast<std::size_t>(pipelines_[pipeline].stages[stage].port)];
    const int per_node = problem_.cluster.node_groups[static_cast<std::size_t>(port.group)].devices_per_node;
    return port.devices >= per_node ? take_whole_nodes(pipeline, stage, port, per_node)
                                    : take_part(pipeline, stage, port, per_node);
  }

  /// Empty nodes are alike: the first ones stand for all.
  bool take_whole_nodes(std::size_t pipeline, std::size_t stage, const Port& port, int per_node) {
    std::vector<int>& free = free_[static_cast<std::size_t>(port.group)];
    std::vector<int>& nodes = placement_[pipeline][stage];
    nodes.clear();
    for (std::size_t n = 0; n < free.size() && static_cast<int>(nodes.size()) < port.devices / per_node; ++n) {
      if (free[n] == per_node) nodes.push_back(static_cast<int>(n));
    }
    if (static_cast<int>(nodes.size()) < port.devices / per_node) return true;
    const std::vector<int> taken = nodes;
    for (const int n : taken) free[static_cast<std::size_t>(n)] = 0;
    const bool go_on = descend(pipeline, stage + 1);
    for (const int n : taken) free[static_cast<std::size_t>(n)] = per_node;
    return go_on;
  }

  bool take_part(std::size_t pipeline, std::size_t stage, const Port& port, int per_node) {
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
      const bool go_on = descend(pipeline, stage + 1);
      left += port.devices;
      if (!go_on) return false;
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
  const std::function<bool(const Placement&)>& visit_;
  std::vector<std::vector<int>> free_;  // [group][node]: devices left
  Placement placement_;
};

}  // namespace

bool for_each_placement(const Problem& problem, const Space& space, const std::vector<Candidate>& pipelines,
                        const std::function<bool(const Placement&)>& visit) {
  return PlacementSearch(problem, space, pipelines, visit).run();
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
  std::vector<std::vector<int>> free;
  std::vector<std::vector<std::vector<LayerRange>>> held;
  for (int g = 0; g < problem.cluster.group_count(); ++g) {
    free.emplace_back();
    for (int n = 0; n < problem.cluster.node_groups[static_cast<std::size_t>(g)].nodes; ++n) {
      free.back().push_back(static_cast<int>(problem.places.usable(g, n).size()));
    }
    held.emplace_back(free.back().size());
  }
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

std::vector<double> best_links(SearchTables& tables, const Candidate& candidate) {
  const std::vector<double>& transfers = tables.transfers(candidate.micro_batch);
  const std::size_t ports = tables.space().ports.size();
  std::vector<double> links;
  for (std::size_t s = 0; s + 1 < candidate.stages.size(); ++s) {
    links.push_back(transfers[static_cast<std::size_t>(candidate.stages[s].port) * ports +
                              static_cast<std::size_t>(candidate.stages[s + 1].port)]);
  }
  return links;
}

double slowest_optimizer(SearchTables& tables, std::span<const Candidate> pipelines) {
  double slowest = 0.0;
  for (const Candidate& pipeline : pipelines) {
    const StageTable& table = tables.stages(pipeline.micro_batch);
    for (const CandidateStage& stage : pipeline.stages) {
      const int range = tables.ranges().of(stage.layers.first, stage.layers.last);
      slowest = std::max(slowest, table.optimizer(table.variant_of(stage.port, stage.split), range));
    }
  }
  return slowest;
}

namespace {

std::vector<double> placed_links(const Problem& problem, const PipelinePlan& plan) {
  std::vector<double> links;
  for (std::size_t s = 0; s + 1 < plan.stages.size(); ++s) {
    links.push_back(link_time(problem, plan.stages[s], plan.stages[s + 1], plan.micro_batch).value());
  }
  return links;
}

}  // namespace

Realised realise(SearchTables& tables, std::vector<Candidate> pipelines, double limit, int most_placements) {
  const Problem& problem = tables.problem();
  const int global_batch = problem.job.global_batch;
  std::sort(pipelines.begin(), pipelines.end());  // one order, whoever found them
  Realised best;
  if (tables.is_left_out(pipelines)) return best;
  PipelineTimers ideal;
  for (const Candidate& pipeline : pipelines) ideal.add({tables, pipeline, best_links(tables, pipeline)});
  const double optimizer = slowest_optimizer(tables, pipelines);
  const auto least_pipelines = allocate(ideal, global_batch, limit - optimizer);
  if (!least_pipelines) return best;

  int tried = 0;
  double least = limit;
  std::map<std::pair<std::size_t, std::vector<double>>, PipelineTimer> known;  // by pipeline and links
  const auto timer_of = [&](std::size_t i, const PipelinePlan& plan) -> const PipelineTimer& {
    while (i > 0 && pipelines[i - 1] == pipelines[i]) --i;  // equal pipelines are neighbours
    const std::pair key(i, placed_links(problem, plan));
    const auto place = known.find(key);
    if (place != known.end()) return place->second;
    return known.emplace(key, PipelineTimer(tables, pipelines[i], key.second)).first->second;
  };
  const auto try_placement = [&](const Placement& placement) {
    if (tried >= most_placements) return false;
    ++tried;
    tables.check_stop();
    const std::vector<PipelinePlan> plans = skeleton(problem, tables.space(), pipelines, placement, {});
    const bool overlap = problem.job.overlap_gradient_sync;
    // No placement has better links than those of `ideal`.
    const auto too_slow = [&](Seconds sync) {
      return least_pipelines->time + sync.value() + optimizer > least * (1.0 + 1e-12);
    };
    if (!overlap && too_slow(gradient_sync_at_least(problem, plans))) return true;
    const double sync = overlap ? 0.0 : predict_gradient_sync(problem, plans).time.value();
    if (too_slow(Seconds{sync})) return true;
    PipelineTimers timers;
    for (std::size_t i = 0; i < pipelines.size(); ++i) timers.add(timer_of(i, plans[i]));
    const auto allocation = allocate(timers, global_batch, least - sync - optimizer);
    if (!allocation) return true;
    Realised placed{pipelines, allocation->micro_batches, placement, allocation->time + sync + optimizer, true, 0};
    if (overlap) placed.time = finish(problem, tables.space(), placed).iteration_time.value();
    if (placed.time < best.time && placed.time <= least) {
      least = placed.time;
      best = std::move(placed);
    }
    return true;
  };
  if (const auto aligned = aligned_placement(problem, tables.space(), pipelines)) try_placement(*aligned);
  best.complete = for_each_placement(problem, tables.space(), pipelines, try_placement);
  best.tried = tried;
  return best;
}

Plan finish(const Problem& problem, const Space& space, const Realised& realised) {
  std::vector<PipelinePlan> plans =
      skeleton(problem, space, realised.pipelines, realised.placement, realised.micro_batches);
  for (PipelinePlan& plan : plans) {
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      StagePlan& stage = plan.stages[s];
      const int in_flight = std::min(plan.micro_batches, static_cast<int>(plan.stages.size() - s));
      const StageQuery query{stage.node_group, stage.tensor_parallel, stage.data_parallel,
                             plan.micro_batch, stage.layers,          in_flight};
      const auto predicted = predict_stage(problem, query);
      const StageEstimate* estimate = std::get_if<StageEstimate>(&predicted);
      check_invariant(estimate != nullptr, "a realised stage fits its devices");
      stage.recompute = recompute_ranges(problem, query, estimate->recompute);
    }
  }
  return evaluate(problem, std::move(plans));
}

}  // namespace hpplan
