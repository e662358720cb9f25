#include "search/knowledge.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "search/closure.hpp"

namespace hpplan {

namespace {

/// The nodes of a plan's stages.
Placement placement_of(const Plan& plan) {
  Placement placement;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    placement.emplace_back();
    for (const StagePlan& stage : pipeline.stages) {
      std::vector<int>& nodes = placement.back().emplace_back();
      for (const DevicePlace& device : stage.devices) {
        if (nodes.empty() || nodes.back() != device.node) nodes.push_back(device.node);
      }
    }
  }
  return placement;
}

}  // namespace

std::int64_t counted_work(const SearchReport& report) {
  constexpr std::int64_t kBranch = 400'000;
  const std::int64_t scored = report.candidates - report.looks - report.trials + report.timings;
  return report.transitions + kBranch * report.branches + kCandidateWork * scored + kLookWork * report.looks +
         report.trial_work;
}

void leave_out_excluded(SearchTables& tables, const Knowledge& known) {
  if (known.excluded.empty()) return;
  tables.leave_out([&tables, &known](const std::vector<Candidate>& pipelines) {
    return known.excluded.count(shape_of(tables.space(), pipelines)) > 0;
  });
}

void keep_plan(const Problem& problem, const Space& space, const SearchOptions& options, const Realised& realised,
               Knowledge& known) {
  if (realised.time == kInfinity || (options.met <= 1 && realised.time >= known.time)) return;
  known.report.improvements += realised.time < known.time ? 1 : 0;
  known.time = std::min(known.time, realised.time);
  const auto place = std::upper_bound(known.plans.begin(), known.plans.end(), realised.time,
                                      [](double time, const auto& other) { return time < other.first; });
  known.plans.insert(place, {realised.time, finish(problem, space, realised)});
  if (known.plans.size() > static_cast<std::size_t>(std::max({1, options.top, options.met}))) known.plans.pop_back();
}

void count_trials(int tries, std::int64_t work, bool stopped, Knowledge& known) {
  known.report.candidates += tries;
  known.report.trials += tries;
  known.report.trial_work += work;
  known.stopped = known.stopped || stopped;
}

void keep_improved(const SearchTables& tables, const SearchOptions& options, const Improved& improved,
                   Knowledge& known) {
  keep_plan(tables.problem(), tables.space(), options, improved.plan, known);
  count_trials(improved.tries, improved.work, improved.stopped, known);
}

std::vector<Candidate> candidates_of(const Space& space, const Plan& plan) {
  std::vector<Candidate> candidates;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    Candidate candidate;
    candidate.micro_batch = pipeline.micro_batch;
    for (const StagePlan& stage : pipeline.stages) {
      const int port = space.find({stage.node_group, static_cast<int>(stage.devices.size())});
      check_invariant(port >= 0, "the port of a stage in the whole space");
      candidate.stages.push_back({port, {stage.tensor_parallel, stage.data_parallel}, stage.layers});
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

double best_limit(const Knowledge& known) { return known.plans.front().first * (1.0 + kEqualTimes); }

Realised best_known(SearchTables& tables, const Knowledge& known) {
  const Plan& plan = known.plans.front().second;
  return realise(tables, candidates_of(tables.space(), plan), best_limit(known), 1, placement_of(plan));
}

}  // namespace hpplan
