#include "search/closure.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "base/for_each_index.hpp"
#include "predict/gradient_sync.hpp"

namespace hpplan {

namespace {

/// A pipeline with its links priced at best, and what it adds after the pipelines at least.
struct Column {
  Candidate candidate;
  double optimizer = 0.0;
  double share = 0.0;  // of the gradient sync: the stages' own
  PipelineTimer timer;
  std::int64_t most = 0;  // samples by the limit, whatever the other pipelines are
};

/// Columns on one vector.
struct ColumnList {
  std::int64_t need = 1;  // all that finish so many samples are there
  std::vector<Column> columns;
};

/// A list of columns that is asked for fewer samples than it was made for is made anew for this many fewer than that.
constexpr std::int64_t kSpareSamples = 4;

/// What holds a layer in the pipelines chosen so far.
struct Holders {
  int group = -1;
  int devices = 0;
  int replicas = 0;
  bool mixed = false;  // of different node groups
};

class Closure {
 public:
  Closure(SearchTables& tables, Branch& branch, double limit, const ClosureBudget& budget)
      : tables_(tables), branch_(branch), budget_(budget), resources_(tables.space().resources) {
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
    } catch (const SearchStopped&) {
      result_.complete = false;
      result_.stopped = true;
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] int global_batch() const { return tables_.problem().job.global_batch; }
  [[nodiscard]] double limit() const { return result_.best.time; }

  /// Multisets of vectors in non-increasing index order.
  void choose_vectors(int left, int last, std::int64_t need) {
    if (!result_.complete) return;
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
    lists_.clear();
    for (const int v : vectors_) {
      const std::int64_t need = global_batch() - (total - samples_[static_cast<std::size_t>(v)]);
      lists_.push_back(columns(v, need));
      if (lists_.back()->empty() || !result_.complete) return;
    }
    // Real pipelines make fewer samples than the relaxation says.
    rest_.assign(lists_.size() + 1, 0);
    for (std::size_t i = lists_.size(); i-- > 0;) rest_[i] = rest_[i + 1] + lists_[i]->front().most;
    if (rest_.front() < global_batch()) return;
    chosen_.clear();
    combine(0, 0);
  }

  /// Columns on v, among them all that can finish `need` samples by the limit; those that finish most first.
  std::vector<Column>* columns(int v, std::int64_t need) {
    need = std::max<std::int64_t>(1, need);
    const auto [place, added] = known_.try_emplace(v);
    ColumnList& list = place->second;
    if (!added && list.need <= need) return &list.columns;
    const std::int64_t spare = added ? 0 : std::min(kSpareSamples, need - 1);
    list.need = need - spare;
    list.columns.clear();
    std::vector<Branch::TableKey> keys;
    for (const int b : tables_.problem().job.micro_batches) {
      const auto least = static_cast<int>((list.need + b - 1) / b);
      if (b > global_batch() || most_micro_batches(b, v) < least) continue;
      keys.push_back({b, least, spare});
    }
    branch_.prepare(keys);
    for (const Branch::TableKey& key : keys) {
      std::vector<std::vector<ChainStage>> chains;
      const PipelineTable& table = branch_.table(key.micro_batch, key.micro_batches, key.spare);
      std::vector<Candidate> candidates;
      if (!table.enumerate(v, limit(), budget_.chains, chains)) result_.complete = false;
      for (const std::vector<ChainStage>& chain : chains) {
        Candidate candidate{key.micro_batch, {}};
        add_splits(chain, key.micro_batches, candidate, candidates);
      }
      add_columns(candidates, key.micro_batches, list.columns);
      if (!result_.complete) return &list.columns;
    }
    std::stable_sort(list.columns.begin(), list.columns.end(),
                     [](const Column& a, const Column& b) { return a.most > b.most; });
    return &list.columns;
  }

  /// Most micro-batches of a size that one pipeline on v can finish, as far as the branch knew when first asked.
  int most_micro_batches(int micro_batch, int v) {
    const auto [place, added] = most_.try_emplace(micro_batch);
    if (added) place->second = branch_.most_micro_batches(micro_batch, limit());
    return place->second.empty() ? 0 : place->second[static_cast<std::size_t>(v)];
  }

  /// The chain with every split of its stages, where each stage alone is fast enough.
  void add_splits(const std::vector<ChainStage>& chain, int micro_batches, Candidate& candidate,
                  std::vector<Candidate>& candidates) {
    const StageTable& stages = tables_.stages(candidate.micro_batch);
    const std::size_t s = candidate.stages.size();
    if (s == chain.size()) {
      if (!has_twin(candidate)) candidates.push_back(candidate);
      return;
    }
    const int range = tables_.ranges().of(chain[s].layers.first, chain[s].layers.last);
    const int in_flight = stages.in_flight(chain.size() - s, micro_batches);
    for (int v = stages.first_variant(chain[s].port); v < stages.first_variant(chain[s].port + 1); ++v) {
      const double own = micro_batches * stages.time(v, range, in_flight) + stages.optimizer(v, range);
      if (!(own < limit())) continue;
      candidate.stages.push_back(
          {chain[s].port, stages.variants()[static_cast<std::size_t>(v)].split, chain[s].layers});
      add_splits(chain, micro_batches, candidate, candidates);
      candidate.stages.pop_back();
    }
  }

  /// Whether no plan needs the pipeline, as two others do in its place.
  [[nodiscard]] bool has_twin(const Candidate& candidate) const {
    const Job& job = tables_.problem().job;
    if (job.constraints.pipelines.max >= 0 || job.optimizer_sharding != OptimizerSharding::None) return false;
    return !tables_.leaves_out() && twin_of(tables_, candidate).has_value();
  }

  /// Times candidates, and keeps those that finish so many micro-batches by the limit.
  void add_columns(const std::vector<Candidate>& candidates, int micro_batches, std::vector<Column>& columns) {
    tables_.check_stop();
    result_.timings += static_cast<std::int64_t>(candidates.size());
    if (result_.timings > budget_.timings || columns.size() + candidates.size() >= budget_.chains * 8) {
      result_.complete = false;
      return;
    }
    std::vector<std::optional<Column>> made(candidates.size());
    for_each_index(made.size(), tables_.threads(),
                   [&](std::size_t i) { made[i] = column_of(candidates[i], micro_batches); });
    tables_.share().add(std::vector<std::int64_t>(made.size(), kCandidateWork));
    for (std::optional<Column>& column : made) {
      if (column) columns.push_back(std::move(*column));
    }
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

  /// One column for each vector; equal vectors in non-decreasing column order.
  ///   made   samples that the columns chosen so far finish at most
  void combine(std::size_t i, std::int64_t made) {
    if (!result_.complete) return;
    if (i == vectors_.size()) {
      score();
      return;
    }
    const bool repeats = i > 0 && vectors_[i] == vectors_[i - 1] && lists_[i] == lists_[i - 1];
    const std::size_t first = repeats ? chosen_[i - 1] : 0;
    for (std::size_t c = first; c < lists_[i]->size(); ++c) {
      const std::int64_t most = made + (*lists_[i])[c].most;
      if (most + rest_[i + 1] < global_batch()) return;  // and so for all that follow
      if (++result_.combinations > budget_.combinations) {
        result_.complete = false;
        return;
      }
      if (result_.combinations % 64 == 0) tables_.check_stop();
      chosen_.push_back(c);
      if (enough(i)) combine(i + 1, most);
      chosen_.pop_back();
    }
  }

  /// Whether the chosen columns, and the best of the vectors still open, can finish the batch before the limit.
  bool enough(std::size_t last) {
    double tail = 0.0;
    double share = branch_.range().sync_low;
    for (std::size_t i = 0; i <= last; ++i) {
      const Column& column = (*lists_[i])[chosen_[i]];
      tail = std::max(tail, column.optimizer);
      share = std::max(share, column.share);
    }
    // What is dear to know is only asked where what is cheap to know does not decide.
    const auto at_most = [](PipelineTimer& timer, double time, int most) { return timer.no_more_within(time, most); };
    const auto exactly = [](PipelineTimer& timer, double time, int most) { return timer.most_within(time, most); };
    if (!can_finish(last, tail + share, at_most) || !can_finish(last, tail + share, exactly)) return false;
    share = std::max(share, spread_share(last));
    return can_finish(last, tail + share, at_most) && can_finish(last, tail + share, exactly);
  }

  /// The same with this time after the pipelines, and micro-batches counted by `within`.
  template <typename Within>
  bool can_finish(std::size_t last, double after, Within within) {
    std::int64_t made = rest_[last + 1];
    for (std::size_t i = 0; i <= last; ++i) {
      Column& column = (*lists_[i])[chosen_[i]];
      const int b = column.candidate.micro_batch;
      made += static_cast<std::int64_t>(b) * within(column.timer, limit() - after, global_batch() / b);
    }
    return made >= global_batch();
  }

  /// Fills `holders_` for the columns chosen up to this one, those before it known already.
  void hold(std::size_t column) {
    const Problem& problem = tables_.problem();
    holders_.resize(vectors_.size());
    std::vector<Holders>& here = holders_[column];
    if (column == 0) {
      here.assign(static_cast<std::size_t>(problem.model.layer_count()), Holders{});
    } else {
      here = holders_[column - 1];
    }
    for (const CandidateStage& stage : candidate(column).stages) {
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

  [[nodiscard]] const Candidate& candidate(std::size_t column) const {
    return (*lists_[column])[chosen_[column]].candidate;
  }

  /// Gradient sync of some device at least, for layers that no placement can have on one node: their holders are of
  /// different groups, or too many devices. The pipelines still to be chosen hold every layer once more.
  double spread_share(std::size_t last) {
    if (tables_.problem().job.overlap_gradient_sync || vectors_.size() < 2) return 0.0;
    hold(last);
    const auto more = static_cast<int>(vectors_.size() - last) - 1;
    double most = 0.0;
    for (std::size_t i = 0; i <= last; ++i) {
      for (const CandidateStage& stage : candidate(i).stages) {
        most = std::max(most, spread_share(stage, holders_[last], more));
      }
    }
    return most;
  }

  [[nodiscard]] double spread_share(const CandidateStage& stage, const std::vector<Holders>& all, int more) const {
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
    return bytes == Bytes{0} ? 0.0 : gradient_sync_lower_bound(problem, shape, bytes).value();
  }

  /// Whether the chosen columns are a plan of this branch: another one holds them if not.
  [[nodiscard]] bool belongs() const {
    double share = 0.0;
    for (std::size_t i = 0; i < vectors_.size(); ++i) share = std::max(share, (*lists_[i])[chosen_[i]].share);
    return share >= branch_.range().sync_low;
  }

  void score() {
    if (!belongs()) return;
    tables_.check_stop();
    std::vector<Candidate> candidates;
    for (std::size_t i = 0; i < vectors_.size(); ++i) candidates.push_back((*lists_[i])[chosen_[i]].candidate);
    const auto most = static_cast<int>(std::min<std::int64_t>(budget_.placements, budget_.timings - result_.timings));
    Realised realised = realise(tables_, candidates, limit() * (1.0 - 1e-12), most);
    result_.timings += realised.tried;
    result_.complete = result_.complete && realised.complete;
    if (realised.time < limit()) result_.best = std::move(realised);
  }

  SearchTables& tables_;
  Branch& branch_;
  ClosureBudget budget_;
  const ResourceSpace& resources_;
  ClosureResult result_;
  std::vector<std::int64_t> samples_;
  std::vector<std::vector<std::int64_t>> within_;
  std::vector<int> vectors_;
  std::vector<std::vector<Column>*> lists_;
  std::vector<std::int64_t> rest_;  // samples that the best columns from here on finish
  std::vector<std::size_t> chosen_;
  std::vector<std::vector<Holders>> holders_;  // by columns chosen and layer
  std::map<int, ColumnList> known_;            // by vector
  std::map<int, std::vector<int>> most_;       // by micro-batch size and vector
};

}  // namespace

ClosureResult close_branch(SearchTables& tables, Branch& branch, double limit, const ClosureBudget& budget) {
  return Closure(tables, branch, limit, budget).run();
}

}  // namespace hpplan
