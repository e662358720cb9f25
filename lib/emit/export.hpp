#pragma once

#include <functional>
#include <string>
#include <vector>

#include "domain/cluster.hpp"
#include "domain/model.hpp"
#include "domain/plan.hpp"

namespace hpplan {

struct ExportFile {
  std::string path;  // below the output folder
  std::string text;
};

/// What to export and how far the export may depart from it.
struct ExportRequest {
  const Plan& plan;
  const ModelSpec& model;
  const ClusterSpec& cluster;
  std::string plan_file;     // name of the plan in messages
  bool approximate = false;  // replace what the target cannot carry, and say so
  bool per_node = false;     // targets that allow it: one argument file per node where stages differ
  /// Fills in the numbers of changed pipelines: the price of an approximation. Needed when `approximate` is set.
  std::function<Plan(std::vector<PipelinePlan>)> evaluate;
};

/// One departure from the plan, with the predicted iteration time before and after.
struct ExportChange {
  std::string text;
  Seconds before;
  Seconds after;
};

struct ExportResult {
  std::vector<ExportFile> files;
  std::vector<ExportChange> changes;  // empty unless approximated
  std::vector<std::string> notes;     // what the user has to know to use the files
};

/// One framework. `write` throws InputError that names every field and stage the target cannot carry.
struct ExportTarget {
  const char* name;
  const char* summary;
  ExportResult (*write)(const ExportRequest&);
};

/// All targets, in the order in which help and documents list them.
[[nodiscard]] const std::vector<ExportTarget>& export_targets();

/// The target called `name`; throws InputError with the nearest name when there is none.
[[nodiscard]] const ExportTarget& export_target(const std::string& name);

/// "recompute of stage 2 rounded up to whole layers: 1.20 s instead of 1.15 s (+4.3 %)".
[[nodiscard]] std::string to_text(const ExportChange& change);

// One per file export_<name>.cpp.
[[nodiscard]] ExportResult export_torch(const ExportRequest& request);
[[nodiscard]] ExportResult export_megatron(const ExportRequest& request);
[[nodiscard]] ExportResult export_flagscale(const ExportRequest& request);
[[nodiscard]] ExportResult export_hetu(const ExportRequest& request);
[[nodiscard]] ExportResult export_galvatron(const ExportRequest& request);
[[nodiscard]] ExportResult export_mindformers(const ExportRequest& request);
[[nodiscard]] ExportResult export_metis(const ExportRequest& request);
[[nodiscard]] ExportResult export_slurm(const ExportRequest& request);

}  // namespace hpplan
