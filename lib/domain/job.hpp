#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "domain/placement_rule.hpp"

namespace hpplan {

/// Inclusive range of allowed values; max < 0 means no upper limit.
struct CountLimit {
  int min = 1;
  int max = -1;

  [[nodiscard]] bool allows(int value) const { return value >= min && (max < 0 || value <= max); }
  friend bool operator==(const CountLimit&, const CountLimit&) = default;
};

/// What the user allows. Everything here cuts the search space.
struct Constraints {
  CountLimit pipelines;
  CountLimit stages;                 // per pipeline
  std::vector<int> tensor_parallel;  // allowed degrees; empty: every degree the model and the nodes allow
  bool tensor_parallel_across_nodes = false;
  bool whole_nodes = false;  // stages use whole nodes only
  int part_unit = 1;         // parts of nodes are multiples of so many devices; set by searches of large clusters
  bool type_pure = false;    // a pipeline uses one device type only (TypeSplit)
  bool allow_recompute = true;
  std::vector<PlacementRule> placement;  // devices that may not, or alone may, hold certain layers

  friend bool operator==(const Constraints&, const Constraints&) = default;
};

enum class OptimizerSharding { None, StageDataParallel };

/// What to plan for: one optimizer step over `global_batch` samples.
struct Job {
  int global_batch = 0;
  std::vector<int> micro_batches = {1, 2, 4, 8, 16, 32, 64};  // allowed micro-batch sizes, ascending
  std::vector<std::string> schedules = {"1f1b"};
  std::optional<int> max_drift;         // asynchronous schedules: updates allowed between forward and backward
  double tolerance = 0.0;               // alpha: the plan is within (1+alpha) of the optimum
  Bytes memory_margin;                  // kept free on every device
  Bytes framework_overhead{1LL << 30};  // context, libraries, allocator: on every device
  OptimizerSharding optimizer_sharding = OptimizerSharding::None;
  bool overlap_gradient_sync = false;  // hide the gradient All-Reduce in the pipelines' drain where it fits
  Constraints constraints;
};

}  // namespace hpplan
