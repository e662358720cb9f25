#include "search/pipeline_timer.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/check.hpp"
#include "search/candidate.hpp"

namespace hpplan {

namespace {

bool fit(const std::vector<StageTime>& stages) {
  return std::all_of(stages.begin(), stages.end(),
                     [](const StageTime& stage) { return stage.backward.value() < kInfinity; });
}

}  // namespace

PipelineTimer::PipelineTimer(SearchTables& tables, const Candidate& candidate, std::vector<double> links)
    : table_(&tables.stages(candidate.micro_batch)), micro_batch_(candidate.micro_batch), links_(std::move(links)) {
  variants_.reserve(candidate.stages.size());
  classes_.reserve(candidate.stages.size());
  for (const CandidateStage& stage : candidate.stages) {
    variants_.push_back(table_->variant_of(stage.port, stage.split));
    classes_.push_back(tables.ranges().of(stage.layers.first, stage.layers.last));
    slowest_ = std::max(slowest_, table_->time(variants_.back(), classes_.back(), 1));
  }
  memory_->stages = stages(static_cast<int>(variants_.size()));
  memory_->fits = fit(memory_->stages);
  if (memory_->fits) memory_->lines = one_f_one_b_lines(memory_->stages);
}

PipelineTimer PipelineTimer::fork() const {
  PipelineTimer other = *this;
  other.memory_ = std::make_shared<Memory>(*memory_);
  return other;
}

/// Those that run so many micro-batches; infinity in `backward` where one does not fit.
std::vector<StageTime> PipelineTimer::stages(int micro_batches) const {
  std::vector<StageTime> stages;
  stages.reserve(variants_.size());
  for (std::size_t s = 0; s < variants_.size(); ++s) {
    const int in_flight = table_->in_flight(variants_.size() - s, micro_batches);
    stages.push_back({Seconds{table_->forward(variants_[s], classes_[s])},
                      Seconds{table_->backward(variants_[s], classes_[s], in_flight)},
                      {},
                      Seconds{s < links_.size() ? links_[s] : 0.0}});
  }
  return stages;
}

double PipelineTimer::time(int micro_batches) {
  const auto known = memory_->times.find(micro_batches);
  if (known != memory_->times.end()) return known->second;
  double time = kInfinity;
  if (is_full(micro_batches)) {
    if (memory_->fits) time = memory_->marks.makespan(memory_->stages, micro_batches).value();
  } else if (const std::vector<StageTime> few = stages(micro_batches); fit(few)) {
    time = one_f_one_b_makespan(few, micro_batches).value();
  }
  memory_->times.emplace(micro_batches, time);
  return time;
}

double PipelineTimer::bound(int micro_batches) const {
  if (!is_full(micro_batches)) return 0.0;
  if (!memory_->fits) return kInfinity;
  return one_f_one_b_lower_bound(memory_->stages, micro_batches).value();
}

int PipelineTimer::no_more_within(double limit, int most) const {
  // A pipeline takes at least as long as its slowest stage works.
  const double at_most = slowest_ > 0.0 ? limit / slowest_ * (1.0 + 1e-9) : kInfinity;
  if (!(at_most >= 1.0)) return 0;
  if (at_most < most) most = static_cast<int>(at_most);
  const auto not_full = static_cast<int>(variants_.size()) - 1;
  if (!memory_->fits) return std::min(most, not_full);
  const double time = limit * (1.0 + step_rounding(static_cast<int>(variants_.size()), most));
  for (const StepLine& line : memory_->lines) {
    const double room = (time - line.fixed) / line.each;
    if (room < most) most = std::min(most, std::max({line.from, not_full, static_cast<int>(std::max(room, 0.0))}));
  }
  return most;
}

int PipelineTimer::most_within(double limit, int most) {
  if (limit != memory_->limit || most != memory_->most) {
    memory_->answer = find_most_within(limit, most);
    memory_->limit = limit;
    memory_->most = most;
  }
  return memory_->answer;
}

int PipelineTimer::find_most_within(double limit, int most) {
  int low = 0;                                 // within the limit
  int high = no_more_within(limit, most) + 1;  // taken not to be
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
  const int size = timer.micro_batch();
  nested_ = nested_ && std::all_of(distinct_.begin(), distinct_.end(), [size](const PipelineTimer& other) {
              return size % other.micro_batch() == 0 || other.micro_batch() % size == 0;
            });
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

/// Whether some m_i in [1, caps_i] give the exact sum, where of any two sizes one divides the other: then as many as
/// possible of the largest size, and so on, reach it if anything does.
bool nested_split(const PipelineTimers& timers, const std::vector<int>& caps, int global_batch) {
  std::vector<std::pair<int, std::int64_t>> sizes;  // micro-batch size, most of them beyond one each
  std::int64_t rest = global_batch;
  for (std::size_t i = 0; i < timers.size(); ++i) {
    sizes.emplace_back(timers.micro_batch(i), caps[i] - 1);
    rest -= timers.micro_batch(i);
  }
  if (rest < 0) return false;
  std::sort(sizes.rbegin(), sizes.rend());
  for (const auto& [size, most] : sizes) rest -= std::min(most, rest / size) * size;
  return rest == 0;
}

bool batch_fits(const PipelineTimers& timers, const std::vector<int>& caps, int global_batch) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < timers.size(); ++i) {
    if (caps[i] < 1) return false;
    most += static_cast<std::int64_t>(caps[i]) * timers.micro_batch(i);
  }
  if (most < global_batch) return false;
  if (timers.nested_sizes()) return nested_split(timers, caps, global_batch);
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

}  // namespace hpplan
