#include "search/closure.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/for_each_index.hpp"
#include "search/family_search.hpp"
#include "simulate/one_f_one_b.hpp"

namespace hpplan {

namespace {

/// A list of columns that is asked for fewer samples than it was made for is made anew for this many fewer than that.
constexpr std::int64_t kSpareSamples = 4;
/// Families that are looked at side by side, whatever the number of threads: few at first, as the plans that they come
/// to are the limit of those that follow.
constexpr std::size_t kMostAtOnce = 256;
/// Sums that are bounds of times may be rounded up.
constexpr double kRound = 1e-9;
/// Columns of all lists together: a timed pipeline takes about a kilobyte.
constexpr std::size_t kMostColumns = 1'000'000;

class Closure {
 public:
  Closure(SearchTables& tables, Branch& branch, double limit, const ClosureBudget& budget)
      : tables_(tables), branch_(branch), budget_(budget), resources_(tables.space().resources),
        forks_(tables.fork(static_cast<std::size_t>(tables.threads()))) {
    for (SearchTables& fork : forks_) searches_.emplace_back(fork, branch.range());
    result_.best.time = limit;
    samples_ = branch.samples_by(limit);
    within_ = branch.global_table(samples_);
    // at_most[p][n]: by at most p pipelines
    for (std::size_t p = 1; p < within_.size(); ++p) {
      for (std::size_t n = 0; n < within_[p].size(); ++n) within_[p][n] = std::max(within_[p][n], within_[p - 1][n]);
    }
  }

  ClosureResult run() {
    try {
      choose_vectors(resources_.full(), resources_.full(), global_batch());
      search_families();
    } catch (const SearchStopped&) {
      result_.stopped = true;
    }
    result_.complete = result_.complete && !result_.stopped;
    return std::move(result_);
  }

 private:
  struct KnownList {
    std::int64_t need = 1;  // all columns that finish so many samples are there
    std::shared_ptr<const ColumnList> list;
  };

  [[nodiscard]] int global_batch() const { return tables_.problem().job.global_batch; }
  [[nodiscard]] double limit() const { return result_.best.time; }
  /// Whether no more is to be looked at than what waits.
  [[nodiscard]] bool ended() const { return !result_.complete || result_.stopped; }

  /// Multisets of vectors in non-increasing index order.
  void choose_vectors(int left, int last, std::int64_t need) {
    if (ended()) return;
    const auto count = static_cast<int>(vectors_.size());
    if (need <= 0 && count >= branch_.range().pipelines.first) choose_columns();
    if (count >= branch_.range().pipelines.last) return;
    const auto more = static_cast<std::size_t>(branch_.range().pipelines.last - count);
    if (within_[more][static_cast<std::size_t>(left)] < need) return;
    for (int v = std::min(left, last); v > 0; --v) {
      const std::int64_t made = samples_[static_cast<std::size_t>(v)];
      if (made <= 0 || !resources_.valid(v) || !resources_.contains(left, v)) continue;
      if (need - made > within_[more - 1][static_cast<std::size_t>(left - v)]) continue;
      vectors_.push_back(v);
      choose_vectors(left - v, v, need - made);
      vectors_.pop_back();
    }
  }

  void choose_columns() {
    if (++result_.combinations > budget_.combinations) {
      result_.complete = false;
      return;
    }
    std::int64_t total = 0;
    for (const int v : vectors_) total += samples_[static_cast<std::size_t>(v)];
    auto chosen = std::make_shared<ColumnLists>();
    for (const int v : vectors_) {
      const std::int64_t need = global_batch() - (total - samples_[static_cast<std::size_t>(v)]);
      chosen->lists.push_back(columns(v, need));
      if (chosen->lists.back()->empty() || !result_.complete) return;
    }
    // Real pipelines make fewer samples than the relaxation says.
    std::vector<std::int64_t>& rest = chosen->rest;
    rest.assign(chosen->lists.size() + 1, 0);
    for (std::size_t i = chosen->lists.size(); i-- > 0;) rest[i] = rest[i + 1] + chosen->lists[i]->front().most;
    const ColumnList& first = *chosen->lists.front();
    for (std::size_t c = 0; c < first.size() && first[c].most + rest[1] >= global_batch(); ++c) {
      families_.push_back({chosen, c});
      if (families_.size() >= at_once_) search_families();
      if (ended()) return;
    }
  }

  /// Looks at the families that wait.
  void search_families() {
    const std::vector<Family> families = std::exchange(families_, {});
    if (families.empty()) return;
    at_once_ = std::min(2 * at_once_, kMostAtOnce);
    const std::int64_t combinations = budget_.combinations - result_.combinations;
    const std::int64_t timings = budget_.timings - result_.timings;
    if (combinations <= 0 || timings <= 0) {
      result_.complete = false;
      return;
    }
    const auto placements = static_cast<int>(std::min<std::int64_t>(budget_.placements, timings));
    const auto run = [&](std::size_t thread, const Family& family, WaveBudget& budget) {
      return searches_[thread].run(family, limit(), placements, budget);
    };
    WaveBudget budget(combinations, timings);
    std::vector<FamilyResult> found(families.size());
    std::atomic<std::size_t> next = 0;
    for_each_index(searches_.size(), tables_.threads(), [&](std::size_t thread) {
      for (std::size_t i = next++; i < families.size() && !budget.spent(); i = next++)
        found[i] = run(thread, families[i], budget);
    });
    if (!budget.spent()) {
      std::vector<std::int64_t> parts;
      for (const FamilyResult& one : found)
        parts.push_back(kLookWork * one.combinations + kCandidateWork * one.timings);
      tables_.share().add(parts);
      for (FamilyResult& one : found) take(std::move(one));
      return;
    }
    // Who came how far depends on the threads; one after the other they come as far everywhere.
    result_.complete = false;
    WaveBudget again(combinations, timings);
    for (std::size_t i = 0; i < families.size() && !again.spent(); ++i) take(run(0, families[i], again));
  }

  void take(FamilyResult found) {
    result_.combinations += found.combinations;
    result_.timings += found.timings;
    result_.complete = result_.complete && found.complete;
    result_.stopped = result_.stopped || found.stopped;
    if (found.best.time < limit()) result_.best = std::move(found.best);
  }

  /// Columns on v, among them all that can finish `need` samples by the limit; those that finish most first.
  std::shared_ptr<const ColumnList> columns(int v, std::int64_t need) {
    need = std::max<std::int64_t>(1, need);
    const auto [place, added] = known_.try_emplace(v);
    KnownList& known = place->second;
    if (!added && known.need <= need) return known.list;
    const std::int64_t spare = added ? 0 : std::min(kSpareSamples, need - 1);
    known.need = need - spare;
    if (known.list) held_ -= known.list->size();
    const auto list = std::make_shared<ColumnList>();
    known.list = list;
    std::vector<Branch::TableKey> keys;
    for (const int b : tables_.problem().job.micro_batches) {
      const auto least = static_cast<int>((known.need + b - 1) / b);
      if (b > global_batch() || most_micro_batches(b, v) < least) continue;
      keys.push_back({b, least, spare});
    }
    branch_.prepare(keys);
    for (const Branch::TableKey& key : keys) {
      std::vector<std::vector<ChainStage>> chains;
      const PipelineTable& table = branch_.table(key.micro_batch, key.micro_batches, key.spare);
      if (!table.enumerate(v, limit(), budget_.chains, chains)) result_.complete = false;
      Splitting splitting;
      splitting.micro_batches = key.micro_batches;
      splitting.candidate.micro_batch = key.micro_batch;
      for (const std::vector<ChainStage>& chain : chains) {
        splitting.chain = &chain;
        add_splits(splitting);
        if (!result_.complete) break;
      }
      add_columns(splitting.all, key.micro_batches, *list);
      if (!result_.complete) return list;
    }
    std::stable_sort(list->begin(), list->end(), [](const Column& a, const Column& b) { return a.most > b.most; });
    return list;
  }

  /// Most micro-batches of a size that one pipeline on v can finish, as far as the branch knew when first asked.
  int most_micro_batches(int micro_batch, int v) {
    const auto [place, added] = most_.try_emplace(micro_batch);
    if (added) place->second = branch_.most_micro_batches(micro_batch, limit());
    return place->second.empty() ? 0 : place->second[static_cast<std::size_t>(v)];
  }

  /// A chain whose stages get their splits one after the other.
  struct Splitting {
    const std::vector<ChainStage>* chain = nullptr;
    int micro_batches = 1;
    Candidate candidate;           // the stages so far
    std::vector<StageTime> times;  // and their times, with the best links
    double sum = 0.0;              // of these: S in PipelineTable
    double tail = 0.0;             // after the pipeline, at least
    std::vector<Candidate> all;    // what came of it
  };

  /// The chain with every split of its stages that bounds let finish in time.
  void add_splits(Splitting& now) {
    const std::vector<ChainStage>& chain = *now.chain;
    const std::size_t s = now.times.size();
    if (s == chain.size()) {
      const double least = one_f_one_b_lower_bound(now.times, now.micro_batches).value() + now.tail;
      if (least > limit() * (1.0 + kRound) || has_twin(now.candidate)) return;
      now.all.push_back(now.candidate);
      result_.complete = result_.complete && has_room(now.all.size());
      return;
    }
    const StageTable& stages = tables_.stages(now.candidate.micro_batch);
    const int range = tables_.ranges().of(chain[s].layers.first, chain[s].layers.last);
    const int in_flight = stages.in_flight(chain.size() - s, now.micro_batches);
    const double link =
        s + 1 < chain.size() ? best_link(now.candidate.micro_batch, chain[s].port, chain[s + 1].port) : 0.0;
    const double sum = now.sum;
    const double tail = now.tail;
    for (int v = stages.first_variant(chain[s].port); v < stages.first_variant(chain[s].port + 1); ++v) {
      const double time = stages.time(v, range, in_flight);
      now.tail = std::max(tail, stages.optimizer(v, range) + branch_.range().sync_low);
      const double least = sum + now.micro_batches * time + now.tail;
      if (least == kInfinity || least > limit() * (1.0 + kRound)) continue;
      now.sum = sum + time + 2.0 * link;
      now.candidate.stages.push_back(
          {chain[s].port, stages.variants()[static_cast<std::size_t>(v)].split, chain[s].layers});
      now.times.push_back(
          {Seconds{stages.forward(v, range)}, Seconds{stages.backward(v, range, in_flight)}, {}, Seconds{link}});
      add_splits(now);
      now.candidate.stages.pop_back();
      now.times.pop_back();
    }
    now.sum = sum;
    now.tail = tail;
  }

  [[nodiscard]] double best_link(int micro_batch, int from, int to) {
    const auto ports = tables_.space().ports.size();
    return tables_.transfers(micro_batch)[static_cast<std::size_t>(from) * ports + static_cast<std::size_t>(to)];
  }

  /// Whether no plan needs the pipeline, as two others do in its place.
  [[nodiscard]] bool has_twin(const Candidate& candidate) const {
    const Job& job = tables_.problem().job;
    if (job.constraints.pipelines.max >= 0 || job.optimizer_sharding != OptimizerSharding::None) return false;
    return !tables_.leaves_out() && twin_of(tables_, candidate).has_value();
  }

  /// Whether so many candidates more may be timed and kept.
  [[nodiscard]] bool has_room(std::size_t more) const {
    return result_.timings + static_cast<std::int64_t>(more) <= budget_.timings && held_ + more <= kMostColumns;
  }

  /// Times candidates, and keeps those that finish so many micro-batches by the limit.
  void add_columns(const std::vector<Candidate>& candidates, int micro_batches, std::vector<Column>& columns) {
    tables_.check_stop();
    const bool room = has_room(candidates.size());
    result_.timings += static_cast<std::int64_t>(candidates.size());
    result_.complete = result_.complete && room;
    if (!room) return;
    const std::size_t before = columns.size();
    std::vector<std::optional<Column>> made(candidates.size());
    for_each_index(made.size(), tables_.threads(),
                   [&](std::size_t i) { made[i] = column_of(candidates[i], micro_batches); });
    tables_.share().add(std::vector<std::int64_t>(made.size(), kCandidateWork));
    for (std::optional<Column>& column : made) {
      if (column) columns.push_back(std::move(*column));
    }
    held_ += columns.size() - before;
  }

  std::optional<Column> column_of(const Candidate& candidate, int micro_batches) const {
    const double share = branch_.sync_share({&candidate, 1});
    if (share >= branch_.range().sync_high) return std::nullopt;  // of another branch
    const double optimizer = slowest_optimizer(tables_, {&candidate, 1});
    Column column{candidate, optimizer, share, PipelineTimer(tables_, candidate, best_links(tables_, candidate)), 0};
    const double after = optimizer + std::max(share, branch_.range().sync_low);
    if (!column.timer.within(micro_batches, limit() - after)) return std::nullopt;
    const int b = candidate.micro_batch;
    column.most = static_cast<std::int64_t>(b) * column.timer.most_within(limit() - after, global_batch() / b);
    return column;
  }

  SearchTables& tables_;
  Branch& branch_;
  ClosureBudget budget_;
  const ResourceSpace& resources_;
  ClosureResult result_;
  std::vector<std::int64_t> samples_;
  std::vector<std::vector<std::int64_t>> within_;
  std::vector<int> vectors_;
  std::vector<Family> families_;  // that wait
  std::size_t at_once_ = 1;
  std::vector<SearchTables> forks_;       // one for each thread
  std::vector<FamilySearch> searches_;    // one for each thread
  std::map<int, KnownList> known_;        // by vector
  std::size_t held_ = 0;                  // columns there
  std::map<int, std::vector<int>> most_;  // by micro-batch size and vector
};

}  // namespace

ClosureResult close_branch(SearchTables& tables, Branch& branch, double limit, const ClosureBudget& budget) {
  return Closure(tables, branch, limit, budget).run();
}

}  // namespace hpplan
