#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/diagnostic.hpp"
#include "emit/export.hpp"

namespace hpplan::detail {

/// Everything a target cannot carry, collected so that the user sees all of it at once.
class Refusals {
 public:
  Refusals(const ExportRequest& request, std::string target) : file_(request.plan_file), target_(std::move(target)) {}

  /// `field` of a stage, such as "data_parallel"; `stage` < 0 means a field of the pipeline, `pipeline` < 0 of the
  /// plan.
  void add(int pipeline, int stage, const std::string& field, const std::string& message, const std::string& hint = "");
  [[nodiscard]] bool empty() const { return faults_.empty(); }
  /// Throws InputError if anything was refused.
  void finish() const;

 private:
  std::string file_;
  std::string target_;
  std::vector<Diagnostic> faults_;
};

/// A plan that a target with one logical pipeline can carry: equal pipelines become data parallelism.
///   micro_batch    samples of all pipelines together
///   stages         data_parallel and devices of all pipelines together, pipeline by pipeline
struct OnePipeline {
  int micro_batch = 0;
  int micro_batches = 0;
  std::string schedule;
  std::vector<StagePlan> stages;

  [[nodiscard]] int stage_count() const { return static_cast<int>(stages.size()); }
};

/// Merges equal pipelines; refuses pipelines that differ, naming the first field in which they do.
[[nodiscard]] OnePipeline merge_pipelines(const std::vector<PipelinePlan>& pipelines, Refusals& refusals);

/// Blocks (without embedding and head) of a stage.
[[nodiscard]] LayerRange blocks_of(const StagePlan& stage, const ModelSpec& model);

/// Operators that the stage recomputes in `layer`.
[[nodiscard]] std::set<std::string> recomputed_operators(const StagePlan& stage, int layer);

enum class RecomputeLevel { None, Partial, Full };
[[nodiscard]] RecomputeLevel recompute_level(const StagePlan& stage, int layer, const ModelSpec& model);

/// Number of blocks of the stage that are recomputed as a whole.
[[nodiscard]] int full_recompute_count(const StagePlan& stage, const ModelSpec& model);

/// Sets operators of `layers` of a stage; ranges of layers with the same operators are joined.
void set_recompute(StagePlan& stage, const std::vector<std::set<std::string>>& operators_by_layer,
                   const ModelSpec& model);

/// The pipelines of a plan on the way to a target, and the price of each departure.
class Approximation {
 public:
  Approximation(const ExportRequest& request, Refusals& refusals)
      : request_(request), refusals_(refusals), pipelines_(request.plan.pipelines) {}

  [[nodiscard]] const std::vector<PipelinePlan>& pipelines() const { return pipelines_; }
  [[nodiscard]] const std::vector<ExportChange>& changes() const { return changes_; }

  /// Refuses schedules other than those in `allowed`, or replaces them by the first of it.
  void require_schedule(const std::vector<std::string>& allowed);
  /// Refuses layers that are recomputed in part, or rounds them up to whole layers.
  void require_whole_layers();
  /// Takes `changed` as the plan and prices it; refuses it if it does not fit the devices.
  void accept(std::vector<PipelinePlan> changed, const std::string& text);
  /// Plan of `changed`, priced. Only when approximations are allowed.
  [[nodiscard]] Plan price(std::vector<PipelinePlan> changed) const;
  [[nodiscard]] bool allowed() const { return request_.approximate; }

 private:
  const ExportRequest& request_;
  Refusals& refusals_;
  std::vector<PipelinePlan> pipelines_;
  std::vector<ExportChange> changes_;
};

/// True if every stage fits its devices.
[[nodiscard]] bool fits(const Plan& plan);

/// All blocks of one kind and shape: the kind. Targets with one layer shape refuse others; null after a refusal.
[[nodiscard]] const LayerKind* uniform_block(const ModelSpec& model, Refusals& refusals);

/// Devices in rank order, and the files that place them.
class LaunchTable {
 public:
  LaunchTable(const ClusterSpec& cluster, std::vector<DevicePlace> places)
      : cluster_(cluster), places_(std::move(places)) {}

  [[nodiscard]] const std::vector<DevicePlace>& places() const { return places_; }
  [[nodiscard]] int world_size() const { return static_cast<int>(places_.size()); }
  /// Launch rank of a device; -1 if it is idle.
  [[nodiscard]] int rank_of_place(const DevicePlace& place) const;
  /// One line per rank: rank, node, device.
  [[nodiscard]] ExportFile rank_file() const;

  /// Consecutive ranks on one node.
  struct Run {
    std::string node;
    int group = 0;
    int first_rank = 0;
    std::vector<int> devices;
  };
  [[nodiscard]] std::vector<Run> runs() const;

 private:
  const ClusterSpec& cluster_;
  std::vector<DevicePlace> places_;
};

/// Devices stage by stage.
[[nodiscard]] std::vector<DevicePlace> places_of(const std::vector<StagePlan>& stages);

/// Pipeline by pipeline, stage by stage.
[[nodiscard]] std::vector<DevicePlace> places_of(const std::vector<PipelinePlan>& pipelines);

/// "a, b and c".
[[nodiscard]] std::string listed(const std::vector<std::string>& words);

/// "1, 2, 3".
[[nodiscard]] std::string numbers(const std::vector<int>& values, const char* separator = ", ");

}  // namespace hpplan::detail
