#include "search/infeasible.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "domain/operators.hpp"
#include "predict/stage.hpp"
#include "search/realise.hpp"
#include "search/simple_plans.hpp"
#include "search/space.hpp"

namespace hpplan {

namespace {

/// Training state of the whole model, held once, against what all devices hold together. All in bytes.
struct States {
  double each = 0.0;  // per parameter
  double needed = 0.0;
  double available = 0.0;
  Bytes largest;  // that one device has for them
};

States states_of(const Problem& problem) {
  const StateBytes& state = problem.model.state;
  States states;
  states.each = state.parameter + state.gradient + state.optimizer;
  states.needed = total_parameters(problem.model) * states.each;
  for (int g = 0; g < problem.cluster.group_count(); ++g) {
    const Bytes usable = std::max(Bytes{0}, problem.capacity(g) - problem.job.framework_overhead);
    states.largest = std::max(states.largest, usable);
    states.available += usable.value() * problem.cluster.node_groups[static_cast<std::size_t>(g)].device_count();
  }
  return states;
}

void add_state_rejection(const Problem& problem, std::vector<Rejection>& rejections) {
  const auto [each, needed, available, largest] = states_of(problem);
  if (needed <= available) return;
  const double devices = largest > Bytes{0} ? std::ceil(needed / largest.value()) : 0.0;
  rejections.push_back(
      {RejectReason::DeviceMemory, -1, Bytes{static_cast<std::int64_t>(needed)},
       Bytes{static_cast<std::int64_t>(available)},
       concat("device memory: parameters, gradients and optimizer states (", each, " B per parameter) take ",
              fixed(needed / 1e9, 0), " GB even if spread perfectly, all ", problem.cluster.device_count(),
              " devices together hold ", fixed(available / 1e9, 0), " GB; at least ", fixed(devices, 0),
              " devices of the largest kind would hold the states")});
}

/// The layer that fits no device, however it is split.
void add_layer_rejection(const Problem& problem, const Space& space, std::vector<Rejection>& rejections) {
  std::vector<bool> seen(problem.model.kinds.size(), false);
  for (int layer = 0; layer < problem.model.layer_count(); ++layer) {
    const auto kind = static_cast<std::size_t>(problem.model.layers[static_cast<std::size_t>(layer)]);
    if (seen[kind]) continue;
    seen[kind] = true;
    bool fits = false;
    Rejection nearest;
    for (std::size_t p = 0; p < space.ports.size() && !fits; ++p) {
      for (const Split& split : space.splits[p]) {
        for (const int b : problem.job.micro_batches) {
          if (fits || b % split.data_parallel != 0) continue;
          const StageQuery query{
              space.ports[p].group, split.tensor_parallel, split.data_parallel, b, {layer, layer + 1}, 1};
          const auto predicted = predict_stage(problem, query);
          const Rejection* miss = std::get_if<Rejection>(&predicted);
          if (miss == nullptr) {
            fits = true;
          } else if (nearest.text.empty() || miss->needed - miss->available < nearest.needed - nearest.available) {
            nearest = *miss;
          }
        }
      }
    }
    if (!fits && !nearest.text.empty()) {
      nearest.text = concat("device memory: layer ", layer, " alone fits no device; nearest miss by ",
                            pretty(nearest.needed - nearest.available), ": ", nearest.text);
      rejections.push_back(nearest);
    }
  }
}

/// The pipeline of one-device stages over all devices whose worst stage misses its memory by least: the nearest miss,
/// and the stage that decides it. A stage may be empty, as a device may be idle. But for the buffers to a neighbour
/// that the ends of the model lack, a stage never misses by less with a layer more: so whether a miss is enough is told
/// by stages that each take on as many layers as they may. Found so up to these buffers.
class NearestPipeline {
 public:
  NearestPipeline(const Problem& problem, int stages)
      : problem_(problem), stages_(stages), layers_(problem.model.layer_count()) {}

  /// The miss of the worst stage; nothing if all fit.
  std::optional<Rejection> find() {
    Bytes low{-1};  // not enough
    Bytes high{0};
    while (!cut(high)) {
      low = high;
      high = high * 2 + Bytes{1};
    }
    while (low + Bytes{1} < high) {
      const Bytes middle = low + Bytes{(high - low).count() / 2};
      (cut(middle) ? high : low) = middle;
    }
    const std::vector<int> ends = *cut(high);
    std::optional<Rejection> decides;
    for (int s = 0, first = 0; s < stages_; first = ends[static_cast<std::size_t>(s++)]) {
      const LayerRange layers{first, ends[static_cast<std::size_t>(s)]};
      std::optional<Rejection> found = rejection(s, layers);
      if (found && (!decides || miss_of(*decides) < miss_of(*found))) decides = std::move(found);
    }
    return decides;
  }

 private:
  /// The layer that each stage ends before, where none misses by more than `most`.
  [[nodiscard]] std::optional<std::vector<int>> cut(Bytes most) const {
    std::vector<int> ends;
    int first = 0;
    for (int s = 0; s < stages_; ++s) {
      int enough = first;        // a stage that ends here is small enough
      int beyond = layers_ + 1;  // and here it is not
      if (miss(s, {first, layers_}) <= most) enough = layers_;
      while (enough + 1 < beyond) {
        const int middle = enough + (beyond - enough) / 2;
        (miss(s, {first, middle}) <= most ? enough : beyond) = middle;
      }
      ends.push_back(enough);
      first = enough;
    }
    if (first < layers_) return std::nullopt;
    return ends;
  }
  [[nodiscard]] std::optional<Rejection> rejection(int stage, LayerRange layers) const {
    if (layers.first == layers.last) return std::nullopt;
    const int rank = problem_.cluster.device_count() * stage / stages_;
    const int micro_batch = problem_.job.micro_batches.front();
    const int in_flight = std::min(stages_ - stage, std::max(1, problem_.job.global_batch / micro_batch));
    const StageQuery query{place_of_rank(problem_.cluster, rank).group, 1, 1, micro_batch, layers, in_flight};
    const auto predicted = predict_stage(problem_, query);
    const Rejection* found = std::get_if<Rejection>(&predicted);
    if (found == nullptr) return std::nullopt;
    Rejection rejection = *found;
    rejection.stage = stage;
    return rejection;
  }
  [[nodiscard]] static Bytes miss_of(const Rejection& rejection) { return rejection.needed - rejection.available; }
  [[nodiscard]] Bytes miss(int stage, LayerRange layers) const {
    const std::optional<Rejection> found = rejection(stage, layers);
    return found ? miss_of(*found) : Bytes{0};
  }

  const Problem& problem_;
  int stages_;
  int layers_;
};

void add_pipeline_rejection(const Problem& problem, const Space& space, std::vector<Rejection>& rejections) {
  const int stages = std::min(problem.cluster.device_count(), space.max_stages);
  for (int g = 0; g < problem.cluster.group_count(); ++g) {
    if (!problem.costs.has(g, 1, problem.job.micro_batches.front())) return;
  }
  std::optional<Rejection> nearest = NearestPipeline(problem, stages).find();
  if (!nearest) return;
  nearest->text =
      concat("device memory: a pipeline of ", stages, " stages on one device each misses by at least ",
             pretty(nearest->needed - nearest->available), ", at stage ", nearest->stage, ": ", nearest->text);
  rejections.push_back(*nearest);
}

/// sums[s]: whether s samples are a sum of allowed micro-batch sizes; up to `most`.
std::vector<bool> reachable_sums(const Job& job, int most) {
  std::vector<bool> sums(static_cast<std::size_t>(most) + 1, false);
  sums[0] = true;
  for (std::size_t s = 1; s < sums.size(); ++s) {
    for (const int b : job.micro_batches) {
      const auto size = static_cast<std::size_t>(b);
      if (size <= s && sums[s - size]) sums[s] = true;
    }
  }
  return sums;
}

void add_batch_rejection(const Problem& problem, std::vector<Rejection>& rejections) {
  const int batch = problem.job.global_batch;
  // The next sum above is at most one micro-batch away from any sum below it.
  const std::vector<bool> sums = reachable_sums(problem.job, batch + problem.job.micro_batches.front());
  if (sums[static_cast<std::size_t>(batch)]) return;
  int below = batch;
  while (!sums[static_cast<std::size_t>(below)]) --below;
  int above = batch;
  while (!sums[static_cast<std::size_t>(above)]) ++above;
  const std::string nearest =
      below == 0 ? concat("the nearest sum is ", above) : concat("the nearest sums are ", below, " and ", above);
  rejections.push_back({RejectReason::BatchNotReachable,
                        -1,
                        {},
                        {},
                        concat("batch not reachable: global batch ", batch,
                               " is not a sum of the allowed micro-batch sizes; ", nearest)});
}

void add_share_rejection(const Problem& problem, std::vector<Rejection>& rejections) {
  const int pipelines = problem.job.constraints.pipelines.min;
  const int least = *std::min_element(problem.job.micro_batches.begin(), problem.job.micro_batches.end());
  if (static_cast<std::int64_t>(pipelines) * least <= problem.job.global_batch) return;
  rejections.push_back({RejectReason::BatchNotReachable,
                        -1,
                        {},
                        {},
                        concat("batch not reachable: ", pipelines, " pipelines run at least ",
                               static_cast<std::int64_t>(pipelines) * least, " samples, the global batch has ",
                               problem.job.global_batch)});
}

std::string limit_text(const std::string& option, const CountLimit& limit) {
  if (limit.max == limit.min) return concat(option, " ", limit.min);
  return concat(option, " ", limit.min, "..", limit.max >= 0 ? concat(limit.max) : "");
}

/// Limits of the job that are set, each with what takes it away.
std::vector<std::pair<std::string, std::function<void(Constraints&)>>> limits_of(const Constraints& limits) {
  std::vector<std::pair<std::string, std::function<void(Constraints&)>>> found;
  const auto add = [&found](const std::string& name, auto clear) { found.emplace_back(name, clear); };
  const CountLimit none;
  if (!(limits.pipelines == none)) {
    add(limit_text("--pipelines", limits.pipelines), [](Constraints& c) { c.pipelines = {}; });
  }
  if (!(limits.stages == none)) add(limit_text("--stages", limits.stages), [](Constraints& c) { c.stages = {}; });
  if (limits.whole_nodes) add("--whole-nodes", [](Constraints& c) { c.whole_nodes = false; });
  if (limits.type_pure) add("--type-pure", [](Constraints& c) { c.type_pure = false; });
  if (!limits.tensor_parallel.empty()) add("--tensor-parallel", [](Constraints& c) { c.tensor_parallel.clear(); });
  if (!limits.placement.empty()) add("the placement rules", [](Constraints& c) { c.placement.clear(); });
  if (!limits.allow_recompute) add("--no-recompute", [](Constraints& c) { c.allow_recompute = true; });
  return found;
}

/// Whether a plan of simple shape is feasible.
bool has_simple_plan(const Problem& problem) {
  const Space space = make_space(problem);
  if (space.ports.empty() || !space_is_countable(problem)) return false;
  StageRows rows(problem, std::max(1, space.max_stages), 1);
  SearchTables tables(rows, space);
  const std::vector<SimplePlan> plans = simple_plans(tables);
  return std::any_of(plans.begin(), plans.end(), [&](const SimplePlan& plan) {
    return realise(tables, plan.pipelines, kInfinity, 1).time < kInfinity;
  });
}

}  // namespace

bool states_fit(const Problem& problem) {
  const States states = states_of(problem);
  return states.needed <= states.available;
}

bool batch_reachable(const Job& job) { return reachable_sums(job, job.global_batch).back(); }

std::vector<Rejection> explain_infeasible(const Problem& problem) {
  std::vector<Rejection> rejections;
  const Space space = make_space(problem);
  if (space.ports.empty()) {
    rejections.push_back({RejectReason::Constraint,
                          -1,
                          {},
                          {},
                          "constraint: no stage shape is left: the TP degrees allowed fit no node"});
    return rejections;
  }
  add_batch_rejection(problem, rejections);
  if (rejections.empty()) add_share_rejection(problem, rejections);
  add_state_rejection(problem, rejections);
  add_layer_rejection(problem, space, rejections);
  if (rejections.empty()) add_pipeline_rejection(problem, space, rejections);
  return rejections;
}

Rejection limits_rejection(const Problem& problem) {
  std::vector<std::string> names;
  std::vector<std::string> without;
  for (const auto& [name, clear] : limits_of(problem.job.constraints)) {
    names.push_back(name);
    Job job = problem.job;
    clear(job.constraints);
    if (has_simple_plan(make_problem(problem.model, problem.cluster, problem.profiles, std::move(job)))) {
      without.push_back(name);
    }
  }
  std::string text = names.empty() ? "constraint: the memory margin and the micro-batch sizes leave no plan"
                                   : concat("constraint: ", join(names, ", "), names.size() > 1 ? " together" : "",
                                            names.size() > 1 ? " leave" : " leaves", " no plan");
  if (!without.empty()) text += concat("; without ", join(without, ", or without "), " there is one");
  return {RejectReason::Constraint, -1, {}, {}, text};
}

}  // namespace hpplan
