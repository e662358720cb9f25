#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "domain/plan.hpp"
#include "predict/problem.hpp"
#include "search/engine.hpp"

namespace hpplan {

/// Whether the job allows more than what find_plan proves its answer for.
[[nodiscard]] bool asks_for_other_schedules(const Job& job);

/// `plan` with the best schedules of the job for each of its pipelines, and the micro-batches split anew between them.
/// Devices and degrees stay. Every number is predicted as `check` does. Pipelines of one plan are either all
/// synchronous or all asynchronous. The plan itself where nothing is faster and the job allows 1F1B; nothing where no
/// schedule of the job fits.
///   fits  counts the ways to run a pipeline that were simulated
///   stop  true ends the choice with the best until then; asked from several threads. May be empty.
[[nodiscard]] std::vector<Plan> with_best_schedules(const Problem& problem, const Plan& plan, std::int64_t& fits,
                                                    const std::function<bool()>& stop = {});

struct ScheduledSearch {
  SearchResult search;
  std::int64_t fits = 0;  // ways to run a pipeline that were simulated
};

/// find_plan, and then the best schedules of the job for the plans found. What is proved: the bound of the answer is
/// the work of the batch over the best rates of all devices, which no schedule beats; that the devices, degrees and
/// layers suit other schedules as well as 1F1B is not proved. Where 1F1B fits no plan, plans for twice the memory are
/// tried. With 1F1B alone it is find_plan.
[[nodiscard]] ScheduledSearch find_scheduled_plan(const Problem& problem, const SearchOptions& options);

}  // namespace hpplan
