#include "predict/stage.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "base/diagnostic.hpp"
#include "base/text.hpp"

namespace hpplan {

namespace {

Bytes state_bytes(double parameters, double bytes_each) {
  return Bytes{static_cast<std::int64_t>(std::llround(parameters * bytes_each))};
}

/// Elements on one device that are counted with both ends of the model and held once where both are on it.
double held_twice(const ModelSpec& model, int tensor_parallel) {
  if (!model.tied_embeddings) return 0.0;
  const double rows = padded_vocabulary(model, tensor_parallel);
  return rows / tensor_parallel * model.hidden;
}

}  // namespace

double parameters_of(const Problem& problem, const StageQuery& query, std::span<const LayerRange> parts) {
  const ModelSpec& model = problem.model;
  double parameters = 0.0;
  bool first = false;
  bool last = false;
  int kind = -1;
  double each = 0.0;  // of this kind: neighbours are mostly alike
  for (const LayerRange& layers : parts) {
    for (int layer = layers.first; layer < layers.last; ++layer) {
      const int here = model.layers[static_cast<std::size_t>(layer)];
      if (here != kind) each = problem.costs.parameters(query.group, query.tensor_parallel, here);
      kind = here;
      parameters += each;
    }
    first = first || layers.contains(0);
    last = last || layers.contains(model.layer_count() - 1);
  }
  if (first && last) parameters -= held_twice(model, query.tensor_parallel);
  return parameters;
}

StageMemory state_memory(const Problem& problem, int data_parallel, double parameters) {
  const StateBytes& state = problem.model.state;
  const bool sharded = problem.job.optimizer_sharding == OptimizerSharding::StageDataParallel;
  StageMemory memory;
  memory.parameters = state_bytes(parameters, state.parameter);
  memory.gradients = state_bytes(parameters, state.gradient);
  memory.optimizer = state_bytes(parameters, state.optimizer / static_cast<double>(sharded ? data_parallel : 1));
  return memory;
}

Bytes communication_buffers(const ModelSpec& model, const StageQuery& query) {
  const int neighbours = (query.layers.first > 0 ? 1 : 0) + (query.layers.last < model.layer_count() ? 1 : 0);
  return boundary_bytes(model, query.samples()) * (2 * neighbours);
}

const char* to_text(RejectReason reason) {
  switch (reason) {
    case RejectReason::DeviceMemory: return "device memory";
    case RejectReason::NoProfile: return "no profile";
    case RejectReason::TooFewDevices: return "too few devices";
    case RejectReason::BatchNotReachable: return "batch not reachable";
    case RejectReason::Constraint: return "constraint";
  }
  check_invariant(false, "known reason");
  return "";
}

Bytes boundary_bytes(const ModelSpec& model, int samples) {
  return Bytes{static_cast<std::int64_t>(samples) * model.sequence * model.hidden * model.activation_bytes};
}

GrowingStage::GrowingStage(const Problem& problem, const StageQuery& query) : problem_(&problem), query_(query) {
  query_.layers.last = query_.layers.first;
}

void GrowingStage::grow(int last) {
  for (int& layer = query_.layers.last; layer < last; ++layer) {
    const int kind = problem_->model.layers[static_cast<std::size_t>(layer)];
    if (kind != kind_) {
      kind_ = kind;
      cost_ = &problem_->costs.at(query_.group, query_.tensor_parallel, query_.samples(), kind);
      parameters_each_ = problem_->costs.parameters(query_.group, query_.tensor_parallel, kind);
      const auto known =
          std::find_if(items_.begin(), items_.end(), [&](const RecomputeItem& item) { return item.kind == kind; });
      item_ = static_cast<std::size_t>(known - items_.begin());
      if (known == items_.end()) items_.push_back({kind, 0, cost_->recompute});
    }
    ++items_[item_].layers;
    sums_.forward += cost_->forward;
    sums_.backward += cost_->backward;
    sums_.weight_gradient += cost_->weight_gradient;
    sums_.parameters += parameters_each_;
    sums_.saved += cost_->saved;
    sums_.memory.workspace = std::max(sums_.memory.workspace, cost_->workspace);
    sums_.provenance = std::max(sums_.provenance, cost_->provenance);
  }
}

StageBase GrowingStage::base() const {
  const bool whole = query_.layers.first == 0 && query_.layers.last == problem_->model.layer_count();
  StageBase base = sums_;
  if (whole) base.parameters -= held_twice(problem_->model, query_.tensor_parallel);
  base.memory = state_memory(*problem_, query_.data_parallel, base.parameters);
  base.memory.activations = base.saved * query_.in_flight;
  base.memory.workspace = sums_.memory.workspace + communication_buffers(problem_->model, query_);
  base.memory.other = problem_->job.framework_overhead;
  return base;
}

std::vector<RecomputeItem> GrowingStage::items() const {
  std::vector<RecomputeItem> items;
  for (const RecomputeItem& item : items_) {
    if (item.choices.size() > 1) items.push_back(item);
  }
  // By kind, so that the answer does not depend on which kind comes first in the stage.
  std::sort(items.begin(), items.end(), [](const auto& a, const auto& b) { return a.kind < b.kind; });
  return items;
}

StageBase stage_base(const Problem& problem, const StageQuery& query) {
  GrowingStage stage(problem, query);
  stage.grow(query.layers.last);
  return stage.base();
}

std::vector<RecomputeItem> recompute_items(const Problem& problem, const StageQuery& query) {
  GrowingStage stage(problem, query);
  stage.grow(query.layers.last);
  return stage.items();
}

StageEstimate estimate_stage(const Problem& problem, const StageQuery& query, std::span<const RecomputeCount> counts) {
  const StageBase base = stage_base(problem, query);
  StageEstimate estimate{
      base.forward, base.backward, base.weight_gradient, base.memory, {counts.begin(), counts.end()}, base.provenance};
  Bytes live;
  for (const RecomputeCount& count : counts) {
    const LayerCost& cost = problem.costs.at(query.group, query.tensor_parallel, query.samples(), count.kind);
    const RecomputeChoice& choice = cost.recompute[static_cast<std::size_t>(count.choice)];
    estimate.backward += choice.extra * static_cast<double>(count.layers);
    estimate.memory.activations -= choice.freed * count.layers * query.in_flight;
    live = std::max(live, choice.live);
  }
  estimate.memory.workspace += live;
  return estimate;
}

std::variant<StageEstimate, Rejection> predict_stage(const Problem& problem, const StageQuery& query) {
  GrowingStage stage(problem, query);
  stage.grow(query.layers.last);
  const StageBase base = stage.base();
  const Bytes capacity = problem.capacity(query.group);
  const std::vector<RecomputeItem> items = stage.items();
  const auto selection = cheapest_recompute(items, query.in_flight, base.memory.total() - capacity);
  if (selection) return estimate_stage(problem, query, selection->counts);

  const Bytes needed = base.memory.total() - largest_relief(items, query.in_flight);
  return Rejection{RejectReason::DeviceMemory, -1, needed, capacity,
                   concat("layers ", query.layers.first, "..", query.layers.last - 1, " on ",
                          problem.cluster.type_of(query.group).name, " with TP ", query.tensor_parallel, ", DP ",
                          query.data_parallel, ", micro-batch ", query.micro_batch, ", ", query.in_flight,
                          " in flight: needs ", pretty(needed), " per device",
                          problem.job.constraints.allow_recompute ? " even with full recomputation" : "", ", has ",
                          pretty(capacity))};
}

Seconds optimizer_time(const Problem& problem, int group, int tensor_parallel, int data_parallel, double parameters) {
  const bool sharded = problem.job.optimizer_sharding == OptimizerSharding::StageDataParallel;
  const double updated = sharded ? parameters / data_parallel : parameters;
  const DeviceType& type = problem.cluster.type_of(group);
  const auto measured = problem.profiles.optimizer_time(problem.model, type, tensor_parallel, updated);
  if (measured) return *measured;
  const StateBytes& state = problem.model.state;
  const double moved = updated * (state.parameter + state.gradient + 2.0 * state.optimizer);
  return Seconds{moved / type.memory_bandwidth.value()};
}

std::vector<RecomputeRange> recompute_ranges(const Problem& problem, const StageQuery& query,
                                             std::span<const RecomputeCount> counts) {
  std::vector<RecomputeCount> left(counts.begin(), counts.end());
  std::sort(left.begin(), left.end(), [](const auto& a, const auto& b) { return a.choice > b.choice; });
  std::vector<RecomputeRange> ranges;
  for (int layer = query.layers.first; layer < query.layers.last; ++layer) {
    const int kind = problem.model.layers[static_cast<std::size_t>(layer)];
    const auto next = std::find_if(left.begin(), left.end(),
                                   [&](const auto& count) { return count.kind == kind && count.layers > 0; });
    if (next == left.end()) continue;
    --next->layers;
    const LayerCost& cost = problem.costs.at(query.group, query.tensor_parallel, query.samples(), kind);
    const auto& operators = cost.recompute[static_cast<std::size_t>(next->choice)].operators;
    if (!ranges.empty() && ranges.back().layers.last == layer && ranges.back().operators == operators) {
      ++ranges.back().layers.last;
    } else {
      ranges.push_back({{layer, layer + 1}, operators});
    }
  }
  return ranges;
}

std::vector<RecomputeCount> recompute_counts(const Problem& problem, const StageQuery& query,
                                             std::span<const RecomputeRange> ranges) {
  std::vector<RecomputeCount> counts;
  for (const RecomputeRange& range : ranges) {
    for (int layer = range.layers.first; layer < range.layers.last; ++layer) {
      const int kind = problem.model.layers[static_cast<std::size_t>(layer)];
      const auto& choices = problem.costs.at(query.group, query.tensor_parallel, query.samples(), kind).recompute;
      const auto found = std::find_if(choices.begin(), choices.end(), [&](const RecomputeChoice& choice) {
        return choice.operators == range.operators;
      });
      if (found == choices.end()) {
        throw InputError(Diagnostic{"", 0, 0, "recompute",
                                    concat("layer ", layer, " cannot recompute {", join(range.operators, ", "), "}"),
                                    "use an operator set that `hpplan profile show` lists for this layer"});
      }
      const int choice = static_cast<int>(found - choices.begin());
      const auto known = std::find_if(counts.begin(), counts.end(),
                                      [&](const auto& count) { return count.kind == kind && count.choice == choice; });
      if (known != counts.end()) {
        ++known->layers;
      } else if (choice > 0) {
        counts.push_back({kind, choice, 1});
      }
    }
  }
  return counts;
}

}  // namespace hpplan
