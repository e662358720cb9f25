#include <array>
#include <map>

#include "base/text.hpp"
#include "emit/detail/export_support.hpp"
#include "emit/export.hpp"

namespace hpplan {

using detail::Approximation;
using detail::OnePipeline;
using detail::RecomputeLevel;
using detail::Refusals;

namespace {

/// Operators that MindFormers can recompute on their own, by the regular expression of their cells' names (those of its
/// LLaMA classes).
struct CellName {
  const char* operator_name;
  const char* pattern;
};
constexpr std::array<CellName, 3> kCells{
    {{"attention_norm", R"(attention_norm\..*)"}, {"mlp_norm", R"(ffn_norm\..*)"}, {"mlp", R"(feed_forward\..*)"}}};

const char* pattern_of(const std::string& operator_name) {
  for (const CellName& cell : kCells) {
    if (operator_name == cell.operator_name) return cell.pattern;
  }
  return nullptr;
}

/// Layers of every stage per cell, in stage order; whole layers under "".
using Counts = std::map<std::string, std::vector<int>>;

void check_mindformers_degrees(const OnePipeline& pipeline, Refusals& refusals) {
  const StagePlan& first = pipeline.stages.front();
  for (int s = 1; s < pipeline.stage_count(); ++s) {
    const StagePlan& stage = pipeline.stages[static_cast<std::size_t>(s)];
    const auto refuse = [&](const char* field, int here, int there) {
      if (here == there) return;
      refusals.add(0, s, field, concat(here, ", but stage 0 has ", there, "; one degree holds for all stages"),
                   "export --to flagscale or --to torch carries degrees per stage");
    };
    refuse("tensor_parallel", stage.tensor_parallel, first.tensor_parallel);
    refuse("data_parallel", stage.data_parallel, first.data_parallel);
  }
}

/// True if some stage recomputes an operator that has no cell name.
bool has_unknown_operators(const OnePipeline& pipeline, const ModelSpec& model, Refusals* refusals) {
  bool unknown = false;
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    const StagePlan& stage = pipeline.stages[static_cast<std::size_t>(s)];
    const LayerRange blocks = detail::blocks_of(stage, model);
    std::set<std::string> named;
    for (int layer = blocks.first; layer < blocks.last; ++layer) {
      if (detail::recompute_level(stage, layer, model) != RecomputeLevel::Partial) continue;
      for (const std::string& name : detail::recomputed_operators(stage, layer)) {
        if (pattern_of(name) == nullptr) named.insert(name);
      }
    }
    if (named.empty()) continue;
    unknown = true;
    if (refusals == nullptr) continue;
    refusals->add(0, s, "recompute",
                  concat("operators without a cell name here: ", detail::listed({named.begin(), named.end()})),
                  "--approximate rounds them up to whole layers and states the cost");
  }
  return unknown;
}

Counts counts_of(const OnePipeline& pipeline, const ModelSpec& model) {
  Counts counts;
  const std::size_t stages = pipeline.stages.size();
  for (std::size_t s = 0; s < stages; ++s) {
    const StagePlan& stage = pipeline.stages[s];
    const LayerRange blocks = detail::blocks_of(stage, model);
    for (int layer = blocks.first; layer < blocks.last; ++layer) {
      const auto count = [&](const std::string& pattern) {
        counts.try_emplace(pattern, stages, 0).first->second[s] += 1;
      };
      const RecomputeLevel level = detail::recompute_level(stage, layer, model);
      if (level == RecomputeLevel::Full) count("");
      if (level != RecomputeLevel::Partial) continue;
      for (const std::string& name : detail::recomputed_operators(stage, layer)) count(pattern_of(name));
    }
  }
  return counts;
}

std::string recompute_text(const Counts& counts) {
  std::string text = "recompute_config:\n";
  const auto whole = counts.find("");
  text +=
      whole == counts.end() ? "  recompute: false\n" : concat("  recompute: [", detail::numbers(whole->second), "]\n");
  std::string cells;
  for (const auto& [pattern, per_stage] : counts) {
    if (!pattern.empty()) cells += concat("    '", pattern, "': [", detail::numbers(per_stage), "]\n");
  }
  return cells.empty() ? text : text + "  select_recompute:\n" + cells;
}

}  // namespace

ExportResult export_mindformers(const ExportRequest& request) {
  Refusals refusals(request, "mindformers");
  Approximation work(request, refusals);
  OnePipeline pipeline = detail::merge_pipelines(work.pipelines(), refusals);
  check_mindformers_degrees(pipeline, refusals);
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    if (detail::blocks_of(pipeline.stages[static_cast<std::size_t>(s)], request.model).size() > 0) continue;
    refusals.add(0, s, "layers", "no transformer layer on this stage", "export --to megatron or --to torch carries it");
  }
  work.require_schedule({"1f1b"});
  if (has_unknown_operators(pipeline, request.model, work.allowed() ? nullptr : &refusals)) work.require_whole_layers();
  refusals.finish();
  pipeline = detail::merge_pipelines(work.pipelines(), refusals);

  const StagePlan& first = pipeline.stages.front();
  std::vector<int> offset;
  const int even = request.model.block_count() / pipeline.stage_count();
  for (const StagePlan& stage : pipeline.stages) {
    offset.push_back(detail::blocks_of(stage, request.model).size() - even);
  }
  std::string text =
      concat("parallel_config:\n  data_parallel: ", first.data_parallel, "\n  model_parallel: ", first.tensor_parallel,
             "\n  pipeline_stage: ", pipeline.stage_count(), "\n  micro_batch_num: ", pipeline.micro_batches, "\n");
  text += recompute_text(counts_of(pipeline, request.model));
  text += concat("runner_config:\n  batch_size: ", pipeline.micro_batch / first.data_parallel, "\n");
  text += concat("model:\n  model_config:\n    num_layers: ", request.model.block_count(), "\n    offset: [",
                 detail::numbers(offset), "]\n");
  ExportResult result;
  result.files = {{"mindformers.yaml", text},
                  detail::LaunchTable(request.cluster, detail::places_of(pipeline.stages)).rank_file()};
  result.changes = work.changes();
  if (text.find("select_recompute") != std::string::npos) {
    result.notes.emplace_back("select_recompute uses the cell names of the LLaMA classes; adapt them for other models");
  }
  result.notes.emplace_back("merge these keys into the model's own configuration file");
  return result;
}

}  // namespace hpplan
