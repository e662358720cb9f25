#include "support/brute_force.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "base/check.hpp"
#include "predict/evaluate.hpp"
#include "predict/gradient_sync.hpp"
#include "predict/link.hpp"
#include "predict/stage.hpp"

namespace hpplan::testing {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Devices of one stage: a part of one node, or whole nodes.
struct Seat {
  int group = 0;
  int devices = 0;
  std::vector<int> nodes;

  [[nodiscard]] std::pair<int, int> shape() const { return {group, devices}; }
};

using Layout = std::vector<std::vector<Seat>>;  // [pipeline][stage]

struct Degrees {
  int tensor_parallel = 1;
  int data_parallel = 1;
};

/// What a placed pipeline runs: everything but the number of micro-batches.
struct Filling {
  int micro_batch = 1;
  std::vector<LayerRange> layers;
  std::vector<Degrees> degrees;
  std::vector<double> times;  // [m]: seconds of m micro-batches; infinity where a stage does not fit
  double optimizer = 0.0;
};

struct StageNumbers {
  bool fits = false;
  double forward = 0.0;
  double backward = 0.0;
  std::vector<RecomputeCount> recompute;
};

/// All ways to recompute the layers of a stage, one count per kind and choice.
class RecomputeEnumeration {
 public:
  RecomputeEnumeration(const std::vector<RecomputeItem>& items, int in_flight, Bytes capacity, const StageBase& base)
      : items_(items), in_flight_(in_flight), capacity_(capacity), base_(base) {
    if (items_.empty()) {
      judge();
    } else {
      descend(0, 1, items_[0].layers);
    }
  }

  [[nodiscard]] bool fits() const { return least_ < kNever; }
  [[nodiscard]] double extra() const { return least_; }
  [[nodiscard]] const std::vector<RecomputeCount>& counts() const { return best_; }

 private:
  void descend(std::size_t item, std::size_t choice, int layers) {
    if (choice == items_[item].choices.size()) {
      if (item + 1 == items_.size()) {
        judge();
      } else {
        descend(item + 1, 1, items_[item + 1].layers);
      }
      return;
    }
    for (int count = 0; count <= layers; ++count) {
      if (count > 0) current_.push_back({items_[item].kind, static_cast<int>(choice), count});
      descend(item, choice + 1, layers - count);
      if (count > 0) current_.pop_back();
    }
  }

  void judge() {
    Bytes memory = base_.memory.total();
    Bytes live;
    double extra = 0.0;
    for (const RecomputeCount& count : current_) {
      const auto item = std::find_if(items_.begin(), items_.end(), [&](const auto& i) { return i.kind == count.kind; });
      const RecomputeChoice& choice = item->choices[at(count.choice)];
      memory -= choice.freed * count.layers * in_flight_;
      live = std::max(live, choice.live);
      extra += choice.extra.value() * count.layers;
    }
    if (memory + live > capacity_ || extra >= least_) return;
    least_ = extra;
    best_ = current_;
  }

  const std::vector<RecomputeItem>& items_;
  int in_flight_;
  Bytes capacity_;
  const StageBase& base_;
  double least_ = kNever;
  std::vector<RecomputeCount> current_;
  std::vector<RecomputeCount> best_;
};

/// Numbers of every stage that was asked for, once.
class Stages {
 public:
  explicit Stages(const Problem& problem) : problem_(problem) {}

  const StageNumbers& of(const StageQuery& query) {
    const auto key = std::tuple(query.group, query.tensor_parallel, query.data_parallel, query.micro_batch,
                                query.layers.first, query.layers.last, query.in_flight);
    const auto [place, added] = known_.try_emplace(key);
    if (added) place->second = compute(query);
    return place->second;
  }

  double optimizer(const StageQuery& query) {
    const auto key =
        std::tuple(query.group, query.tensor_parallel, query.data_parallel, query.layers.first, query.layers.last);
    const auto [place, added] = optimizers_.try_emplace(key, 0.0);
    if (added) {
      place->second = optimizer_time(problem_, query.group, query.tensor_parallel, query.data_parallel,
                                     stage_base(problem_, query).parameters)
                          .value();
    }
    return place->second;
  }

 private:
  [[nodiscard]] StageNumbers compute(const StageQuery& query) const {
    const StageBase base = stage_base(problem_, query);
    StageNumbers numbers{false, base.forward.value(), base.backward.value(), {}};
    const Bytes capacity = problem_.capacity(query.group);
    if (base.memory.total() <= capacity) {
      numbers.fits = true;  // nothing recomputed: no choice is cheaper
      return numbers;
    }
    const std::vector<RecomputeItem> items = recompute_items(problem_, query);
    const RecomputeEnumeration ways(items, query.in_flight, capacity, base);
    numbers.fits = ways.fits();
    if (!numbers.fits) return numbers;
    numbers.backward += ways.extra();
    numbers.recompute = ways.counts();
    return numbers;
  }

  const Problem& problem_;
  std::map<std::tuple<int, int, int, int, int, int, int>, StageNumbers> known_;
  std::map<std::tuple<int, int, int, int, int>, double> optimizers_;
};

class BruteForce {
 public:
  BruteForce(const Problem& problem, const std::set<BruteForceShape>& excluded)
      : problem_(problem), stages_(problem), excluded_(excluded) {
    for (int g = 0; g < problem.cluster.group_count(); ++g) {
      const NodeGroup& group = problem.cluster.node_groups[at(g)];
      free_.emplace_back(at(group.nodes), 0);
      for (int n = 0; n < group.nodes; ++n) {
        for (int d = 0; d < group.devices_per_node; ++d) free_.back()[at(n)] += may_use({g, n, d}) ? 1 : 0;
      }
    }
  }

  BruteForceResult run() {
    start_pipeline();
    return std::move(result_);
  }

 private:
  // ---- placement rules, read one by one ----------------------------------------------------------------------------

  [[nodiscard]] bool names(const PlacementRule& rule, const DevicePlace& place) const {
    const NodeGroup& group = problem_.cluster.node_groups[at(place.group)];
    const std::string node = group.node_names[at(place.node)];
    const auto in = [](const std::vector<std::string>& list, const std::string& name) {
      return list.empty() || std::count(list.begin(), list.end(), name) > 0;
    };
    bool device = rule.devices.empty();
    for (const RuleDevice& d : rule.devices) device = device || (d.node == node && d.device == place.device);
    return device && in(rule.nodes, node) && in(rule.groups, group.name) &&
           in(rule.types, problem_.cluster.device_types[at(group.device_type)].name);
  }

  /// Whether no rule keeps `layer` off the device.
  [[nodiscard]] bool may_hold(const DevicePlace& place, int layer) const {
    for (const PlacementRule& rule : problem_.job.constraints.placement) {
      const bool speaks = rule.choice == LayerChoice::All ||
                          (rule.choice == LayerChoice::Head && layer == problem_.model.layer_count() - 1) ||
                          (rule.choice == LayerChoice::Range && rule.layers.contains(layer));
      if (speaks && names(rule, place) == (rule.kind == RuleKind::Forbid)) return false;
    }
    return true;
  }

  [[nodiscard]] bool may_use(const DevicePlace& place) const {
    for (int layer = 0; layer < problem_.model.layer_count(); ++layer) {
      if (may_hold(place, layer)) return true;
    }
    return false;
  }

  /// Of a seat any device stands for all: rules that tell apart devices of a group speak of all layers.
  [[nodiscard]] bool may_hold(const Seat& seat, LayerRange layers) const {
    const NodeGroup& group = problem_.cluster.node_groups[at(seat.group)];
    for (int d = 0; d < group.devices_per_node; ++d) {
      const DevicePlace place{seat.group, seat.nodes.front(), d};
      if (!may_use(place)) continue;
      for (int layer = layers.first; layer < layers.last; ++layer) {
        if (!may_hold(place, layer)) return false;
      }
      return true;
    }
    return false;
  }

  // ---- layouts: pipelines as lists of seats ------------------------------------------------------------------------

  void start_pipeline() {
    const CountLimit& pipelines = problem_.job.constraints.pipelines;
    const auto count = static_cast<int>(layout_.size());
    if (pipelines.max >= 0 && count >= pipelines.max) return;
    if (count >= problem_.job.global_batch) return;  // each pipeline runs at least one sample
    layout_.emplace_back();
    add_stage();
    layout_.pop_back();
  }

  /// Pipelines are not ordered: only lists that ascend by shape.
  [[nodiscard]] bool ascending() const {
    if (layout_.size() < 2) return true;
    const auto shapes = [](const std::vector<Seat>& pipeline) {
      std::vector<std::pair<int, int>> list;
      for (const Seat& seat : pipeline) list.push_back(seat.shape());
      return list;
    };
    return shapes(layout_[layout_.size() - 2]) <= shapes(layout_.back());
  }

  void end_pipeline() {
    const Constraints& constraints = problem_.job.constraints;
    if (!constraints.stages.allows(static_cast<int>(layout_.back().size())) || !ascending()) return;
    if (constraints.pipelines.allows(static_cast<int>(layout_.size()))) try_layout();
    start_pipeline();
  }

  void add_stage() {
    if (!layout_.back().empty()) end_pipeline();
    if (static_cast<int>(layout_.back().size()) == problem_.model.layer_count()) return;
    for (int group = 0; group < problem_.cluster.group_count(); ++group) {
      if (!may_follow(group)) continue;
      const NodeGroup& nodes = problem_.cluster.node_groups[at(group)];
      for (int devices = 1; devices < nodes.devices_per_node; ++devices) {
        const bool power_of_two = devices == 1 || devices == 2 || devices == 4 || devices == 8;
        const bool divisor = nodes.devices_per_node % devices == 0;
        if ((power_of_two || divisor) && !problem_.job.constraints.whole_nodes) take_part(group, devices);
      }
      for (int count = 1; count <= nodes.nodes; ++count) take_nodes(group, count);
    }
  }

  [[nodiscard]] bool may_follow(int group) const {
    if (!problem_.job.constraints.type_pure || layout_.back().empty()) return true;
    const auto type = [&](int g) { return problem_.cluster.node_groups[at(g)].device_type; };
    return type(layout_.back().back().group) == type(group);
  }

  void take_part(int group, int devices) {
    const int whole = problem_.cluster.node_groups[at(group)].devices_per_node;
    bool empty_tried = false;
    for (std::size_t n = 0; n < free_[at(group)].size(); ++n) {
      if (free_[at(group)][n] < devices) continue;
      if (free_[at(group)][n] == whole) {
        if (empty_tried) continue;
        empty_tried = true;
      }
      free_[at(group)][n] -= devices;
      layout_.back().push_back({group, devices, {static_cast<int>(n)}});
      add_stage();
      layout_.back().pop_back();
      free_[at(group)][n] += devices;
    }
  }

  void take_nodes(int group, int count) {
    const int whole = problem_.cluster.node_groups[at(group)].devices_per_node;
    Seat seat{group, count * whole, {}};
    for (std::size_t n = 0; n < free_[at(group)].size() && static_cast<int>(seat.nodes.size()) < count; ++n) {
      if (free_[at(group)][n] == whole) seat.nodes.push_back(static_cast<int>(n));
    }
    if (static_cast<int>(seat.nodes.size()) < count) return;
    const std::vector<int> nodes = seat.nodes;
    for (const int n : nodes) free_[at(group)][at(n)] = 0;
    layout_.back().push_back(std::move(seat));
    add_stage();
    layout_.back().pop_back();
    for (const int n : nodes) free_[at(group)][at(n)] = whole;
  }

  // ---- fillings of one placed pipeline -----------------------------------------------------------------------------

  [[nodiscard]] static bool share_a_node(const Seat& a, const Seat& b) {
    return a.group == b.group && std::any_of(a.nodes.begin(), a.nodes.end(), [&](int n) {
             return std::find(b.nodes.begin(), b.nodes.end(), n) != b.nodes.end();
           });
  }

  [[nodiscard]] std::vector<Degrees> degrees_of(const Seat& seat, int micro_batch) const {
    const int per_node = problem_.cluster.node_groups[at(seat.group)].devices_per_node;
    const Constraints& constraints = problem_.job.constraints;
    std::vector<Degrees> list;
    for (int tp = 1; tp <= seat.devices; ++tp) {
      if (seat.devices % tp != 0 || micro_batch % (seat.devices / tp) != 0) continue;
      if (!tensor_parallel_fault(problem_.model, tp).empty()) continue;
      const auto& allowed = constraints.tensor_parallel;
      if (!allowed.empty() && std::find(allowed.begin(), allowed.end(), tp) == allowed.end()) continue;
      const bool inside = tp <= per_node && (seat.nodes.size() == 1 || per_node % tp == 0);
      const bool across = constraints.tensor_parallel_across_nodes && tp > per_node && tp % per_node == 0;
      if (inside || across) list.push_back({tp, seat.devices / tp});
    }
    return list;
  }

  using Signature = std::vector<std::tuple<int, int, bool>>;  // group, devices, on one node with the next

  const std::vector<Filling>& fillings(const std::vector<Seat>& pipeline) {
    Signature signature;
    for (std::size_t s = 0; s < pipeline.size(); ++s) {
      const bool together = s + 1 < pipeline.size() && share_a_node(pipeline[s], pipeline[s + 1]);
      signature.emplace_back(pipeline[s].group, pipeline[s].devices, together);
    }
    const auto [place, added] = fillings_.try_emplace(signature);
    if (!added) return place->second;
    for (const int micro_batch : problem_.job.micro_batches) {
      if (micro_batch > problem_.job.global_batch) continue;
      Filling filling;
      filling.micro_batch = micro_batch;
      fill_stage(pipeline, links_of(pipeline, micro_batch), filling, place->second);
    }
    return place->second;
  }

  [[nodiscard]] std::vector<double> links_of(const std::vector<Seat>& pipeline, int micro_batch) const {
    std::vector<double> links(pipeline.size(), 0.0);
    std::vector<StagePlan> stages;
    for (const Seat& seat : pipeline) {
      StagePlan stage;
      stage.node_group = seat.group;
      const int on_node = seat.devices / static_cast<int>(seat.nodes.size());
      for (const int node : seat.nodes) {
        for (int d = 0; d < on_node; ++d) stage.devices.push_back({seat.group, node, d});
      }
      stages.push_back(std::move(stage));
    }
    for (std::size_t s = 0; s + 1 < stages.size(); ++s) {
      links[s] = link_time(problem_, stages[s], stages[s + 1], micro_batch).value();
    }
    return links;
  }

  void fill_stage(const std::vector<Seat>& pipeline, const std::vector<double>& links, Filling& filling,
                  std::vector<Filling>& list) {
    const std::size_t s = filling.layers.size();
    if (s == pipeline.size()) {
      add_times(pipeline, links, filling, list);
      return;
    }
    const int first = s == 0 ? 0 : filling.layers.back().last;
    const int layers = problem_.model.layer_count();
    const int after = static_cast<int>(pipeline.size() - s) - 1;  // stages that follow, one layer each at least
    for (const Degrees& degrees : degrees_of(pipeline[s], filling.micro_batch)) {
      for (int last = after == 0 ? layers : first + 1; last <= layers - after; ++last) {
        if (!may_hold(pipeline[s], {first, last})) continue;
        filling.layers.push_back({first, last});
        filling.degrees.push_back(degrees);
        fill_stage(pipeline, links, filling, list);
        filling.layers.pop_back();
        filling.degrees.pop_back();
      }
    }
  }

  [[nodiscard]] static StageQuery query_of(const Seat& seat, const Filling& filling, std::size_t s, int micro_batches) {
    const int in_flight = std::min(micro_batches, static_cast<int>(filling.layers.size() - s));
    return {seat.group,
            filling.degrees[s].tensor_parallel,
            filling.degrees[s].data_parallel,
            filling.micro_batch,
            filling.layers[s],
            in_flight};
  }

  void add_times(const std::vector<Seat>& pipeline, const std::vector<double>& links, Filling& filling,
                 std::vector<Filling>& list) {
    const int most = problem_.job.global_batch / filling.micro_batch;
    filling.times.assign(at(most) + 1, kNever);
    filling.optimizer = 0.0;
    for (std::size_t s = 0; s < pipeline.size(); ++s) {
      filling.optimizer = std::max(filling.optimizer, stages_.optimizer(query_of(pipeline[s], filling, s, 1)));
    }
    bool any = false;
    for (int m = 1; m <= most; ++m) {
      std::vector<BruteForceStage> stages;
      for (std::size_t s = 0; s < pipeline.size(); ++s) {
        const StageNumbers& numbers = stages_.of(query_of(pipeline[s], filling, s, m));
        if (!numbers.fits) break;
        stages.push_back({numbers.forward, numbers.backward, links[s]});
      }
      if (stages.size() < pipeline.size()) continue;
      filling.times[at(m)] = brute_force_makespan(stages, m);
      any = true;
    }
    if (any) list.push_back(filling);
  }

  // ---- the pipelines of one layout together ------------------------------------------------------------------------

  void try_layout() {
    ++result_.layouts;
    const auto batch = at(problem_.job.global_batch);
    lists_.clear();
    for (const std::vector<Seat>& pipeline : layout_) lists_.push_back(&fillings(pipeline));
    // rest_[i][r]: least time in which pipelines i.. finish exactly r samples, each by its best filling for its share
    rest_.assign(layout_.size() + 1, std::vector<double>(batch + 1, kNever));
    rest_.back()[0] = 0.0;
    for (std::size_t i = layout_.size(); i-- > 0;) {
      for (const Filling& filling : *lists_[i]) extend(rest_[i + 1], filling, rest_[i]);
    }
    std::vector<double> nothing(batch + 1, kNever);
    nothing[0] = 0.0;
    chosen_.clear();
    syncs_.clear();
    choose_filling(nothing, 0.0);
  }

  /// to[s] = min over m of max(from[s - b m], time of m micro-batches), kept where it is less.
  static void extend(const std::vector<double>& from, const Filling& filling, std::vector<double>& to) {
    const auto size = at(filling.micro_batch);
    for (std::size_t m = 1; m < filling.times.size(); ++m) {
      for (std::size_t s = size * m; s < to.size(); ++s) {
        to[s] = std::min(to[s], std::max(from[s - size * m], filling.times[m]));
      }
    }
  }

  /// done[s]: least time in which the pipelines chosen so far finish exactly s samples.
  void choose_filling(const std::vector<double>& done, double optimizer) {
    const std::size_t i = chosen_.size();
    double least = kNever;
    for (std::size_t s = 0; s < done.size(); ++s) {
      least = std::min(least, std::max(done[s], rest_[i][done.size() - 1 - s]));
    }
    if (!(least + optimizer < best_)) return;
    if (i == layout_.size()) {
      score();
      return;
    }
    for (const Filling& filling : *lists_[i]) {
      std::vector<double> next(done.size(), kNever);
      extend(done, filling, next);
      chosen_.push_back(&filling);
      choose_filling(next, std::max(optimizer, filling.optimizer));
      chosen_.pop_back();
    }
  }

  /// Every way to split the batch over the chosen pipelines.
  void split_batch(int left, double slowest, double optimizer, double sync) {
    const std::size_t i = micro_batches_.size();
    if (!(slowest + optimizer + sync < best_)) return;
    if (i == chosen_.size()) {
      if (left == 0) keep(slowest, optimizer, sync);
      return;
    }
    const Filling& filling = *chosen_[i];
    for (int m = 1; m * filling.micro_batch <= left; ++m) {
      micro_batches_.push_back(m);
      split_batch(left - m * filling.micro_batch, std::max(slowest, filling.times[at(m)]), optimizer, sync);
      micro_batches_.pop_back();
    }
  }

  void score() {
    ++result_.scored;
    double optimizer = 0.0;
    for (const Filling* filling : chosen_) optimizer = std::max(optimizer, filling->optimizer);
    // What the drain hides depends on the batch split: then only the plan as a whole has a time.
    const bool overlap = problem_.job.overlap_gradient_sync;
    micro_batches_.assign(chosen_.size(), 1);
    if (!excluded_.empty() && excluded_.count(brute_force_shape(as_plan(false))) > 0) {
      micro_batches_.clear();
      return;
    }
    const double sync = overlap ? 0.0 : gradient_sync();
    micro_batches_.clear();
    split_batch(problem_.job.global_batch, 0.0, optimizer, sync);
  }

  /// It depends on the layout, the layers and the TP degrees, not on the batch: remembered for one layout.
  double gradient_sync() {
    std::vector<int> key;
    for (const Filling* filling : chosen_) {
      for (std::size_t s = 0; s < filling->layers.size(); ++s) {
        key.push_back(filling->layers[s].last);
        key.push_back(filling->degrees[s].tensor_parallel);
      }
    }
    const auto [place, added] = syncs_.try_emplace(std::move(key), 0.0);
    if (added) place->second = predict_gradient_sync(problem_, as_plan(false)).time.value();
    return place->second;
  }

  [[nodiscard]] std::vector<PipelinePlan> as_plan(bool with_recomputation) {
    std::vector<std::vector<int>> next;
    for (const std::vector<int>& nodes : free_) next.emplace_back(nodes.size(), 0);
    std::vector<PipelinePlan> plans;
    for (std::size_t i = 0; i < layout_.size(); ++i) {
      PipelinePlan plan;
      plan.micro_batch = chosen_[i]->micro_batch;
      plan.micro_batches = micro_batches_[i];
      for (std::size_t s = 0; s < layout_[i].size(); ++s) {
        const Seat& seat = layout_[i][s];
        StagePlan stage;
        stage.node_group = seat.group;
        stage.layers = chosen_[i]->layers[s];
        stage.tensor_parallel = chosen_[i]->degrees[s].tensor_parallel;
        stage.data_parallel = chosen_[i]->degrees[s].data_parallel;
        for (const int node : seat.nodes) {
          for (int d = 0; d < seat.devices / static_cast<int>(seat.nodes.size()); ++d) {
            stage.devices.push_back({seat.group, node, next[at(seat.group)][at(node)]++});
          }
        }
        if (with_recomputation) {
          const StageQuery query = query_of(seat, *chosen_[i], s, plan.micro_batches);
          stage.recompute = recompute_ranges(problem_, query, stages_.of(query).recompute);
        }
        plan.stages.push_back(std::move(stage));
      }
      plans.push_back(std::move(plan));
    }
    return plans;
  }

  void keep(double slowest, double optimizer, double sync) {
    Plan plan = evaluate(problem_, as_plan(true));
    const double time = plan.iteration_time.value();
    if (!problem_.job.overlap_gradient_sync) {
      const double expected = slowest + optimizer + sync;
      check_invariant(std::abs(time - expected) <= 1e-9 * expected, "evaluate agrees with the enumeration's own sums");
    }
    for (const PipelinePlan& pipeline : plan.pipelines) {
      for (const StagePlan& stage : pipeline.stages) {
        check_invariant(stage.memory.total() <= stage.capacity, "an enumerated stage fits");
      }
    }
    if (!(time < best_)) return;
    best_ = time;
    result_.plan = std::move(plan);
  }

  const Problem& problem_;
  Stages stages_;
  const std::set<BruteForceShape>& excluded_;
  std::vector<std::vector<int>> free_;  // [group][node]: devices left
  Layout layout_;
  std::map<Signature, std::vector<Filling>> fillings_;
  std::vector<const std::vector<Filling>*> lists_;
  std::vector<std::vector<double>> rest_;
  std::vector<const Filling*> chosen_;
  std::vector<int> micro_batches_;
  std::map<std::vector<int>, double> syncs_;
  double best_ = kNever;
  BruteForceResult result_;
};

}  // namespace

double BruteForceResult::time() const { return plan ? plan->iteration_time.value() : kNever; }

double brute_force_makespan(const std::vector<BruteForceStage>& stages, int micro_batches) {
  const int p = static_cast<int>(stages.size());
  // Ends of the forward and backward of every micro-batch, per stage; the number done so far; when the stage is free.
  std::vector<std::vector<double>> forward_end(at(p));
  std::vector<std::vector<double>> backward_end(at(p));
  std::vector<double> free(at(p), 0.0);
  const auto forward_next = [&](int s) {
    const int done = static_cast<int>(forward_end[at(s)].size());
    const int ended = static_cast<int>(backward_end[at(s)].size());
    // p - 1 - s warm-up forwards, then one forward and one backward in turn: at most p - s in flight.
    return done < micro_batches && done - ended < p - s;
  };
  bool progress = true;
  while (progress) {
    progress = false;
    for (int s = 0; s < p; ++s) {
      while (true) {
        const bool forward = forward_next(s);
        const std::size_t k = forward ? forward_end[at(s)].size() : backward_end[at(s)].size();
        if (!forward && k == at(micro_batches)) break;
        double ready = 0.0;
        if (forward && s > 0) {
          if (forward_end[at(s) - 1].size() <= k) break;
          ready = forward_end[at(s) - 1][k] + stages[at(s) - 1].link;
        }
        if (!forward && s + 1 < p) {
          if (backward_end[at(s) + 1].size() <= k) break;
          ready = backward_end[at(s) + 1][k] + stages[at(s)].link;
        }
        const double end = std::max(free[at(s)], ready) + (forward ? stages[at(s)].forward : stages[at(s)].backward);
        free[at(s)] = end;
        (forward ? forward_end : backward_end)[at(s)].push_back(end);
        progress = true;
      }
    }
  }
  return *std::max_element(free.begin(), free.end());
}

BruteForceShape brute_force_shape(const std::vector<PipelinePlan>& pipelines) {
  BruteForceShape shape;
  for (const PipelinePlan& pipeline : pipelines) {
    auto& stages = shape.emplace_back();
    for (const StagePlan& stage : pipeline.stages) {
      stages.push_back({stage.node_group, static_cast<int>(stage.devices.size()), stage.tensor_parallel,
                        stage.layers.first, stage.layers.last});
    }
  }
  std::sort(shape.begin(), shape.end());
  return shape;
}

BruteForceResult brute_force_plan(const Problem& problem, const std::set<BruteForceShape>& excluded) {
  return BruteForce(problem, excluded).run();
}

}  // namespace hpplan::testing
