#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace hpplan {

/// Where the time of a plan's slowest pipeline goes: what each cause adds, by simulating the pipeline without it. The
/// parts add up to the pipeline's time.
struct TimeParts {
  int pipeline = 0;
  Seconds work;       // micro-batches times the mean stage, nothing recomputed
  Seconds fill;       // filling and draining equal stages
  Seconds imbalance;  // unequal stages
  Seconds recompute;
  Seconds links;  // transfers that are not hidden
};

/// Stage options of one device type that the search may choose from, and why some are out.
struct OptionCensus {
  std::string device_type;
  std::int64_t options = 0;    // TP degree x samples x layer range x in-flight depth
  std::int64_t recompute = 0;  // fit only with recomputation
  std::int64_t memory = 0;     // do not fit at all
};

/// The answer of the search to a problem that differs in one thing.
struct Alternative {
  std::string change;
  std::optional<Seconds> time;  // nothing: no plan is feasible
  Seconds lower_bound;
  bool ended_early = false;  // by the time limit
};

/// Why a plan is as it is.
struct Explanation {
  Alternative again;               // the plan's own problem, searched again
  std::optional<TimeParts> parts;  // where the slowest pipeline runs 1F1B
  int slowest_pipeline = 0;
  int slowest_stage = 0;       // of the slowest pipeline
  Seconds slowest_stage_time;  // F + B of one micro-batch
  Seconds mean_stage_time;
  Seconds layer_time;      // an average layer of the slowest stage: what moving one layer changes
  int tight_pipeline = 0;  // where memory is tightest
  int tight_stage = 0;
  Bytes free_memory;  // there
  std::vector<OptionCensus> census;
  std::int64_t branches = 0;    // parts of the search space looked at
  std::int64_t skipped = 0;     // of those, dropped by a bound
  std::int64_t candidates = 0;  // sets of pipelines scored
  std::vector<Alternative> alternatives;
};

}  // namespace hpplan
