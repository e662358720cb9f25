#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "domain/job.hpp"

namespace hpplan {

/// One planning problem of a sweep: names of its inputs, and what to plan for. `settings` are the values that the sweep
/// varies or fixes, as text, in the order of the specification: they identify the point to people and to a later run.
struct SweepPoint {
  int index = 0;      // place in the whole sweep, whatever the shard
  std::string model;  // file or shipped name
  std::string cluster;
  std::vector<std::string> profiles;
  int sequence = 0;  // 0: that of the model
  Job job;
  std::vector<std::pair<std::string, std::string>> settings;
};

enum class SweepStatus { Planned, Infeasible, Broken };

[[nodiscard]] const char* to_text(SweepStatus status);

/// What a point came to. Holds no time, host or path: two runs of a sweep give the same lines.
struct SweepOutcome {
  SweepStatus status = SweepStatus::Broken;
  std::string reason;  // why there is no plan; "" when there is one
  Seconds iteration_time;
  Seconds lower_bound;
  double samples_per_second = 0.0;
  int devices = 0;  // of the cluster
  int used_devices = 0;
  int pipelines = 0;
  std::string plan;  // "2x (4 stages, b 8, m 64, 1f1b)"

  friend bool operator==(const SweepOutcome&, const SweepOutcome&) = default;
};

/// A point and its outcome: one line of a results file.
struct SweepLine {
  int index = 0;
  std::string problem;  // fingerprint of all inputs, so that a changed input is noticed; "" when they are broken
  std::vector<std::pair<std::string, std::string>> settings;
  SweepOutcome outcome;
};

}  // namespace hpplan
