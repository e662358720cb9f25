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
  if (!table) {
    check_stop();
    table = std::make_shared<const StageTable>(*rows_, *space_, micro_batch);
  }
  return *table;
}

/// [from port * ports + to port]: seconds of a micro-batch's tensor over the link of the two; infinity where the job
/// forbids the neighbourhood.
///   link_of(problem, group, devices, group, devices)
template <typename LinkOf>
std::vector<double> SearchTables::times_of_links(int micro_batch, LinkOf link_of) const {
  std::vector<double> times;
  const Bytes size = boundary_bytes(problem().model, micro_batch);
  for (const Port& from : space_->ports) {
    for (const Port& to : space_->ports) {
      const auto& groups = problem().cluster.node_groups;
      const bool same_type = groups[static_cast<std::size_t>(from.group)].device_type ==
                             groups[static_cast<std::size_t>(to.group)].device_type;
      const bool allowed = same_type || !problem().job.constraints.type_pure;
      const Link link = link_of(problem(), from.group, from.devices, to.group, to.devices);
      times.push_back(allowed ? transfer_time(size, link).value() : kInfinity);
    }
  }
  return times;
}

const std::vector<double>& SearchTables::transfers(int micro_batch) {
  std::vector<double>& times = transfers_[micro_batch];
  if (times.empty()) times = times_of_links(micro_batch, best_link);
  return times;
}

const std::vector<double>& SearchTables::outer_transfers(int micro_batch) {
  std::vector<double>& times = outer_transfers_[micro_batch];
  if (times.empty()) times = times_of_links(micro_batch, outer_link);
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
    static_cast<void>(outer_transfers(b));
  }
  std::vector<SearchTables> forks(count, SearchTables(*rows_, *space_));
  const auto one_at_a_time = std::make_shared<std::mutex>();
  for (SearchTables& other : forks) {
    other.threads_ = 1;
    other.stages_ = stages_;
    other.transfers_ = transfers_;
    other.outer_transfers_ = outer_transfers_;
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

Chains least_links(SearchTables& tables, const Candidate& candidate) {
  const std::vector<CandidateStage>& stages = candidate.stages;
  const std::vector<Port>& ports = tables.space().ports;
  const std::vector<double>& inner = tables.transfers(candidate.micro_batch);
  const std::vector<double>& outer = tables.outer_transfers(candidate.micro_batch);
  const auto rooms = static_cast<std::size_t>(tables.problem().cluster.largest_node());
  // [stage][room that it and those after it leave on its node]: least time on links from there on.
  std::vector<std::vector<double>> least(stages.size(), std::vector<double>(rooms, kInfinity));
  const auto port_of = [&](std::size_t s) { return static_cast<std::size_t>(stages[s].port); };
  const auto link_of = [&](const std::vector<double>& links, std::size_t s) {
    return links[port_of(s) * ports.size() + port_of(s + 1)];
  };
  const auto own_room = [&](std::size_t s) {
    return static_cast<std::size_t>(room_beside(tables.problem().cluster, ports[port_of(s)]));
  };
  least.back()[own_room(stages.size() - 1)] = 0.0;
  for (std::size_t s = stages.size() - 1; s-- > 0;) {
    const auto devices = static_cast<std::size_t>(ports[port_of(s)].devices);
    for (std::size_t room = 0; room < rooms; ++room) {
      const double rest = least[s + 1][room];
      double& apart = least[s][own_room(s)];
      apart = std::min(apart, rest + link_of(outer, s));
      if (room < devices || link_of(inner, s) >= link_of(outer, s)) continue;
      double& beside = least[s][room - devices];
      beside = std::min(beside, rest + link_of(inner, s));
    }
  }
  Chains chains;
  auto room = static_cast<std::size_t>(std::min_element(least[0].begin(), least[0].end()) - least[0].begin());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    chains.taken.push_back(static_cast<int>(own_room(s) - room));
    if (s + 1 == stages.size()) break;
    const std::size_t before = room + static_cast<std::size_t>(ports[port_of(s)].devices);
    const bool beside = before < rooms && link_of(inner, s) < link_of(outer, s) &&
                        least[s + 1][before] + link_of(inner, s) <= least[s][room];
    chains.links.push_back(link_of(beside ? inner : outer, s));
    const std::vector<double>& rest = least[s + 1];
    room = beside ? before : static_cast<std::size_t>(std::min_element(rest.begin(), rest.end()) - rest.begin());
  }
  return chains;
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
