#include "emit/detail/export_support.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/text.hpp"
#include "domain/operators.hpp"

namespace hpplan::detail {

namespace {

std::string field_path(int pipeline, int stage, const std::string& field) {
  if (pipeline < 0) return field;
  const std::string place = stage < 0 ? "" : concat(".stages[", stage, "]");
  return concat("pipelines[", pipeline, "]", place, field.empty() ? "" : ".", field);
}

std::string layers_text(LayerRange layers) { return concat("[", layers.first, ", ", layers.last, ")"); }

/// Field in which stage `b` differs from stage `a`, and both values; "" if a target may treat them alike.
struct Difference {
  std::string field;
  std::string here;
  std::string there;
};

Difference difference(const StagePlan& a, const StagePlan& b) {
  if (a.layers != b.layers) return {"layers", layers_text(b.layers), layers_text(a.layers)};
  if (a.tensor_parallel != b.tensor_parallel) {
    return {"tensor_parallel", concat(b.tensor_parallel), concat(a.tensor_parallel)};
  }
  if (a.data_parallel != b.data_parallel) return {"data_parallel", concat(b.data_parallel), concat(a.data_parallel)};
  if (a.recompute != b.recompute) return {"recompute", "another choice", "the choice there"};
  return {};
}

/// Compares pipeline `number` with the first and refuses the first difference.
bool equals_first(const PipelinePlan& first, const PipelinePlan& other, int number, Refusals& refusals) {
  const std::string hint = "export --to torch carries pipelines that differ";
  const auto refuse = [&](int stage, const std::string& field, const std::string& here, const std::string& there) {
    refusals.add(number, stage, field, concat(here, ", but pipeline 0 has ", there), hint);
    return false;
  };
  if (first.micro_batch != other.micro_batch) {
    return refuse(-1, "micro_batch", concat(other.micro_batch), concat(first.micro_batch));
  }
  if (first.micro_batches != other.micro_batches) {
    return refuse(-1, "micro_batches", concat(other.micro_batches), concat(first.micro_batches));
  }
  if (first.schedule != other.schedule) return refuse(-1, "schedule", other.schedule, first.schedule);
  if (first.stages.size() != other.stages.size()) {
    return refuse(-1, "stages", concat(other.stages.size(), " stages"), concat(first.stages.size()));
  }
  for (std::size_t s = 0; s < first.stages.size(); ++s) {
    const Difference found = difference(first.stages[s], other.stages[s]);
    if (!found.field.empty()) return refuse(static_cast<int>(s), found.field, found.here, found.there);
  }
  return true;
}

}  // namespace

void Refusals::add(int pipeline, int stage, const std::string& field, const std::string& message,
                   const std::string& hint) {
  faults_.push_back({file_, 0, 0, field_path(pipeline, stage, field), concat(message, " (", target_, ")"), hint});
}

void Refusals::finish() const {
  if (!faults_.empty()) throw InputError(faults_);
}

OnePipeline merge_pipelines(const std::vector<PipelinePlan>& pipelines, Refusals& refusals) {
  const PipelinePlan& first = pipelines.front();
  OnePipeline merged{first.micro_batch, first.micro_batches, first.schedule, first.stages};
  for (std::size_t i = 1; i < pipelines.size(); ++i) {
    if (!equals_first(first, pipelines[i], static_cast<int>(i), refusals)) continue;
    merged.micro_batch += first.micro_batch;
    for (std::size_t s = 0; s < merged.stages.size(); ++s) {
      StagePlan& stage = merged.stages[s];
      const StagePlan& other = pipelines[i].stages[s];
      stage.data_parallel += other.data_parallel;
      stage.devices.insert(stage.devices.end(), other.devices.begin(), other.devices.end());
    }
  }
  return merged;
}

LayerRange blocks_of(const StagePlan& stage, const ModelSpec& model) {
  const LayerRange blocks{std::max(stage.layers.first, 1), std::min(stage.layers.last, model.layer_count() - 1)};
  return {blocks.first, std::max(blocks.first, blocks.last)};
}

std::set<std::string> recomputed_operators(const StagePlan& stage, int layer) {
  std::set<std::string> operators;
  for (const RecomputeRange& range : stage.recompute) {
    if (range.layers.contains(layer)) operators.insert(range.operators.begin(), range.operators.end());
  }
  return operators;
}

RecomputeLevel recompute_level(const StagePlan& stage, int layer, const ModelSpec& model) {
  const std::set<std::string> operators = recomputed_operators(stage, layer);
  if (operators.empty()) return RecomputeLevel::None;
  const std::vector<std::string> all = recomputable_operators(model.kind_of(layer));
  return std::set<std::string>(all.begin(), all.end()) == operators ? RecomputeLevel::Full : RecomputeLevel::Partial;
}

int full_recompute_count(const StagePlan& stage, const ModelSpec& model) {
  const LayerRange blocks = blocks_of(stage, model);
  int count = 0;
  for (int layer = blocks.first; layer < blocks.last; ++layer) {
    if (recompute_level(stage, layer, model) == RecomputeLevel::Full) ++count;
  }
  return count;
}

void set_recompute(StagePlan& stage, const std::vector<std::set<std::string>>& operators_by_layer,
                   const ModelSpec& model) {
  const LayerRange blocks = blocks_of(stage, model);
  stage.recompute.clear();
  for (int layer = blocks.first; layer < blocks.last; ++layer) {
    const std::set<std::string>& wanted = operators_by_layer[static_cast<std::size_t>(layer - blocks.first)];
    std::vector<std::string> ordered;
    for (const std::string& name : recomputable_operators(model.kind_of(layer))) {
      if (wanted.contains(name)) ordered.push_back(name);
    }
    if (ordered.empty()) continue;
    const bool continues = !stage.recompute.empty() && stage.recompute.back().layers.last == layer &&
                           stage.recompute.back().operators == ordered;
    if (continues) {
      stage.recompute.back().layers.last = layer + 1;
    } else {
      stage.recompute.push_back({{layer, layer + 1}, std::move(ordered)});
    }
  }
}

void Approximation::require_schedule(const std::vector<std::string>& allowed) {
  std::vector<PipelinePlan> changed = pipelines_;
  bool differs = false;
  for (std::size_t i = 0; i < changed.size(); ++i) {
    if (std::find(allowed.begin(), allowed.end(), changed[i].schedule) != allowed.end()) continue;
    differs = true;
    if (!this->allowed()) {
      refusals_.add(static_cast<int>(i), -1, "schedule",
                    concat("\"", changed[i].schedule, "\" is none of ", join(allowed, ", ")),
                    concat("--approximate replaces it by ", allowed.front(), "; --to torch carries any op order"));
    }
    changed[i].schedule = allowed.front();
  }
  if (differs && this->allowed()) accept(std::move(changed), concat("schedule ", allowed.front()));
}

void Approximation::require_whole_layers() {
  std::vector<PipelinePlan> changed = pipelines_;
  bool differs = false;
  for (std::size_t i = 0; i < changed.size(); ++i) {
    for (std::size_t s = 0; s < changed[i].stages.size(); ++s) {
      StagePlan& stage = changed[i].stages[s];
      const LayerRange blocks = blocks_of(stage, request_.model);
      std::vector<std::set<std::string>> operators;
      bool partial = false;
      for (int layer = blocks.first; layer < blocks.last; ++layer) {
        operators.push_back(recomputed_operators(stage, layer));
        if (recompute_level(stage, layer, request_.model) != RecomputeLevel::Partial) continue;
        partial = true;
        const std::vector<std::string> all = recomputable_operators(request_.model.kind_of(layer));
        operators.back() = std::set<std::string>(all.begin(), all.end());
      }
      if (!partial) continue;
      differs = true;
      if (allowed()) {
        set_recompute(stage, operators, request_.model);
      } else {
        refusals_.add(static_cast<int>(i), static_cast<int>(s), "recompute",
                      "single operators of a layer are recomputed; only whole layers can be",
                      "--approximate rounds them up to whole layers and states the cost");
      }
    }
  }
  if (differs && allowed()) accept(std::move(changed), "recomputation rounded up to whole layers");
}

Plan Approximation::price(std::vector<PipelinePlan> changed) const {
  check_invariant(static_cast<bool>(request_.evaluate), "an approximation can be priced");
  return request_.evaluate(std::move(changed));
}

void Approximation::accept(std::vector<PipelinePlan> changed, const std::string& text) {
  const Plan before = price(pipelines_);
  const Plan after = price(changed);
  if (fits(before) && !fits(after)) {
    refusals_.add(-1, -1, "memory_bytes", concat(text, " does not fit the memory of a device"),
                  "plan with more --memory-margin, or export --to torch");
    return;
  }
  changes_.push_back({text, before.iteration_time, after.iteration_time});
  pipelines_ = std::move(changed);
}

bool fits(const Plan& plan) {
  for (const PipelinePlan& pipeline : plan.pipelines) {
    for (const StagePlan& stage : pipeline.stages) {
      if (stage.memory.total() > stage.capacity) return false;
    }
  }
  return true;
}

const LayerKind* uniform_block(const ModelSpec& model, Refusals& refusals) {
  const LayerKind& first = model.kind_of(1);
  for (int layer = 1; layer < model.layer_count() - 1; ++layer) {
    if (model.layers[static_cast<std::size_t>(layer)] == model.layers[1]) continue;
    refusals.add(-1, -1, "model",
                 concat("layer ", layer, " is a ", model.kind_of(layer).name, ", layer 1 a ", first.name,
                        "; all blocks must be alike"),
                 "export --to torch carries models of different layers");
    return nullptr;
  }
  if (first.stated || !first.attention || !first.mlp) {
    refusals.add(-1, -1, "model", concat("layers of kind ", first.name, " have no attention and feed-forward shape"),
                 "export --to torch carries models of any layers");
    return nullptr;
  }
  return &first;
}

int LaunchTable::rank_of_place(const DevicePlace& place) const {
  const auto found = std::find(places_.begin(), places_.end(), place);
  return found == places_.end() ? -1 : static_cast<int>(found - places_.begin());
}

ExportFile LaunchTable::rank_file() const {
  std::string text = "# rank\tnode\tdevice\n";
  for (std::size_t rank = 0; rank < places_.size(); ++rank) {
    text += concat(rank, "\t", node_name(cluster_, places_[rank]), "\t", places_[rank].device, "\n");
  }
  return {"ranks.tsv", text};
}

std::vector<LaunchTable::Run> LaunchTable::runs() const {
  std::vector<Run> runs;
  for (std::size_t rank = 0; rank < places_.size(); ++rank) {
    const DevicePlace& place = places_[rank];
    const std::string& node = node_name(cluster_, place);
    if (runs.empty() || runs.back().node != node) runs.push_back({node, place.group, static_cast<int>(rank), {}});
    runs.back().devices.push_back(place.device);
  }
  return runs;
}

std::vector<DevicePlace> places_of(const std::vector<StagePlan>& stages) {
  std::vector<DevicePlace> places;
  for (const StagePlan& stage : stages) places.insert(places.end(), stage.devices.begin(), stage.devices.end());
  return places;
}

std::vector<DevicePlace> places_of(const std::vector<PipelinePlan>& pipelines) {
  std::vector<DevicePlace> places;
  for (const PipelinePlan& pipeline : pipelines) {
    const std::vector<DevicePlace> more = places_of(pipeline.stages);
    places.insert(places.end(), more.begin(), more.end());
  }
  return places;
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " and " : ", ";
    text += words[i];
  }
  return text;
}

std::string numbers(const std::vector<int>& values, const char* separator) {
  std::vector<std::string> words;
  for (const int value : values) words.push_back(concat(value));
  return join(words, separator);
}

}  // namespace hpplan::detail
