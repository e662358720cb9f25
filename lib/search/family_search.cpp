#include "search/family_search.hpp"

#include <algorithm>
#include <utility>

namespace hpplan {

namespace {

/// Sets that are looked at before they are counted, and before the search is asked whether it is to end.
constexpr std::int64_t kLooksAtOnce = 64;
/// Timers that are kept.
constexpr std::size_t kMostTimers = 50'000;

}  // namespace

FamilyResult FamilySearch::run(const Family& family, double limit, int placements, WaveBudget& budget) {
  placements_ = placements;
  found_ = {};
  found_.best.time = limit;
  counted_combinations_ = 0;
  counted_timings_ = 0;
  budget_ = &budget;
  lists_ = family.lists.get();
  if (timer_count_ > kMostTimers) {
    all_timers_.clear();
    timer_count_ = 0;
  }
  timers_.clear();
  for (const std::shared_ptr<const ColumnList>& list : lists_->lists) {
    Timers& timers = all_timers_[list];
    timers.resize(list->size());
    timers_.push_back(&timers);
  }
  chosen_.clear();
  try {
    take(0, family.first, 0);
  } catch (const SearchStopped&) {
    found_.stopped = true;
  }
  count();
  return std::move(found_);
}

PipelineTimer& FamilySearch::timer(std::size_t i) {
  std::optional<PipelineTimer>& timer = (*timers_[i])[chosen_[i]];
  if (!timer) {
    timer = column(i).timer.fork();
    ++timer_count_;
  }
  return *timer;
}

void FamilySearch::count() {
  budget_->spend(found_.combinations - counted_combinations_, found_.timings - counted_timings_);
  counted_combinations_ = found_.combinations;
  counted_timings_ = found_.timings;
}

/// One column for each list; equal lists in non-decreasing column order.
///   made   samples that the columns chosen so far finish at most
void FamilySearch::combine(std::size_t i, std::int64_t made) {
  if (i == size()) {
    score();
    return;
  }
  const ColumnList& columns = *lists_->lists[i];
  const bool repeats = lists_->lists[i] == lists_->lists[i - 1];
  for (std::size_t c = repeats ? chosen_[i - 1] : 0; c < columns.size() && !budget_->spent(); ++c) {
    if (made + columns[c].most + lists_->rest[i + 1] < global_batch()) return;  // and so for all that follow
    take(i, c, made);
  }
}

void FamilySearch::take(std::size_t i, std::size_t c, std::int64_t made) {
  if (++found_.combinations % kLooksAtOnce == 0) {
    count();
    tables_.check_stop();
  }
  chosen_.push_back(c);
  if (enough(i)) combine(i + 1, made + column(i).most);
  chosen_.pop_back();
}

/// Whether the chosen columns, and the best of the vectors still open, can finish the batch before the limit.
bool FamilySearch::enough(std::size_t last) {
  double tail = 0.0;
  double share = range_.sync_low;
  for (std::size_t i = 0; i <= last; ++i) {
    tail = std::max(tail, column(i).optimizer);
    share = std::max(share, column(i).share);
  }
  // What is dear to know is only asked where what is cheap to know does not decide.
  const auto at_most = [](PipelineTimer& timer, double time, int most) { return timer.no_more_within(time, most); };
  const auto exactly = [](PipelineTimer& timer, double time, int most) { return timer.most_within(time, most); };
  if (!can_finish(last, tail + share, at_most) || !can_finish(last, tail + share, exactly)) return false;
  share = spread_share(last, share);
  return can_finish(last, tail + share, at_most) && can_finish(last, tail + share, exactly);
}

/// The same with this time after the pipelines, and micro-batches counted by `within`.
template <typename Within>
bool FamilySearch::can_finish(std::size_t last, double after, Within within) {
  std::int64_t made = lists_->rest[last + 1];
  for (std::size_t i = 0; i <= last; ++i) {
    const int b = column(i).candidate.micro_batch;
    made += static_cast<std::int64_t>(b) * within(timer(i), limit() - after, global_batch() / b);
  }
  return made >= global_batch();
}

/// Fills `holders_` for the columns chosen up to this one, those before it known already.
void FamilySearch::hold(std::size_t last) {
  const Problem& problem = tables_.problem();
  holders_.resize(size());
  std::vector<Holders>& here = holders_[last];
  if (last == 0) {
    here.assign(static_cast<std::size_t>(problem.model.layer_count()), Holders{});
  } else {
    here = holders_[last - 1];
  }
  for (const CandidateStage& stage : column(last).candidate.stages) {
    const Port& port = tables_.space().ports[static_cast<std::size_t>(stage.port)];
    for (int layer = stage.layers.first; layer < stage.layers.last; ++layer) {
      Holders& holders = here[static_cast<std::size_t>(layer)];
      holders.devices += port.devices;
      holders.replicas += stage.split.data_parallel;
      holders.mixed = holders.mixed || (holders.group >= 0 && holders.group != port.group);
      holders.group = port.group;
    }
  }
}

/// Gradient sync of some device at least, for layers that no placement can have on one node: their holders are of
/// different groups, or too many devices. The pipelines still to be chosen hold every layer once more.
///   known   what it is at least anyway
double FamilySearch::spread_share(std::size_t last, double known) {
  if (tables_.problem().job.overlap_gradient_sync || size() < 2) return known;
  hold(last);
  const auto more = static_cast<int>(size() - last) - 1;
  for (std::size_t i = 0; i <= last; ++i) {
    for (const CandidateStage& stage : column(i).candidate.stages) {
      known = spread_share(stage, holders_[last], more, known);
    }
  }
  return known;
}

double FamilySearch::spread_share(const CandidateStage& stage, const std::vector<Holders>& all, int more,
                                  double known) {
  const Problem& problem = tables_.problem();
  const Port& port = tables_.space().ports[static_cast<std::size_t>(stage.port)];
  const int per_node = problem.cluster.node_groups[static_cast<std::size_t>(port.group)].devices_per_node;
  SyncShape shape{port.group, port.devices, stage.split.tensor_parallel, 0, true};
  Bytes bytes;
  for (int layer = stage.layers.first; layer < stage.layers.last; ++layer) {
    const Holders& holders = all[static_cast<std::size_t>(layer)];
    if (!holders.mixed && holders.devices + more <= per_node) continue;
    // The gradient of a tied head is layer 0's.
    if (problem.model.tied_embeddings && layer == problem.model.layer_count() - 1) continue;
    bytes += Bytes{tables_.layer_gradients()[static_cast<std::size_t>(layer)].count() / stage.split.tensor_parallel};
    const int replicas = holders.replicas + more;
    shape.replicas = shape.replicas == 0 ? replicas : std::min(shape.replicas, replicas);
  }
  // Few stages raise it.
  if (bytes == Bytes{0} || each_byte(stage.port, shape) * bytes.value() <= known) return known;
  return std::max(known, gradient_sync_lower_bound(problem, shape, bytes).value());
}

/// gradient_sync_lower_bound() is no more than this many seconds for each byte.
double FamilySearch::each_byte(int port, const SyncShape& shape) {
  const std::uint64_t key = static_cast<std::uint64_t>(port) << 48 |
                            static_cast<std::uint64_t>(shape.tensor_parallel) << 24 |
                            static_cast<std::uint64_t>(shape.replicas);
  const auto [place, added] = each_byte_.try_emplace(key);
  if (added) {
    constexpr Bytes kMany{std::int64_t{1} << 40};
    place->second = gradient_sync_lower_bound(tables_.problem(), shape, kMany).value() / kMany.value() * (1.0 + 1e-9);
  }
  return place->second;
}

void FamilySearch::score() {
  tables_.check_stop();
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < size(); ++i) candidates.push_back(column(i).candidate);
  Realised realised = realise(tables_, candidates, limit() * (1.0 - 1e-12), placements_);
  found_.timings += realised.tried;
  found_.complete = found_.complete && realised.complete;
  if (realised.time < limit()) found_.best = std::move(realised);
}

}  // namespace hpplan
