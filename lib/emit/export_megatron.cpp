#include <algorithm>
#include <optional>

#include "base/check.hpp"
#include "base/text.hpp"
#include "domain/operators.hpp"
#include "emit/detail/export_support.hpp"
#include "emit/export.hpp"

namespace hpplan {

using detail::Approximation;
using detail::LaunchTable;
using detail::OnePipeline;
using detail::RecomputeLevel;
using detail::Refusals;

namespace {

/// What the recompute arguments of one process say.
struct RecomputePolicy {
  int whole_layers = 0;              // first layers of a stage that are recomputed as a whole
  std::vector<std::string> modules;  // selective recomputation, the same in every layer

  friend bool operator==(const RecomputePolicy&, const RecomputePolicy&) = default;
};

/// One argument per line, so that a shell reads it with `$(cat FILE)` and a person reads it at all.
class Arguments {
 public:
  void add(const std::string& flag) { text_ += flag + "\n"; }
  template <typename Value>
  void add(const std::string& flag, const Value& value) {
    text_ += concat(flag, " ", value, "\n");
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Megatron modules that recompute exactly `operators`; nothing when there are none. The module core_attn also runs the
/// product with V again, which frees nothing and is not counted by the plan.
std::optional<std::vector<std::string>> modules_of(const std::set<std::string>& operators, const LayerKind& kind) {
  std::set<std::string> rest = operators;
  std::vector<std::string> modules;
  rest.erase("context");
  const bool fused = kind.attention && kind.attention->fused;
  std::vector<std::string> core =
      fused ? std::vector<std::string>{"attention"} : std::vector<std::string>{"score", "softmax"};
  if (!fused && kind.attention && kind.attention->dropout) core.emplace_back("dropout");
  if (std::all_of(core.begin(), core.end(), [&](const std::string& name) { return rest.contains(name); })) {
    for (const std::string& name : core) rest.erase(name);
    modules.emplace_back("core_attn");
  }
  if (rest.contains("attention_norm") && rest.contains("mlp_norm")) {
    rest.erase("attention_norm");
    rest.erase("mlp_norm");
    modules.emplace_back("layernorm");
  }
  if (rest.erase("mlp") > 0) modules.emplace_back(kind.mlp && kind.mlp->experts > 0 ? "moe" : "mlp");
  return rest.empty() ? std::optional(modules) : std::nullopt;
}

/// Operators that each policy recomputes in block `index` of a stage.
std::set<std::string> operators_of(const RecomputePolicy& policy, const LayerKind& kind, int index) {
  std::set<std::string> operators;
  if (index < policy.whole_layers) {
    const std::vector<std::string> all = recomputable_operators(kind);
    return {all.begin(), all.end()};
  }
  for (const std::string& module : policy.modules) {
    if (module == "core_attn") {
      const bool fused = kind.attention->fused;
      for (const char* name : {"score", "softmax", "dropout"}) {
        if (!fused && (std::string(name) != "dropout" || kind.attention->dropout)) operators.insert(name);
      }
      if (fused) operators.insert("attention");
    }
    if (module == "layernorm") operators.insert({"attention_norm", "mlp_norm"});
    if (module == "mlp" || module == "moe") operators.insert("mlp");
  }
  return operators;
}

/// The policy of one stage, or nothing when no arguments express it.
std::optional<RecomputePolicy> policy_of(const StagePlan& stage, const ModelSpec& model) {
  const LayerRange blocks = detail::blocks_of(stage, model);
  RecomputePolicy policy;
  policy.whole_layers = detail::full_recompute_count(stage, model);
  std::optional<std::set<std::string>> partial;
  for (int layer = blocks.first; layer < blocks.last; ++layer) {
    if (detail::recompute_level(stage, layer, model) == RecomputeLevel::Full) continue;
    const std::set<std::string> operators = detail::recomputed_operators(stage, layer);
    if (partial && *partial != operators) return std::nullopt;
    partial = operators;
  }
  if (!partial || partial->empty()) return policy;
  if (policy.whole_layers > 0) return std::nullopt;  // full and selective exclude each other
  const auto modules = modules_of(*partial, model.kind_of(1));
  if (!modules) return std::nullopt;
  policy.modules = *modules;
  return policy;
}

/// The whole stage is recomputed: block recomputation of any number of layers from its size on is the same.
bool agrees(const RecomputePolicy& policy, const StagePlan& stage, const ModelSpec& model) {
  const std::optional<RecomputePolicy> own = policy_of(stage, model);
  if (!own || own->modules != policy.modules) return false;
  const int blocks = detail::blocks_of(stage, model).size();
  return own->whole_layers == std::min(policy.whole_layers, blocks);
}

std::optional<RecomputePolicy> common_policy(const OnePipeline& pipeline, const ModelSpec& model) {
  RecomputePolicy policy;
  for (const StagePlan& stage : pipeline.stages) {
    const std::optional<RecomputePolicy> own = policy_of(stage, model);
    if (!own) return std::nullopt;
    if (detail::blocks_of(stage, model).size() == 0) continue;
    policy.whole_layers = std::max(policy.whole_layers, own->whole_layers);
    if (policy.modules.empty()) policy.modules = own->modules;
  }
  for (const StagePlan& stage : pipeline.stages) {
    if (detail::blocks_of(stage, model).size() > 0 && !agrees(policy, stage, model)) return std::nullopt;
  }
  return policy;
}

std::vector<PipelinePlan> with_policy(std::vector<PipelinePlan> pipelines, const RecomputePolicy& policy,
                                      const ModelSpec& model) {
  for (PipelinePlan& pipeline : pipelines) {
    for (StagePlan& stage : pipeline.stages) {
      std::vector<std::set<std::string>> operators;
      for (int i = 0; i < detail::blocks_of(stage, model).size(); ++i) {
        operators.push_back(operators_of(policy, model.kind_of(1), i));
      }
      detail::set_recompute(stage, operators, model);
    }
  }
  return pipelines;
}

/// The fastest single policy that fits: selective modules in rising order, then blocks of whole layers.
std::optional<RecomputePolicy> best_common_policy(const Approximation& work, const ModelSpec& model) {
  const bool experts = model.kind_of(1).mlp->experts > 0;
  const std::string mlp = experts ? "moe" : "mlp";
  std::vector<RecomputePolicy> policies{{0, {}}, {0, {"core_attn"}}, {0, {mlp}}, {0, {"core_attn", mlp}}};
  for (int count = 1; count <= model.block_count(); ++count) policies.push_back({count, {}});
  std::optional<RecomputePolicy> best;
  Seconds best_time;
  for (const RecomputePolicy& policy : policies) {
    const Plan plan = work.price(with_policy(work.pipelines(), policy, model));
    if (!detail::fits(plan) || (best && plan.iteration_time >= best_time)) continue;
    best = policy;
    best_time = plan.iteration_time;
  }
  return best;
}

void add_recompute(Arguments& arguments, const RecomputePolicy& policy) {
  if (policy.whole_layers > 0) {
    arguments.add("--recompute-granularity", "full");
    arguments.add("--recompute-method", "block");
    arguments.add("--recompute-num-layers", policy.whole_layers);
  } else if (!policy.modules.empty()) {
    arguments.add("--recompute-granularity", "selective");
    arguments.add("--recompute-modules", join(policy.modules, " "));
  }
}

void add_model(Arguments& arguments, const ModelSpec& model, const LayerKind& block) {
  const AttentionShape& attention = *block.attention;
  const MlpShape& mlp = *block.mlp;
  arguments.add("--num-layers", model.block_count());
  arguments.add("--hidden-size", model.hidden);
  arguments.add("--num-attention-heads", attention.heads);
  arguments.add("--kv-channels", attention.head_dim);
  if (attention.kv_heads != attention.heads) {
    arguments.add("--group-query-attention");
    arguments.add("--num-query-groups", attention.kv_heads);
  }
  arguments.add("--ffn-hidden-size", mlp.ffn);
  if (mlp.experts > 0) {
    arguments.add("--num-experts", mlp.experts);
    arguments.add("--moe-router-topk", mlp.top_k);
    if (mlp.shared_ffn > 0) arguments.add("--moe-shared-expert-intermediate-size", mlp.shared_ffn);
  }
  arguments.add("--seq-length", model.sequence);
  arguments.add("--max-position-embeddings", model.sequence);
  arguments.add("--position-embedding-type", model.learned_positions ? "learned_absolute" : "rope");
  arguments.add("--normalization", model.norm == NormKind::RmsNorm ? "RMSNorm" : "LayerNorm");
  if (mlp.gated) arguments.add("--swiglu");
  if (!mlp.bias) arguments.add("--disable-bias-linear");
  if (attention.qkv_bias && !mlp.bias) arguments.add("--add-qkv-bias");
  if (!model.tied_embeddings) arguments.add("--untie-embeddings-and-output-weights");
  if (attention.fused) arguments.add("--use-flash-attn");
  arguments.add("--vocab-size", model.vocabulary);
  arguments.add("--make-vocab-size-divisible-by", model.vocabulary_multiple);
  if (model.precision != "fp32") arguments.add(concat("--", model.precision));
}

void check_model(const ModelSpec& model, const LayerKind& block, Refusals& refusals) {
  if (model.norm == NormKind::None) {
    refusals.add(-1, -1, "model.norm", "a model without norms", "export --to torch carries it");
  }
  if (block.attention->output_bias != block.mlp->bias) {
    refusals.add(-1, -1, "model.bias", "one switch for the biases of all linear layers but Q, K, V",
                 "export --to torch carries it");
  }
}

/// Characters E, t and L, one stage per bar and no groups: the form that every version reads.
std::string layout_of(const OnePipeline& pipeline, const ModelSpec& model) {
  std::vector<std::string> stages;
  for (const StagePlan& stage : pipeline.stages) {
    const int blocks = detail::blocks_of(stage, model).size();
    std::string text = stage.layers.contains(0) ? "E" : "";
    if (blocks > 0) text += concat("t*", blocks);
    if (stage.layers.contains(model.layer_count() - 1)) text += "L";
    stages.push_back(text);
  }
  return join(stages, "|");
}

void check_megatron_degrees(const OnePipeline& pipeline, Refusals& refusals) {
  const StagePlan& first = pipeline.stages.front();
  for (int s = 1; s < pipeline.stage_count(); ++s) {
    const StagePlan& stage = pipeline.stages[static_cast<std::size_t>(s)];
    const auto refuse = [&](const char* field, int here, int there) {
      if (here != there) {
        refusals.add(0, s, field, concat(here, ", but stage 0 has ", there, "; one degree holds for all stages"),
                     "export --to flagscale or --to torch carries degrees per stage");
      }
    };
    refuse("tensor_parallel", stage.tensor_parallel, first.tensor_parallel);
    refuse("data_parallel", stage.data_parallel, first.data_parallel);
  }
}

Arguments common_arguments(const ExportRequest& request, const OnePipeline& pipeline, const LayerKind& block) {
  const StagePlan& first = pipeline.stages.front();
  Arguments arguments;
  add_model(arguments, request.model, block);
  arguments.add("--tensor-model-parallel-size", first.tensor_parallel);
  arguments.add("--pipeline-model-parallel-size", pipeline.stage_count());
  // With one stage there is nothing to lay out, and a layout of one entry is a trap for virtual stages.
  if (pipeline.stage_count() > 1) {
    arguments.add("--pipeline-model-parallel-layout", layout_of(pipeline, request.model));
  }
  if (request.model.sequence_parallel && first.tensor_parallel > 1) arguments.add("--sequence-parallel");
  arguments.add("--micro-batch-size", pipeline.micro_batch / first.data_parallel);
  arguments.add("--global-batch-size", pipeline.micro_batch * pipeline.micro_batches);
  return arguments;
}

/// One file per node. Possible only where a node serves one stage: its processes share the file.
std::vector<ExportFile> node_files(const ExportRequest& request, const OnePipeline& pipeline, const Arguments& common,
                                   Refusals& refusals) {
  std::vector<ExportFile> files;
  std::vector<std::pair<std::string, int>> stage_of_node;
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    const StagePlan& stage = pipeline.stages[static_cast<std::size_t>(s)];
    const std::optional<RecomputePolicy> policy = policy_of(stage, request.model);
    if (!policy) {
      refusals.add(0, s, "recompute", "no recompute argument names these operators",
                   "--approximate takes the nearest arguments and states the cost");
      continue;
    }
    std::set<std::string> nodes;
    for (const DevicePlace& place : stage.devices) nodes.insert(node_name(request.cluster, place));
    for (const std::string& node : nodes) {
      const auto known = std::find_if(stage_of_node.begin(), stage_of_node.end(),
                                      [&](const auto& entry) { return entry.first == node; });
      if (known != stage_of_node.end()) {
        refusals.add(0, s, "devices",
                     concat("node ", node, " also serves stage ", known->second, ", and one file holds for a node"),
                     "plan with --whole-nodes");
        continue;
      }
      stage_of_node.emplace_back(node, s);
      Arguments arguments = common;
      add_recompute(arguments, *policy);
      files.push_back({concat("arguments/", node, ".args"), arguments.text()});
    }
  }
  return files;
}

void refuse_recompute(const OnePipeline& pipeline, const ModelSpec& model, bool per_node, Refusals& refusals) {
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    const StagePlan& stage = pipeline.stages[static_cast<std::size_t>(s)];
    const std::optional<RecomputePolicy> policy = policy_of(stage, model);
    const std::optional<RecomputePolicy> first = policy_of(pipeline.stages.front(), model);
    if (policy && s > 0 && first && agrees(*first, stage, model)) continue;
    if (policy && s == 0) continue;
    refusals.add(0, s, "recompute",
                 policy ? "differs from stage 0; one recompute policy holds for all stages"
                        : "no recompute argument names these operators",
                 policy && !per_node ? "--per-node writes one argument file per node; --approximate takes one policy"
                                     : "--approximate takes one policy for all stages and states the cost");
  }
}

}  // namespace

ExportResult export_megatron(const ExportRequest& request) {
  Refusals refusals(request, "megatron");
  Approximation work(request, refusals);
  const LayerKind* const block = detail::uniform_block(request.model, refusals);
  OnePipeline pipeline = detail::merge_pipelines(work.pipelines(), refusals);
  check_megatron_degrees(pipeline, refusals);
  if (block != nullptr) check_model(request.model, *block, refusals);
  refusals.finish();
  work.require_schedule({"1f1b"});
  refusals.finish();

  pipeline = detail::merge_pipelines(work.pipelines(), refusals);
  std::optional<RecomputePolicy> policy = common_policy(pipeline, request.model);
  ExportResult result;
  if (!policy && request.per_node) {
    result.files = node_files(request, pipeline, common_arguments(request, pipeline, *block), refusals);
    refusals.finish();
  } else if (!policy && work.allowed()) {
    policy = best_common_policy(work, request.model);
    if (policy)
      work.accept(with_policy(work.pipelines(), *policy, request.model), "one recompute policy for all stages");
  }
  if (!policy && result.files.empty()) refuse_recompute(pipeline, request.model, request.per_node, refusals);
  refusals.finish();
  if (policy) {
    Arguments arguments = common_arguments(request, pipeline, *block);
    add_recompute(arguments, *policy);
    result.files.push_back({"megatron.args", arguments.text()});
    if (std::find(policy->modules.begin(), policy->modules.end(), "core_attn") != policy->modules.end()) {
      result.notes.emplace_back("core_attn also runs the product of scores and V again");
    }
  }
  result.files.push_back(LaunchTable(request.cluster, detail::places_of(pipeline.stages)).rank_file());
  result.changes = work.changes();
  result.notes.emplace_back("start rank r on the device that ranks.tsv lists for it (order tp, dp, pp)");
  return result;
}

}  // namespace hpplan
