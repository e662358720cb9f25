#include "predict/judge.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>

#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "predict/evaluate.hpp"
#include "predict/plan_stamp.hpp"
#include "predict/planned_stage.hpp"
#include "predict/rate_bound.hpp"
#include "predict/stage.hpp"
#include "schedule/table.hpp"

namespace hpplan {

namespace {

/// Larger micro-batches are refused before their costs are asked for.
constexpr int kMostSamples = 1 << 16;

/// The work bound of everything that `job` allows, not of the plan's micro-batches alone; nothing if no plan has it.
std::optional<Seconds> work_bound(const Problem& problem, const Job& job) {
  for (const int micro_batch : job.micro_batches) {
    if (micro_batch > kMostSamples) return std::nullopt;
  }
  try {
    return rate_bound(make_problem(problem.model, problem.cluster, problem.profiles, job));
  } catch (const InputError&) {
    return std::nullopt;
  }
}

class Judge {
 public:
  Judge(const Problem& problem, PlanFile& file, const JudgeOptions& options)
      : problem_(problem), file_(file), plan_(file.plan), options_(options) {}

  [[nodiscard]] Judgement run() {
    check_inputs();
    check_batch();
    check_structure();
    check_idle();
    check_constraints();
    check_placement();
    check_bound();
    if (sound_) recompute();
    return std::move(judgement_);
  }

 private:
  void differ(std::string field, std::string found, std::string expected, std::string remark = "") {
    judgement_.differences.push_back({std::move(field), std::move(found), std::move(expected), std::move(remark)});
  }
  /// A difference that leaves nothing to be recomputed.
  void unsound(std::string field, std::string found, std::string expected, std::string remark = "") {
    sound_ = false;
    differ(std::move(field), std::move(found), std::move(expected), std::move(remark));
  }

  void check_text(const std::string& field, const std::string& found, const std::string& expected,
                  const std::string& remark = "") {
    if (found != expected) differ(field, found, expected, remark);
  }
  void check_count(const std::string& field, std::int64_t found, std::int64_t expected,
                   const std::string& remark = "") {
    if (found != expected) differ(field, concat(found), concat(expected), remark);
  }
  void check_number(const std::string& field, double found, double expected) {
    const double scale = std::max(std::abs(found), std::abs(expected));
    // Below a billionth, as of a bubble of 0 that rounding made 1e-17, numbers are equal.
    if (std::abs(found - expected) <= std::max(options_.tolerance * scale, 1e-12)) return;
    differ(field, shortest(found), shortest(expected));
  }
  void check_time(const std::string& field, Seconds found, Seconds expected) {
    check_number(field, found.value(), expected.value());
  }
  void check_bytes(const std::string& field, Bytes found, Bytes expected) {
    check_count(field, found.count(), expected.count());
  }

  void check_inputs();
  void check_batch();
  void check_structure();
  void check_pipeline(std::size_t p);
  void check_chunks(std::size_t p);
  void check_chunk_sizes(std::size_t p);
  void check_asynchronous(std::size_t p);
  void check_stage(std::size_t p, std::size_t s, std::map<DevicePlace, std::string>& used);
  void check_nodes(const std::string& path, const StagePlan& stage);
  void check_recompute(const std::string& path, const PipelinePlan& pipeline, const StagePlan& stage);
  void check_idle();
  void check_constraints();
  void check_placement();
  void check_bound();
  void derive_bound();
  void recompute();
  void compare(const Plan& expected);
  void compare_stage(const std::string& path, const StagePlan& found, const StagePlan& expected, bool is_last);
  void compare_chunks(const std::string& path, const StagePlan& found, const StagePlan& expected);
  void compare_memory(const std::string& path, const StagePlan& found, const StagePlan& expected);
  void compare_sync(const GradientSync& found, const GradientSync& expected);
  void compare_group(const std::string& path, const GradientGroup& found, const GradientGroup& expected);

  const Problem& problem_;
  PlanFile& file_;
  const Plan& plan_;
  const JudgeOptions& options_;
  Judgement judgement_;
  bool sound_ = true;
};

void Judge::check_inputs() {
  const PlanProblem expected = stamp_problem(problem_);
  const PlanProblem& found = file_.problem;
  const std::string other = "the plan was made from other data";
  check_text("problem.model.name", found.model.name, expected.model.name);
  check_text("problem.model.digest", found.model.digest, expected.model.digest, other);
  check_text("problem.cluster.name", found.cluster.name, expected.cluster.name);
  check_text("problem.cluster.digest", found.cluster.digest, expected.cluster.digest, other);
  check_text("problem.profile.names", join(found.profiles, ", "), join(expected.profiles, ", "));
  check_text("problem.profile.digest", found.profile_digest, expected.profile_digest, other);
}

void Judge::check_batch() {
  std::int64_t samples = 0;
  for (const PipelinePlan& pipeline : plan_.pipelines) {
    samples += static_cast<std::int64_t>(pipeline.micro_batch) * pipeline.micro_batches;
  }
  check_count("problem.global_batch", file_.problem.job.global_batch, samples,
              "the sum of micro_batch * micro_batches over the pipelines");
}

void Judge::check_structure() {
  for (Difference& difference : place_on(problem_.cluster, file_)) {
    sound_ = false;
    judgement_.differences.push_back(std::move(difference));
  }
  std::map<DevicePlace, std::string> used;
  for (std::size_t p = 0; p < plan_.pipelines.size(); ++p) {
    check_pipeline(p);
    for (std::size_t s = 0; s < plan_.pipelines[p].stages.size(); ++s) check_stage(p, s, used);
  }
}

void Judge::check_pipeline(std::size_t p) {
  const PipelinePlan& pipeline = plan_.pipelines[p];
  const std::string path = concat("pipelines[", p, "]");
  int next = 0;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const LayerRange layers = pipeline.stages[s].layers;
    if (layers.first != next) {
      unsound(stage_path(p, s) + ".layers", concat("[", layers.first, ", ", layers.last, ")"),
              concat("a range from ", next, " on"), "the stages must hold every layer exactly once, in order");
    }
    next = layers.last;
  }
  const int count = problem_.model.layer_count();
  if (next != count) {
    unsound(path, concat(next, " layers"), concat(count, " layers"),
            concat("embedding, ", count - 2, " blocks and head of ", problem_.model.name));
  }
  const auto& families = schedule_families();
  const bool known = std::any_of(families.begin(), families.end(),
                                 [&](const ScheduleFamily& family) { return family.name == pipeline.schedule; });
  if (!known) {
    unsound(path + ".schedule", pipeline.schedule, "a schedule family, such as 1f1b");
    return;
  }
  check_chunks(p);
  check_asynchronous(p);
}

/// The chunks of each path hold every layer exactly once, and there are as many as the schedule runs.
void Judge::check_chunks(std::size_t p) {
  const PipelinePlan& pipeline = plan_.pipelines[p];
  const ScheduleFamily& family = schedule_family(pipeline.schedule);
  const bool has_chunks = family.arrangement != Arrangement::OnePerDevice;
  const int stages = static_cast<int>(pipeline.stages.size());
  int count = chunks_of(family.arrangement, stages);
  if (family.arrangement == Arrangement::Loop) count = static_cast<int>(pipeline.stages.front().chunks.size());
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const int found = static_cast<int>(pipeline.stages[s].chunks.size());
    const int expected = has_chunks ? std::max(1, count) : 0;
    if (found != expected && !(family.arrangement == Arrangement::Free && found > 0)) {
      unsound(stage_path(p, s) + ".chunks", concat(found), concat(expected),
              concat("what ", pipeline.schedule, " puts on a device of this pipeline"));
      return;
    }
  }
  if (!has_chunks) return;
  for (const std::vector<PartPlace>& path : part_paths(pipeline)) {
    int next = 0;
    for (const PartPlace& part : path) {
      const auto stage = static_cast<std::size_t>(part.device);
      const LayerRange layers = pipeline.stages[stage].chunks[static_cast<std::size_t>(part.chunk)].layers;
      if (layers.first != next || layers.size() < 1) {
        unsound(concat(stage_path(p, stage), ".chunks[", part.chunk, "].layers"),
                concat("[", layers.first, ", ", layers.last, ")"), concat("a range from ", next, " on"),
                "the chunks must hold every layer exactly once, in the order in which a micro-batch visits them");
        return;
      }
      next = layers.last;
    }
    if (next != problem_.model.layer_count()) {
      unsound(concat("pipelines[", p, "]"), concat(next, " layers in chunks"),
              concat(problem_.model.layer_count(), " layers"));
      return;
    }
  }
  check_chunk_sizes(p);
}

/// What a stage says it holds and what its chunks hold.
void Judge::check_chunk_sizes(std::size_t p) {
  const PipelinePlan& pipeline = plan_.pipelines[p];
  const bool replicas = holds_replicas(schedule_family(pipeline.schedule).arrangement);
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const StagePlan& stage = pipeline.stages[s];
    const std::string path = stage_path(p, s) + ".layers";
    if (replicas) {
      const LayerRange own = stage.chunks.front().layers;
      if (stage.layers != own) {
        unsound(path, concat("[", stage.layers.first, ", ", stage.layers.last, ")"),
                concat("[", own.first, ", ", own.last, ")"), "the layers of the first chunk");
      }
      continue;
    }
    int size = 0;
    for (const ChunkPlan& chunk : stage.chunks) size += chunk.layers.size();
    if (stage.layers.size() != size) {
      unsound(path, concat(stage.layers.size(), " layers"), concat(size, " layers"), "as many as the chunks together");
    }
  }
}

void Judge::check_asynchronous(std::size_t p) {
  const PipelinePlan& pipeline = plan_.pipelines[p];
  const bool asynchronous = schedule_family(pipeline.schedule).stepping == Stepping::Asynchronous;
  const std::string path = concat("pipelines[", p, "].accumulation");
  const int expected = asynchronous ? pipeline.micro_batches : 0;
  if (pipeline.accumulation != expected) {
    unsound(path, concat(pipeline.accumulation), concat(expected),
            asynchronous ? "an update takes the pipeline's micro-batches of one global batch"
                         : "the schedule is synchronous");
  }
  const std::optional<int> limit = file_.problem.job.max_drift;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    if (!asynchronous || !limit || pipeline.stages[s].drift <= *limit) continue;
    differ(stage_path(p, s) + ".drift", concat(pipeline.stages[s].drift), concat("at most ", *limit),
           "the job's own constraint");
  }
}

void Judge::check_stage(std::size_t p, std::size_t s, std::map<DevicePlace, std::string>& used) {
  const PipelinePlan& pipeline = plan_.pipelines[p];
  const StagePlan& stage = pipeline.stages[s];
  const std::string path = stage_path(p, s);
  for (const DevicePlace& place : stage.devices) {
    const auto [other, added] = used.emplace(place, path);
    if (!added) {
      unsound(path + ".devices", to_text(name_of(problem_.cluster, place)), "a device that no other stage uses",
              other->second + " uses it too");
    }
  }
  const auto devices = static_cast<std::int64_t>(file_.placements[p][s].devices.size());
  const std::int64_t degrees = static_cast<std::int64_t>(stage.tensor_parallel) * stage.data_parallel;
  if (devices != degrees) {
    unsound(path + ".devices", concat(devices, " devices"), concat(degrees, " devices"),
            concat("tensor_parallel ", stage.tensor_parallel, " times data_parallel ", stage.data_parallel));
  }
  if (pipeline.micro_batch % stage.data_parallel != 0) {
    unsound(path + ".data_parallel", concat(stage.data_parallel),
            concat("a divisor of micro_batch ", pipeline.micro_batch));
    return;
  }
  const std::string fault = tensor_parallel_fault(problem_.model, stage.tensor_parallel);
  if (!fault.empty()) {
    unsound(path + ".tensor_parallel", concat(stage.tensor_parallel), "a degree that the model allows", fault);
  }
  if (!sound_) return;
  check_nodes(path, stage);
  if (!problem_.costs.has(stage.node_group, stage.tensor_parallel, pipeline.micro_batch / stage.data_parallel)) {
    unsound(path + ".tensor_parallel", concat(stage.tensor_parallel), "a degree that fits the node group",
            concat("or micro_batch is above ", kMostSamples));
    return;
  }
  check_recompute(path, pipeline, stage);
}

void Judge::check_nodes(const std::string& path, const StagePlan& stage) {
  if (file_.problem.job.constraints.tensor_parallel_across_nodes) return;
  const auto tp = static_cast<std::size_t>(stage.tensor_parallel);
  for (std::size_t first = 0; first + tp <= stage.devices.size(); first += tp) {
    for (std::size_t d = first; d < first + tp; ++d) {
      if (stage.devices[d].node == stage.devices[first].node) continue;
      unsound(path + ".tensor_parallel",
              concat("a group over ", node_name(problem_.cluster, stage.devices[first]), " and ",
                     node_name(problem_.cluster, stage.devices[d])),
              "groups inside one node", "the job does not let tensor parallelism leave a node");
      return;
    }
  }
}

void Judge::check_recompute(const std::string& path, const PipelinePlan& pipeline, const StagePlan& stage) {
  const std::vector<LayerRange> parts = held_parts(stage);
  for (const RecomputeRange& range : stage.recompute) {
    const bool inside = std::any_of(parts.begin(), parts.end(), [&](const LayerRange& part) {
      return part.first <= range.layers.first && range.layers.last <= part.last;
    });
    if (inside) continue;
    unsound(path + ".recompute", concat("layers [", range.layers.first, ", ", range.layers.last, ")"),
            stage.chunks.empty() ? concat("layers inside [", stage.layers.first, ", ", stage.layers.last, ")")
                                 : "layers inside one chunk");
    return;
  }
  try {
    for (const LayerRange& part : parts) {
      (void)recompute_counts(problem_, part_query(pipeline, stage, part), recompute_inside(stage, part));
    }
  } catch (const InputError& error) {
    unsound(path + ".recompute", error.diagnostics().front().message, "operators that this layer can recompute");
  }
}

void Judge::check_idle() {
  if (!sound_) return;
  std::vector<DevicePlace> listed = plan_.idle_devices;
  std::sort(listed.begin(), listed.end());
  std::vector<bool> used(static_cast<std::size_t>(problem_.cluster.device_count()), false);
  for (const PipelinePlan& pipeline : plan_.pipelines) {
    for (const StagePlan& stage : pipeline.stages) {
      for (const DevicePlace& place : stage.devices)
        used[static_cast<std::size_t>(rank_of(problem_.cluster, place))] = true;
    }
  }
  for (int rank = 0; rank < problem_.cluster.device_count(); ++rank) {
    const DevicePlace place = place_of_rank(problem_.cluster, rank);
    const auto times = std::count(listed.begin(), listed.end(), place);
    const int expected = used[static_cast<std::size_t>(rank)] ? 0 : 1;
    if (times == expected) continue;
    differ("idle_devices", concat(to_text(name_of(problem_.cluster, place)), " listed ", times, " times"),
           concat("listed ", expected, " times"), expected == 0 ? "a stage uses it" : "no stage uses it");
  }
}

void Judge::check_constraints() {
  const Job& job = file_.problem.job;
  const Constraints& limits = job.constraints;
  const auto pipelines = static_cast<int>(plan_.pipelines.size());
  const std::string remark = "the job's own constraint";
  if (!limits.pipelines.allows(pipelines))
    differ("pipelines", concat(pipelines), "a number that the job allows", remark);
  const auto one_of = [](const auto& list, const auto& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  for (std::size_t p = 0; p < plan_.pipelines.size(); ++p) {
    const PipelinePlan& pipeline = plan_.pipelines[p];
    const std::string path = concat("pipelines[", p, "]");
    const auto stages = static_cast<int>(pipeline.stages.size());
    if (!limits.stages.allows(stages)) differ(path + ".stages", concat(stages), "a number that the job allows", remark);
    if (!one_of(job.micro_batches, pipeline.micro_batch)) {
      differ(path + ".micro_batch", concat(pipeline.micro_batch), "one of problem.micro_batch", remark);
    }
    if (!one_of(job.schedules, pipeline.schedule)) {
      differ(path + ".schedule", pipeline.schedule, "one of " + join(job.schedules, ", "), remark);
    }
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
      const StagePlan& stage = pipeline.stages[s];
      if (!limits.tensor_parallel.empty() && !one_of(limits.tensor_parallel, stage.tensor_parallel)) {
        differ(stage_path(p, s) + ".tensor_parallel", concat(stage.tensor_parallel), "a degree that the job allows",
               remark);
      }
      if (!limits.allow_recompute && !stage.recompute.empty()) {
        differ(stage_path(p, s) + ".recompute", "recomputation", "none", remark);
      }
      if (!sound_) continue;
      const NodeGroup& group = problem_.cluster.node_groups[static_cast<std::size_t>(stage.node_group)];
      const int part = static_cast<int>(stage.devices.size()) % group.devices_per_node;
      if (limits.whole_nodes && part != 0) {
        differ(stage_path(p, s) + ".devices", concat(stage.devices.size(), " devices"), "whole nodes", remark);
      }
      const int type =
          problem_.cluster.node_groups[static_cast<std::size_t>(pipeline.stages[0].node_group)].device_type;
      if (limits.type_pure && group.device_type != type) {
        differ(stage_path(p, s) + ".node_group", group.name, "the device type of the first stage", remark);
      }
    }
  }
}

void Judge::check_placement() {
  const std::vector<PlacementRule>& rules = file_.problem.job.constraints.placement;
  const std::vector<RuleFault> faults = rule_faults(rules, problem_.model, problem_.cluster);
  for (const RuleFault& fault : faults) {
    differ(concat("problem.constraints.", to_text(fault.kind)), fault.message, "rules that some plan keeps",
           fault.hint);
  }
  if (rules.empty() || !faults.empty() || !sound_) return;
  const std::string remark = "the job's own constraint";
  const AllowedPlaces places(rules, problem_.model, problem_.cluster);
  for (std::size_t p = 0; p < plan_.pipelines.size(); ++p) {
    for (std::size_t s = 0; s < plan_.pipelines[p].stages.size(); ++s) {
      const StagePlan& stage = plan_.pipelines[p].stages[s];
      for (const LayerRange& part : held_parts(stage)) {
        if (places.may_hold(stage.node_group, part)) continue;
        differ(stage_path(p, s) + ".layers", concat("[", part.first, ", ", part.last, ")"),
               concat("layers that the job lets ",
                      problem_.cluster.node_groups[static_cast<std::size_t>(stage.node_group)].name, " hold"),
               remark);
      }
      const auto barred = std::find_if(stage.devices.begin(), stage.devices.end(),
                                       [&](const DevicePlace& place) { return !places.may_use(place); });
      if (barred == stage.devices.end()) continue;
      differ(stage_path(p, s) + ".devices", to_text(name_of(problem_.cluster, *barred)), "devices that the job allows",
             remark);
    }
  }
}

void Judge::check_bound() {
  if (!(plan_.lower_bound > Seconds{0.0})) {
    differ("lower_bound_s", shortest(plan_.lower_bound.value()), "a time above 0");
    return;
  }
  if (std::abs(file_.figures.gap - plan_.gap()) > std::max(options_.tolerance, 1e-9)) {
    differ("gap", shortest(file_.figures.gap), shortest(plan_.gap()), "iteration_time_s / lower_bound_s - 1");
  }
  if (plan_.lower_bound > plan_.iteration_time * (1.0 + 1e-9)) {
    judgement_.bound = BoundVerdict::Wrong;
    differ("lower_bound_s", shortest(plan_.lower_bound.value()),
           concat("at most iteration_time_s ", shortest(plan_.iteration_time.value())));
    return;
  }
  if (sound_) derive_bound();
}

void Judge::derive_bound() {
  const std::optional<Seconds> work = work_bound(problem_, file_.problem.job);
  if (!work) return;
  judgement_.work_bound = *work;
  if (plan_.lower_bound <= *work * (1.0 + options_.tolerance)) {
    judgement_.bound = BoundVerdict::Derived;
  } else if (plan_.bound_kind == BoundKind::Search) {
    judgement_.bound = BoundVerdict::Accepted;
  } else {
    judgement_.bound = BoundVerdict::Wrong;
    differ("lower_bound_s", shortest(plan_.lower_bound.value()), concat("at most ", shortest(work->value())),
           "the work of the batch over the best rates of all devices, by which bound_kind says it is proved");
  }
}

void Judge::recompute() {
  try {
    const Plan expected = evaluate(problem_, plan_.pipelines);
    judgement_.recomputed = true;
    compare(expected);
  } catch (const InputError& error) {  // a schedule that refuses this number of stages or micro-batches
    for (const Diagnostic& diagnostic : error.diagnostics()) {
      differ("pipelines", diagnostic.field, "a schedule that can run", diagnostic.message);
    }
  }
}

void Judge::compare(const Plan& expected) {
  for (std::size_t p = 0; p < plan_.pipelines.size(); ++p) {
    const PipelinePlan& found = plan_.pipelines[p];
    const PipelinePlan& right = expected.pipelines[p];
    const std::string path = concat("pipelines[", p, "]");
    for (std::size_t s = 0; s < found.stages.size(); ++s) {
      compare_stage(stage_path(p, s), found.stages[s], right.stages[s], s + 1 == found.stages.size());
    }
    check_time(path + ".time_s", found.time, right.time);
    check_number(path + ".bubble", found.bubble, right.bubble);
    check_number(concat("balance.intra_pipeline[", p, "]"), plan_.intra_pipeline_imbalance[p],
                 expected.intra_pipeline_imbalance[p]);
  }
  check_number("balance.inter_pipeline", plan_.inter_pipeline_imbalance, expected.inter_pipeline_imbalance);
  compare_sync(plan_.gradient_sync, expected.gradient_sync);
  check_time("pipeline_time_s", plan_.pipeline_time, expected.pipeline_time);
  check_time("gradient_sync_time_s", plan_.gradient_sync_time, expected.gradient_sync_time);
  check_time("optimizer_time_s", plan_.optimizer_time, expected.optimizer_time);
  check_time("iteration_time_s", plan_.iteration_time, expected.iteration_time);
  Plan bounded = expected;
  bounded.lower_bound = plan_.lower_bound;
  const PlanFigures figures = plan_figures(problem_, bounded);
  check_number("samples_per_s", file_.figures.samples_per_s, figures.samples_per_s);
  check_number("tokens_per_s", file_.figures.tokens_per_s, figures.tokens_per_s);
  check_number("mfu", file_.figures.mfu, figures.mfu);
}

void Judge::compare_stage(const std::string& path, const StagePlan& found, const StagePlan& expected, bool is_last) {
  check_time(path + ".forward_s", found.forward, expected.forward);
  check_time(path + ".backward_s", found.backward, expected.backward);
  check_time(path + ".weight_gradient_s", found.weight_gradient, expected.weight_gradient);
  compare_chunks(path, found, expected);
  if (!is_last) check_time(path + ".link_s", found.link, expected.link);
  check_count(path + ".in_flight", found.in_flight, expected.in_flight);
  check_count(path + ".weight_copies", found.weight_copies, expected.weight_copies);
  check_count(path + ".drift", found.drift, expected.drift);
  check_text(path + ".provenance", to_text(found.provenance), to_text(expected.provenance));
  compare_memory(path + ".memory_bytes", found, expected);
}

void Judge::compare_chunks(const std::string& path, const StagePlan& found, const StagePlan& expected) {
  for (std::size_t c = 0; c < found.chunks.size(); ++c) {
    const std::string chunk = concat(path, ".chunks[", c, "]");
    check_time(chunk + ".forward_s", found.chunks[c].forward, expected.chunks[c].forward);
    check_time(chunk + ".backward_s", found.chunks[c].backward, expected.chunks[c].backward);
    check_time(chunk + ".weight_gradient_s", found.chunks[c].weight_gradient, expected.chunks[c].weight_gradient);
    check_time(chunk + ".link_s", found.chunks[c].link, expected.chunks[c].link);
  }
}

void Judge::compare_memory(const std::string& path, const StagePlan& found, const StagePlan& expected) {
  check_bytes(path + ".parameters", found.memory.parameters, expected.memory.parameters);
  check_bytes(path + ".gradients", found.memory.gradients, expected.memory.gradients);
  check_bytes(path + ".optimizer", found.memory.optimizer, expected.memory.optimizer);
  check_bytes(path + ".activations", found.memory.activations, expected.memory.activations);
  check_bytes(path + ".workspace", found.memory.workspace, expected.memory.workspace);
  check_bytes(path + ".other", found.memory.other, expected.memory.other);
  check_bytes(path + ".capacity", found.capacity, expected.capacity);
  const Bytes over = expected.memory.total() - expected.capacity;
  if (over > Bytes{0}) {
    differ(path + ".total", concat(expected.memory.total().count()), concat("at most ", expected.capacity.count()),
           concat("does not fit: ", over.count(), " bytes too many"));
  }
}

void Judge::compare_sync(const GradientSync& found, const GradientSync& expected) {
  check_text("gradient_sync.method", to_text(found.method), to_text(expected.method));
  check_time("gradient_sync.time_s", found.time, expected.time);
  check_time("gradient_sync.device_wise_s", found.device_wise, expected.device_wise);
  check_time("gradient_sync.tensor_wise_s", found.tensor_wise, expected.tensor_wise);
  check_time("gradient_sync.block_wise_s", found.block_wise, expected.block_wise);
  if (found.groups.size() != expected.groups.size()) {
    differ("gradient_sync.groups", concat(found.groups.size(), " groups"), concat(expected.groups.size(), " groups"));
    return;
  }
  for (std::size_t g = 0; g < found.groups.size(); ++g) {
    compare_group(concat("gradient_sync.groups[", g, "]"), found.groups[g], expected.groups[g]);
  }
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::vector<std::string> texts;
  for (const int rank : ranks) texts.push_back(concat(rank));
  return concat("{", join(texts, ", "), "}");
}

std::string block_text(const GradientBlock& block) {
  return concat("layer ", block.layer, " [", shortest(block.begin), ", ", shortest(block.end), ")");
}

void Judge::compare_group(const std::string& path, const GradientGroup& found, const GradientGroup& expected) {
  if (found.ranks != expected.ranks) {
    differ(path + ".ranks", ranks_text(found.ranks), ranks_text(expected.ranks));
    return;
  }
  check_bytes(path + ".bytes", found.bytes, expected.bytes);
  if (found.blocks.size() != expected.blocks.size()) {
    differ(path + ".blocks", concat(found.blocks.size(), " blocks"), concat(expected.blocks.size(), " blocks"));
    return;
  }
  for (std::size_t b = 0; b < found.blocks.size(); ++b) {
    const GradientBlock& block = found.blocks[b];
    const GradientBlock& right = expected.blocks[b];
    const bool same = block.layer == right.layer && std::abs(block.begin - right.begin) <= 1e-9 &&
                      std::abs(block.end - right.end) <= 1e-9;
    if (!same) differ(concat(path, ".blocks[", b, "]"), block_text(block), block_text(right));
  }
}

}  // namespace

const char* to_text(BoundVerdict verdict) {
  switch (verdict) {
    case BoundVerdict::NotLookedAt: return "not looked at";
    case BoundVerdict::Derived: return "derived";
    case BoundVerdict::Accepted: return "accepted";
    case BoundVerdict::Wrong: return "wrong";
  }
  return "";
}

Job job_to_judge(const PlanFile& file) {
  Job job = file.problem.job;
  job.micro_batches.clear();
  for (const PipelinePlan& pipeline : file.plan.pipelines) {
    if (pipeline.micro_batch <= kMostSamples) job.micro_batches.push_back(pipeline.micro_batch);
  }
  if (job.micro_batches.empty()) job.micro_batches = {1};
  const bool across = job.constraints.tensor_parallel_across_nodes;
  job.constraints = {};
  job.constraints.tensor_parallel_across_nodes = across;
  return job;
}

Judgement judge_plan(const Problem& problem, PlanFile& file, const JudgeOptions& options) {
  return Judge(problem, file, options).run();
}

}  // namespace hpplan
