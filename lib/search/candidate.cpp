#include "search/candidate.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "predict/gradient_sync.hpp"
#include "predict/link.hpp"
#include "predict/stage.hpp"
#include "simulate/one_f_one_b.hpp"

namespace hpplan {

SearchTables::SearchTables(StageRows& rows, const Space& space) : rows_(&rows), space_(&space) {
  const ModelSpec& model = problem().model;
  for (int layer = 0; layer < model.layer_count(); ++layer)
    layer_gradients_.push_back(layer_gradient_bytes(model, layer));
}

const StageTable& SearchTables::stages(int micro_batch) {
  std::unique_ptr<StageTable>& table = stages_[micro_batch];
  if (!table) table = std::make_unique<StageTable>(*rows_, *space_, micro_batch);
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

PipelineTimer::PipelineTimer(SearchTables& tables, const Candidate& candidate, std::vector<double> links)
    : table_(&tables.stages(candidate.micro_batch)), micro_batch_(candidate.micro_batch), links_(std::move(links)) {
  for (const CandidateStage& stage : candidate.stages) {
    variants_.push_back(table_->variant_of(stage.port, stage.split));
    classes_.push_back(tables.ranges().of(stage.layers.first, stage.layers.last));
    slowest_ = std::max(slowest_, table_->time(variants_.back(), classes_.back(), 1));
  }
}

double PipelineTimer::time(int micro_batches) {
  const auto known = known_->find(micro_batches);
  if (known != known_->end()) return known->second;
  std::vector<StageTime> stages;
  double time = 0.0;
  for (std::size_t s = 0; s < variants_.size(); ++s) {
    const int in_flight = table_->in_flight(variants_.size() - s, micro_batches);
    const double backward = table_->backward(variants_[s], classes_[s], in_flight);
    if (backward == kInfinity) time = kInfinity;
    stages.push_back({Seconds{table_->forward(variants_[s], classes_[s])},
                      Seconds{backward},
                      {},
                      Seconds{s < links_.size() ? links_[s] : 0.0}});
  }
  if (time == 0.0) time = one_f_one_b_makespan(stages, micro_batches).value();
  known_->emplace(micro_batches, time);
  return time;
}

int PipelineTimer::most_within(double limit, int most) {
  // A pipeline takes at least as long as its slowest stage works: that spares long simulations.
  const double at_most = slowest_ > 0.0 ? limit / slowest_ * (1.0 + 1e-9) : kInfinity;
  if (!(at_most >= 1.0)) return 0;
  int low = 0;                                                         // within the limit
  int high = (at_most < most ? static_cast<int>(at_most) : most) + 1;  // taken not to be
  // Times grow almost evenly with m: a line through the last two points soon meets the limit beside the answer.
  constexpr int kGuesses = 6;
  double slope = slowest_;
  int last = 0;
  double last_time = kInfinity;
  for (int tries = 0; high - low > 1; ++tries) {
    double guess = last_time < kInfinity && slope > 0.0 ? last + (limit - last_time) / slope : 0.5 * (low + high);
    if (tries == 0) guess = high - 1;
    if (tries > kGuesses) guess = 0.5 * (low + high);
    const int middle = std::clamp(static_cast<int>(std::clamp<double>(guess, low, high)), low + 1, high - 1);
    const double there = time(middle);
    (there <= limit ? low : high) = middle;
    if (there < kInfinity && last_time < kInfinity) slope = (there - last_time) / (middle - last);
    last = middle;
    last_time = there;
  }
  return low;
}

void PipelineTimers::add(PipelineTimer timer) {
  const auto same =
      std::find_if(distinct_.begin(), distinct_.end(), [&](const auto& other) { return other.same_as(timer); });
  owners_.push_back(static_cast<std::size_t>(same - distinct_.begin()));
  if (same == distinct_.end()) distinct_.push_back(std::move(timer));
}

std::vector<int> PipelineTimers::most_within(double limit, int global_batch) {
  std::vector<int> most;
  for (PipelineTimer& timer : distinct_) most.push_back(timer.most_within(limit, global_batch / timer.micro_batch()));
  std::vector<int> caps;
  for (const std::size_t owner : owners_) caps.push_back(most[owner]);
  return caps;
}

namespace {

/// Whether some m_i in [1, caps_i] give the exact sum; fills `counts` with such m_i, as even over the caps as they go.
bool exact_split(const PipelineTimers& timers, const std::vector<int>& caps, int global_batch,
                 std::vector<int>* counts) {
  // reachable[i][s]: samples s can be made by pipelines 0..i-1
  const auto target = static_cast<std::size_t>(global_batch);
  std::vector<std::vector<char>> reachable(timers.size() + 1, std::vector<char>(target + 1, 0));
  reachable[0][0] = 1;
  for (std::size_t i = 0; i < timers.size(); ++i) {
    const auto size = static_cast<std::size_t>(timers.micro_batch(i));
    // since[s]: pipelines of this kind used to reach s beyond the nearest earlier reachable sum, at least 1
    std::vector<int> since(target + 1, 0);
    for (std::size_t s = size; s <= target; ++s) {
      if (reachable[i][s - size]) {
        since[s] = 1;
      } else if (since[s - size] > 0 && since[s - size] < caps[i]) {
        since[s] = since[s - size] + 1;
      }
      reachable[i + 1][s] = since[s] > 0 ? 1 : 0;
    }
  }
  if (!reachable[timers.size()][target]) return false;
  if (counts == nullptr) return true;
  counts->assign(timers.size(), 0);
  std::size_t rest = target;
  for (std::size_t i = timers.size(); i-- > 0;) {
    const auto size = static_cast<std::size_t>(timers.micro_batch(i));
    for (int m = caps[i]; m >= 1; --m) {
      const std::size_t used = size * static_cast<std::size_t>(m);
      if (used > rest || !reachable[i][rest - used]) continue;
      (*counts)[i] = m;
      rest -= used;
      break;
    }
  }
  return true;
}

bool batch_fits(const PipelineTimers& timers, const std::vector<int>& caps, int global_batch) {
  std::int64_t most = 0;
  bool equal = true;
  for (std::size_t i = 0; i < timers.size(); ++i) {
    if (caps[i] < 1) return false;
    most += static_cast<std::int64_t>(caps[i]) * timers.micro_batch(i);
    equal = equal && timers.micro_batch(i) == timers.micro_batch(0);
  }
  if (most < global_batch) return false;
  if (equal) {
    const int size = timers.micro_batch(0);
    return global_batch % size == 0 && global_batch / size >= static_cast<int>(timers.size());
  }
  return exact_split(timers, caps, global_batch, nullptr);
}

}  // namespace

std::optional<Allocation> allocate(PipelineTimers& timers, int global_batch, double limit) {
  if (!batch_fits(timers, timers.most_within(limit, global_batch), global_batch)) return std::nullopt;
  // The optimum is the time of some (pipeline, m): for each pipeline the least such time that is enough for all.
  double best = limit;
  for (PipelineTimer& timer : timers.distinct()) {
    int low = 0;                                                             // too short
    int high = timer.most_within(best, global_batch / timer.micro_batch());  // its time may equal `best`
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      const bool enough = batch_fits(timers, timers.most_within(timer.time(middle), global_batch), global_batch);
      (enough ? high : low) = middle;
    }
    if (high < 1) continue;
    const double time = timer.time(high);
    if (time < best && batch_fits(timers, timers.most_within(time, global_batch), global_batch)) best = time;
  }
  if (best == kInfinity) return std::nullopt;  // every split holds a pipeline that does not fit
  Allocation allocation;
  const bool exact =
      exact_split(timers, timers.most_within(best, global_batch), global_batch, &allocation.micro_batches);
  check_invariant(exact, "a feasible batch split");
  for (std::size_t i = 0; i < timers.size(); ++i) {
    allocation.time = std::max(allocation.time, timers.at(i).time(allocation.micro_batches[i]));
  }
  return allocation;
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
