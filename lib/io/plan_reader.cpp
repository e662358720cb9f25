#include "io/plan_reader.hpp"

#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "io/detail/limits.hpp"
#include "io/file_kind.hpp"
#include "io/job_reader.hpp"
#include "io/placement_rule_reader.hpp"

namespace hpplan {

namespace {

constexpr int kMostDevices = 1 << 20;

/// Longer than any plan runs, and short enough for sums of millions of such times.
constexpr double kMaxPlanSeconds = 1e12;

Seconds seconds(const Reader& reader) { return Seconds{reader.number(0.0, kMaxPlanSeconds)}; }

Bytes bytes(const Reader& reader) { return Bytes{reader.integer(0, std::numeric_limits<std::int64_t>::max() / 16)}; }

/// Digests may be empty: what was made in memory has none.
InputStamp read_stamp(const Reader& reader) {
  return {reader.required("name").text(), reader.required("digest").text()};
}

std::vector<std::string> read_texts(const Reader& reader) {
  std::vector<std::string> texts;
  for (const Reader& item : reader.items()) texts.push_back(item.text());
  return texts;
}

std::vector<std::string> read_names(const Reader& reader, std::size_t min_count) {
  std::vector<std::string> names;
  for (const Reader& item : reader.items(min_count)) names.push_back(item.name());
  return names;
}

std::vector<int> read_counts(const Reader& reader, std::size_t min_count, int min, int max) {
  std::vector<int> counts;
  for (const Reader& item : reader.items(min_count)) counts.push_back(item.count(min, max));
  return counts;
}

CountLimit read_limit(const Reader& reader) {
  if (!reader.exists()) return {};
  CountLimit limit;
  limit.min = reader.required("min").count(1);
  limit.max = reader.optional("max").count_or(-1, 1);
  if (limit.max >= 0 && limit.max < limit.min) reader.fault(concat("max ", limit.max, " is below min ", limit.min));
  return limit;
}

void read_rules(const Reader& reader, RuleKind kind, std::vector<PlacementRule>& rules) {
  const Reader list = reader.optional(to_text(kind));
  if (!list.exists()) return;
  for (const Reader& item : list.items()) {
    const auto parsed = parse_placement_rule(kind, item.text());
    if (const auto* fault = std::get_if<RuleFault>(&parsed)) {
      item.fault(fault->message, fault->hint);
    } else {
      rules.push_back(std::get<PlacementRule>(parsed));
    }
  }
}

Constraints read_constraints(const Reader& reader) {
  Constraints constraints;
  if (!reader.exists()) return constraints;
  constraints.pipelines = read_limit(reader.optional("pipelines"));
  constraints.stages = read_limit(reader.optional("stages"));
  const Reader degrees = reader.optional("tensor_parallel");
  if (degrees.exists()) constraints.tensor_parallel = read_counts(degrees, 0, 1, kMostDevices);
  constraints.tensor_parallel_across_nodes = reader.optional("tensor_parallel_across_nodes").boolean_or(false);
  constraints.whole_nodes = reader.optional("whole_nodes").boolean_or(false);
  constraints.type_pure = reader.optional("type_pure").boolean_or(false);
  constraints.allow_recompute = reader.optional("allow_recompute").boolean_or(true);
  for (const RuleKind kind : {RuleKind::Forbid, RuleKind::Force}) read_rules(reader, kind, constraints.placement);
  return constraints;
}

/// What a job says besides the batch and the tolerance may be left out by who writes a plan by hand.
Job read_job(const Reader& reader) {
  Job job;
  job.global_batch = reader.required("global_batch").count(1, kMaxGlobalBatch);
  job.tolerance = reader.required("tolerance").number(0.0);
  const Reader micro_batches = reader.optional("micro_batch");
  if (micro_batches.exists()) job.micro_batches = read_counts(micro_batches, 1, 1, std::numeric_limits<int>::max());
  const Reader schedules = reader.optional("schedule");
  if (schedules.exists()) job.schedules = read_names(schedules, 1);
  const Reader margin = reader.optional("memory_margin_bytes");
  if (margin.exists()) job.memory_margin = bytes(margin);
  const Reader overhead = reader.optional("framework_overhead_bytes");
  if (overhead.exists()) job.framework_overhead = bytes(overhead);
  const Reader sharding = reader.optional("optimizer_sharding");
  if (sharding.exists()) {
    job.optimizer_sharding = sharding.one_of<OptimizerSharding>(
        {{to_text(OptimizerSharding::None), OptimizerSharding::None},
         {to_text(OptimizerSharding::StageDataParallel), OptimizerSharding::StageDataParallel}});
  }
  const Reader drift = reader.optional("max_drift");
  if (drift.exists()) job.max_drift = drift.count(0);
  job.overlap_gradient_sync = reader.optional("overlap_gradient_sync").boolean_or(false);
  job.constraints = read_constraints(reader.optional("constraints"));
  return job;
}

PlanProblem read_problem(const Reader& reader) {
  PlanProblem problem;
  problem.model = read_stamp(reader.required("model"));
  problem.cluster = read_stamp(reader.required("cluster"));
  const Reader profile = reader.required("profile");
  problem.profiles = read_names(profile.required("names"), 0);
  problem.profile_digest = profile.required("digest").text();
  problem.job = read_job(reader);
  return problem;
}

DeviceName read_device(const Reader& reader) {
  const std::vector<Reader> parts = reader.items(2);
  if (parts.size() > 2)
    reader.fault(concat("a list of ", parts.size(), " values, but a device is [\"node name\", index]"));
  if (parts.size() != 2) return {};
  return {parts[0].name(), parts[1].count(0, kMostDevices)};
}

std::vector<DeviceName> read_devices(const Reader& reader, std::size_t min_count) {
  std::vector<DeviceName> devices;
  for (const Reader& item : reader.items(min_count)) devices.push_back(read_device(item));
  return devices;
}

LayerRange read_range(const Reader& reader) {
  const std::vector<Reader> ends = reader.items(2);
  if (ends.size() > 2) reader.fault(concat("a list of ", ends.size(), " values, but layers are [first, last)"));
  if (ends.size() != 2) return {};
  const LayerRange range{ends[0].count(0, detail::kMaxCount), ends[1].count(0, detail::kMaxCount)};
  if (range.last <= range.first) {
    reader.fault(concat("layers [", range.first, ", ", range.last, ") are none"),
                 "ranges are half-open: [3, 5] holds layers 3 and 4");
  }
  return range;
}

std::vector<RecomputeRange> read_recompute(const Reader& reader) {
  std::vector<RecomputeRange> ranges;
  for (const Reader& item : reader.items()) {
    RecomputeRange range{read_range(item.required("layers")), read_names(item.required("operators"), 1)};
    if (!ranges.empty() && range.layers.first < ranges.back().layers.last) {
      item.fault("layers must ascend and not overlap those before");
    }
    ranges.push_back(std::move(range));
  }
  return ranges;
}

void read_memory(const Reader& reader, StagePlan& stage) {
  StageMemory& memory = stage.memory;
  memory.parameters = bytes(reader.required("parameters"));
  memory.gradients = bytes(reader.required("gradients"));
  memory.optimizer = bytes(reader.required("optimizer"));
  memory.activations = bytes(reader.required("activations"));
  memory.workspace = bytes(reader.required("workspace"));
  memory.other = bytes(reader.required("other"));
  stage.capacity = bytes(reader.required("capacity"));
  const Reader total = reader.required("total");
  const Bytes stated = bytes(total);
  if (total.exists() && reader.document_ok() && stated != memory.total()) {
    total.fault(concat("found ", stated.count(), ", but the parts add up to ", memory.total().count()));
  }
}

Provenance read_provenance(const Reader& reader) {
  return reader.one_of<Provenance>({{to_text(Provenance::Measured), Provenance::Measured},
                                    {to_text(Provenance::Interpolated), Provenance::Interpolated},
                                    {to_text(Provenance::Modelled), Provenance::Modelled}});
}

Seconds seconds_or_zero(const Reader& reader) { return reader.exists() ? seconds(reader) : Seconds{}; }

std::vector<ChunkPlan> read_chunks(const Reader& reader) {
  std::vector<ChunkPlan> chunks;
  if (!reader.exists()) return chunks;
  for (const Reader& item : reader.items(1)) {
    ChunkPlan chunk;
    chunk.layers = read_range(item.required("layers"));
    chunk.forward = seconds(item.required("forward_s"));
    chunk.backward = seconds(item.required("backward_s"));
    chunk.weight_gradient = seconds_or_zero(item.optional("weight_gradient_s"));
    chunk.link = seconds_or_zero(item.optional("link_s"));
    if (chunk.weight_gradient > chunk.backward) item.fault("weight_gradient_s is a part of backward_s, but greater");
    chunks.push_back(chunk);
  }
  return chunks;
}

StagePlan read_stage(const Reader& reader, bool is_last, StagePlacement& placement) {
  placement.node_group = reader.required("node_group").name();
  placement.devices = read_devices(reader.required("devices"), 1);
  placement.ranks = read_counts(reader.required("ranks"), 1, 0, kMostDevices);
  StagePlan stage;
  stage.layers = read_range(reader.required("layers"));
  stage.tensor_parallel = reader.required("tensor_parallel").count(1, kMostDevices);
  stage.data_parallel = reader.required("data_parallel").count(1, kMostDevices);
  stage.recompute = read_recompute(reader.required("recompute"));
  stage.forward = seconds(reader.required("forward_s"));
  stage.backward = seconds(reader.required("backward_s"));
  const Reader weight = reader.optional("weight_gradient_s");
  stage.weight_gradient = seconds_or_zero(weight);
  if (stage.weight_gradient > stage.backward) weight.fault("a part of backward_s, but greater");
  if (!is_last) stage.link = seconds(reader.required("link_s"));
  if (is_last && reader.optional("link_s").exists()) {
    reader.optional("link_s").fault("the last stage sends to nobody", "remove link_s");
  }
  stage.chunks = read_chunks(reader.optional("chunks"));
  stage.in_flight = reader.required("in_flight").count(1, kMaxGlobalBatch);
  stage.activation_cap = reader.optional("activation_cap").number_or(0.0, 0.0, 1e12);
  stage.weight_copies = reader.optional("weight_copies").count_or(1, 1, kMostDevices);
  stage.drift = reader.optional("drift").count_or(0, 0);
  read_memory(reader.required("memory_bytes"), stage);
  stage.provenance = read_provenance(reader.required("provenance"));
  return stage;
}

/// The rate is stated for readers: it follows from the batch and the time.
void check_rate(const Reader& reader, const PipelinePlan& pipeline) {
  const double stated = reader.number(0.0);
  if (!reader.document_ok() || !(pipeline.time > Seconds{})) return;
  const double right = steady_samples_per_second(pipeline);
  if (std::abs(stated - right) > 1e-6 * right) {
    reader.fault(concat("found ", shortest(stated), ", but micro_batch * micro_batches / time_s is ", shortest(right)));
  }
}

PipelinePlan read_pipeline(const Reader& reader, std::vector<StagePlacement>& placements) {
  PipelinePlan pipeline;
  pipeline.micro_batch = reader.required("micro_batch").count(1, kMaxGlobalBatch);
  pipeline.micro_batches = reader.required("micro_batches").count(1, kMaxGlobalBatch);
  pipeline.schedule = reader.required("schedule").name();
  pipeline.time = seconds(reader.required("time_s"));
  pipeline.bubble = reader.required("bubble").number(0.0, 1.0);
  pipeline.memory_limit = reader.optional("memory_limit").number_or(0.0, 0.0, 1e12);
  const Reader accumulation = reader.optional("accumulation");
  pipeline.accumulation = accumulation.count_or(0, 1);
  const Reader rate = reader.optional("steady_samples_per_s");
  if (rate.exists()) check_rate(rate, pipeline);
  if (accumulation.exists() && !rate.exists()) reader.fault("accumulation without steady_samples_per_s");
  const std::vector<Reader> stages = reader.required("stages").items(1);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    pipeline.stages.push_back(read_stage(stages[s], s + 1 == stages.size(), placements.emplace_back()));
  }
  return pipeline;
}

GradientGroup read_group(const Reader& reader) {
  GradientGroup group;
  group.ranks = read_counts(reader.required("ranks"), 2, 0, kMostDevices);
  group.bytes = bytes(reader.required("bytes"));
  for (const Reader& item : reader.required("blocks").items(1)) {
    group.blocks.push_back({item.required("layer").count(0, detail::kMaxCount), item.required("begin").number(0.0, 1.0),
                            item.required("end").number(0.0, 1.0)});
  }
  return group;
}

GradientSync read_gradient_sync(const Reader& reader) {
  GradientSync sync;
  sync.method = reader.required("method").one_of<GradientSyncMethod>(
      {{to_text(GradientSyncMethod::DeviceWise), GradientSyncMethod::DeviceWise},
       {to_text(GradientSyncMethod::TensorWise), GradientSyncMethod::TensorWise},
       {to_text(GradientSyncMethod::BlockWise), GradientSyncMethod::BlockWise}});
  sync.time = seconds(reader.required("time_s"));
  sync.device_wise = seconds(reader.required("device_wise_s"));
  sync.tensor_wise = seconds(reader.required("tensor_wise_s"));
  sync.block_wise = seconds(reader.required("block_wise_s"));
  for (const Reader& item : reader.required("groups").items()) sync.groups.push_back(read_group(item));
  return sync;
}

void read_format(const Reader& root) {
  const Reader format = root.required("format");
  const std::string name = format.text();
  if (format.exists() && name != kPlanFormat) {
    format.fault(concat("found \"", name, "\", expected \"", kPlanFormat, "\""), "is this a plan file?");
  }
  const Reader version = root.required("version");
  const int number = version.count(1);
  if (version.exists() && number != kPlanVersion) {
    version.fault(concat("found version ", number, ", this program reads version ", kPlanVersion));
  }
}

void read_balance(const Reader& reader, Plan& plan) {
  plan.inter_pipeline_imbalance = reader.required("inter_pipeline").number(0.0);
  const Reader intra = reader.required("intra_pipeline");
  for (const Reader& item : intra.items()) plan.intra_pipeline_imbalance.push_back(item.number(0.0));
  if (intra.exists() && plan.intra_pipeline_imbalance.size() != plan.pipelines.size()) {
    intra.fault(
        concat("found ", plan.intra_pipeline_imbalance.size(), " values for ", plan.pipelines.size(), " pipelines"));
  }
}

}  // namespace

void check_is_plan(const Document& document) {
  check_kind(document, FileKind::Plan);
  const Reader root = document.root();
  if (root.kind() == ValueKind::Map && (root.has("format") || root.has("pipelines"))) return;
  root.fault("not a plan", concat("a plan is a map that begins with \"format\": \"", kPlanFormat, "\""));
  document.finish();
}

PlanFile read_plan(const Document& document) {
  check_is_plan(document);
  const Reader root = document.root();
  PlanFile file;
  Plan& plan = file.plan;
  read_format(root);
  file.problem = read_problem(root.required("problem"));
  plan.iteration_time = seconds(root.required("iteration_time_s"));
  plan.lower_bound = seconds(root.required("lower_bound_s"));
  file.figures.gap = root.required("gap").number();
  const Reader kind = root.optional("bound_kind");
  if (kind.exists()) {
    plan.bound_kind = kind.one_of<BoundKind>(
        {{to_text(BoundKind::Search), BoundKind::Search}, {to_text(BoundKind::Work), BoundKind::Work}});
  }
  plan.complete = root.required("complete").boolean();
  file.figures.samples_per_s = root.required("samples_per_s").number(0.0);
  file.figures.tokens_per_s = root.required("tokens_per_s").number(0.0);
  file.figures.mfu = root.required("mfu").number(0.0);
  plan.pipeline_time = seconds(root.required("pipeline_time_s"));
  plan.gradient_sync_time = seconds(root.required("gradient_sync_time_s"));
  plan.optimizer_time = seconds(root.required("optimizer_time_s"));
  for (const Reader& item : root.required("pipelines").items(1)) {
    plan.pipelines.push_back(read_pipeline(item, file.placements.emplace_back()));
  }
  plan.gradient_sync = read_gradient_sync(root.required("gradient_sync"));
  read_balance(root.required("balance"), plan);
  file.idle_devices = read_devices(root.required("idle_devices"), 0);
  plan.notes = read_texts(root.required("notes"));
  document.finish();
  return file;
}

PlanFile parse_plan(std::string text, std::string file) {
  return read_plan(Document::parse(std::move(text), std::move(file)));
}

}  // namespace hpplan
