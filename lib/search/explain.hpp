#pragma once

#include <functional>
#include <string>

#include "domain/explanation.hpp"
#include "domain/plan.hpp"
#include "predict/problem.hpp"
#include "search/engine.hpp"

namespace hpplan {

struct ExplainOptions {
  int threads = 1;
  /// Gives each search its own SearchOptions::stop, such as a time limit that starts then. May be empty.
  std::function<std::function<bool()>()> new_stop;
  std::function<void(const std::string& change)> progress;  // may be empty
};

/// What binds a plan, and what the search finds when one thing is different: 1 GiB more on each device type, one node
/// more of each group, other micro-batch sizes, other numbers of pipelines, no recomputation, type-pure pipelines.
/// Every alternative is a search of its own, not an estimate.
[[nodiscard]] Explanation explain_plan(const Problem& problem, const Plan& plan, const ExplainOptions& options);

}  // namespace hpplan
