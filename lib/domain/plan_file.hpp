#pragma once

#include <string>
#include <vector>

#include "domain/cluster.hpp"
#include "domain/job.hpp"
#include "domain/plan.hpp"

namespace hpplan {

inline constexpr const char* kPlanFormat = "hpplan-plan";
inline constexpr int kPlanVersion = 1;

/// Name and fingerprint of an input that a plan was made from.
struct InputStamp {
  std::string name;
  std::string digest;

  friend bool operator==(const InputStamp&, const InputStamp&) = default;
};

/// The problem that a plan answers: which inputs, and the whole job.
struct PlanProblem {
  InputStamp model;
  InputStamp cluster;
  std::vector<std::string> profiles;  // names
  std::string profile_digest;         // of all profiles together
  Job job;
};

/// A device as files name it.
struct DeviceName {
  std::string node;
  int device = 0;

  friend auto operator<=>(const DeviceName&, const DeviceName&) = default;
};

/// Where a stage lies, as files name it.
struct StagePlacement {
  std::string node_group;
  std::vector<DeviceName> devices;  // TP groups are consecutive
  std::vector<int> ranks;           // of `devices`, in the same order
};

/// What a plan file says besides what its parts already say.
struct PlanFigures {
  double gap = 0.0;
  double samples_per_s = 0.0;
  double tokens_per_s = 0.0;
  double mfu = 0.0;
};

/// A plan as it stands in a file. Devices go by name, because a file can be read without its cluster: the plan's own
/// `node_group`, `devices` and `idle_devices` are empty until `place_on` looks the names up.
struct PlanFile {
  PlanProblem problem;
  Plan plan;
  std::vector<std::vector<StagePlacement>> placements;  // [pipeline][stage]
  std::vector<DeviceName> idle_devices;
  PlanFigures figures;
};

/// Something in a plan that is not as it should be: `found` in the file where `expected` is right.
struct Difference {
  std::string field;  // path such as "pipelines[0].stages[1].forward_s"
  std::string found;
  std::string expected;
  std::string remark;  // why, where the two texts do not say it; may be empty

  friend bool operator==(const Difference&, const Difference&) = default;
};

/// Looks up every device of the file in `cluster` and fills in the plan's places. What is not there, is in another node
/// group than the stage or has another rank is returned; the plan may be evaluated only if nothing is.
[[nodiscard]] std::vector<Difference> place_on(const ClusterSpec& cluster, PlanFile& file);

/// The names of devices that the plan uses, from their places.
[[nodiscard]] StagePlacement placement_of(const ClusterSpec& cluster, const StagePlan& stage);
[[nodiscard]] DeviceName name_of(const ClusterSpec& cluster, const DevicePlace& place);

/// "node-0:3".
[[nodiscard]] std::string to_text(const DeviceName& device);

[[nodiscard]] const char* to_text(OptimizerSharding sharding);

/// "pipelines[0].stages[1]".
[[nodiscard]] std::string stage_path(std::size_t pipeline, std::size_t stage);

}  // namespace hpplan
