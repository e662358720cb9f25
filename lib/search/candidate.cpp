#include "search/candidate.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "predict/link.hpp"
#include "predict/stage.hpp"

namespace hpplan {

namespace {

/// Stages of the timers that are kept, and what a timer costs beside them.
constexpr std::size_t kMostTimedStages = 400'000;
constexpr std::size_t kTimerStages = 16;

}  // namespace

SearchTables::SearchTables(StageRows& rows, const Space& space)
    : rows_(&rows), space_(&space), threads_(rows.threads()) {}

const StageTable& SearchTables::stages(int micro_batch) {
  std::shared_ptr<const StageTable>& table = stages_[micro_batch];
  if (!table) table = std::make_shared<const StageTable>(*rows_, *space_, micro_batch);
  return *table;
}

const std::vector<double>& SearchTables::transfers(int micro_batch) {
  std::vector<double>& times = transfers_[micro_batch];
  if (!times.empty()) return times;
  const Bytes size = boundary_bytes(problem().model, micro_batch);
  for (const Port& from : space_->ports) {
    for (const Port& to : space_->ports) {
      const auto& groups = problem().cluster.node_groups;
      const bool same_type = groups[static_cast<std::size_t>(from.group)].device_type ==
                             groups[static_cast<std::size_t>(to.group)].device_type;
      const bool allowed = same_type || !problem().job.constraints.type_pure;
      const Link link = best_link(problem(), from.group, from.devices, to.group, to.devices);
      times.push_back(allowed ? transfer_time(size, link).value() : kInfinity);
    }
  }
  return times;
}

PipelineTimer SearchTables::timer(const Candidate& pipeline, const std::vector<double>& links) {
  std::pair key(pipeline, links);
  const auto known = timers_.find(key);
  if (known != timers_.end()) return known->second;
  if (timed_stages_ >= kMostTimedStages) {
    timers_.clear();
    timed_stages_ = 0;
  }
  timed_stages_ += pipeline.stages.size() + kTimerStages;
  PipelineTimer timer(*this, pipeline, links);
  return timers_.emplace(std::move(key), std::move(timer)).first->second;
}

std::vector<SearchTables> SearchTables::fork(std::size_t count) {
  for (const int b : problem().job.micro_batches) {
    if (b > problem().job.global_batch) continue;
    static_cast<void>(stages(b));
    static_cast<void>(transfers(b));
  }
  std::vector<SearchTables> forks(count, SearchTables(*rows_, *space_));
  const auto one_at_a_time = std::make_shared<std::mutex>();
  for (SearchTables& other : forks) {
    other.threads_ = 1;
    other.stages_ = stages_;
    other.transfers_ = transfers_;
    other.unwanted_ = unwanted_;
    other.stop_ = [this, one_at_a_time] {
      const std::lock_guard<std::mutex> lock(*one_at_a_time);
      return stop_ && stop_();
    };
  }
  return forks;
}

std::vector<double> best_links(SearchTables& tables, const Candidate& candidate) {
  const std::vector<double>& transfers = tables.transfers(candidate.micro_batch);
  const std::size_t ports = tables.space().ports.size();
  std::vector<double> links;
  for (std::size_t s = 0; s + 1 < candidate.stages.size(); ++s) {
    links.push_back(transfers[static_cast<std::size_t>(candidate.stages[s].port) * ports +
                              static_cast<std::size_t>(candidate.stages[s + 1].port)]);
  }
  return links;
}

std::optional<Candidate> twin_of(const SearchTables& tables, const Candidate& candidate) {
  const std::vector<int>& sizes = tables.problem().job.micro_batches;
  const int half = candidate.micro_batch / 2;
  if (candidate.micro_batch % 2 != 0 || std::find(sizes.begin(), sizes.end(), half) == sizes.end()) return std::nullopt;
  const bool even = std::all_of(candidate.stages.begin(), candidate.stages.end(),
                                [](const CandidateStage& stage) { return stage.split.data_parallel % 2 == 0; });
  if (!even) return std::nullopt;
  Candidate twin{half, candidate.stages};
  for (CandidateStage& stage : twin.stages) {
    const Port& port = tables.space().ports[static_cast<std::size_t>(stage.port)];
    stage.port = tables.space().find({port.group, port.devices / 2});
    if (stage.port < 0) return std::nullopt;
    stage.split.data_parallel /= 2;
  }
  return twin;
}

double slowest_optimizer(SearchTables& tables, std::span<const Candidate> pipelines) {
  double slowest = 0.0;
  for (const Candidate& pipeline : pipelines) {
    const StageTable& table = tables.stages(pipeline.micro_batch);
    for (const CandidateStage& stage : pipeline.stages) {
      const int range = tables.ranges().of(stage.layers.first, stage.layers.last);
      slowest = std::max(slowest, table.optimizer(table.variant_of(stage.port, stage.split), range));
    }
  }
  return slowest;
}

}  // namespace hpplan
