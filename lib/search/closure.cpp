#include "search/closure.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace hpplan {

namespace {

/// A pipeline with its links priced at best, and what it adds after the pipelines at least.
struct Column {
  Candidate candidate;
  double optimizer = 0.0;
  PipelineTimer timer;
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
    choose_vectors(resources_.full(), resources_.full(), global_batch());
    return std::move(result_);
  }

 private:
  [[nodiscard]] int global_batch() const { return tables_.problem().job.global_batch; }
  [[nodiscard]] double limit() const { return result_.best.time; }

  /// Multisets of vectors in non-increasing index order.
  void choose_vectors(int left, int last, std::int64_t need) {
    if (!result_.complete) return;
    const auto count = static_cast<int>(vectors_.size());
    if (need <= 0 && count >= branch_.pipelines_first()) choose_columns();
    if (count >= branch_.pipelines_last()) return;
    const auto more = static_cast<std::size_t>(branch_.pipelines_last() - count);
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
    chosen_.clear();
    combine(0);
  }

  /// Columns on v that can finish `need` samples by the limit.
  std::vector<Column>* columns(int v, std::int64_t need) {
    std::vector<Column>& list = known_[{v, std::max<std::int64_t>(1, need)}];
    if (!list.empty()) return &list;
    for (const int b : tables_.problem().job.micro_batches) {
      const auto least = static_cast<int>(std::max<std::int64_t>(1, (need + b - 1) / b));
      if (b > global_batch() || branch_.most_micro_batches(b, v, limit()) < least) continue;
      std::vector<std::vector<ChainStage>>& chains = chains_[{v, b, least}];
      if (chains.empty()) {
        if (!branch_.table(b, least).enumerate(v, limit(), budget_.chains, chains)) {
          result_.complete = false;
          return &list;
        }
      }
      for (const std::vector<ChainStage>& chain : chains) {
        Candidate candidate{b, {}};
        add_splits(chain, least, candidate, list);
      }
    }
    return &list;
  }

  void add_splits(const std::vector<ChainStage>& chain, int micro_batches, Candidate& candidate,
                  std::vector<Column>& list) {
    const StageTable& stages = tables_.stages(candidate.micro_batch);
    const std::size_t s = candidate.stages.size();
    if (s == chain.size()) {
      add_column(candidate, micro_batches, list);
      return;
    }
    const int range = tables_.ranges().of(chain[s].layers.first, chain[s].layers.last);
    const int in_flight =
        std::min({micro_batches, static_cast<int>(chain.size() - s), stages.max_in_flight()});
    for (int v = stages.first_variant(chain[s].port); v < stages.first_variant(chain[s].port + 1); ++v) {
      const double own = micro_batches * stages.time(v, range, in_flight) + stages.optimizer(v, range);
      if (!(own < limit())) continue;
      candidate.stages.push_back({chain[s].port, stages.variants()[static_cast<std::size_t>(v)].split, chain[s].layers});
      add_splits(chain, micro_batches, candidate, list);
      candidate.stages.pop_back();
    }
  }

  void add_column(const Candidate& candidate, int micro_batches, std::vector<Column>& list) {
    if (list.size() % 64 == 0) tables_.check_stop();
    if (list.size() >= budget_.chains * 8) {
      result_.complete = false;
      return;
    }
    const double optimizer = slowest_optimizer(tables_, {&candidate, 1});
    Column column{candidate, optimizer, PipelineTimer(tables_, candidate, best_links(tables_, candidate))};
    const double share = branch_.sync_share({candidate});
    if (column.timer.time(micro_batches) + optimizer + share < limit()) list.push_back(std::move(column));
  }

  /// One column for each vector; equal vectors in non-decreasing column order.
  void combine(std::size_t i) {
    if (!result_.complete) return;
    if (i == vectors_.size()) {
      score();
      return;
    }
    const bool repeats = i > 0 && vectors_[i] == vectors_[i - 1] && lists_[i] == lists_[i - 1];
    const std::size_t first = repeats ? chosen_[i - 1] : 0;
    for (std::size_t c = first; c < lists_[i]->size(); ++c) {
      if (++result_.combinations > budget_.combinations) {
        result_.complete = false;
        return;
      }
      if (result_.combinations % 64 == 0) tables_.check_stop();
      chosen_.push_back(c);
      if (enough(i)) combine(i + 1);
      chosen_.pop_back();
    }
  }

  /// Whether the chosen columns, and the best of the vectors still open, can finish the batch before the limit.
  bool enough(std::size_t last) {
    double tail = 0.0;
    std::vector<Candidate> candidates;
    for (std::size_t i = 0; i <= last; ++i) {
      const Column& column = (*lists_[i])[chosen_[i]];
      tail = std::max(tail, column.optimizer);
      candidates.push_back(column.candidate);
    }
    const double share = branch_.sync_share(candidates);
    std::int64_t made = 0;
    for (std::size_t i = 0; i <= last; ++i) {
      Column& column = (*lists_[i])[chosen_[i]];
      const int b = column.candidate.micro_batch;
      made += static_cast<std::int64_t>(b) * column.timer.most_within(limit() - tail - share, global_batch() / b);
    }
    for (std::size_t i = last + 1; i < vectors_.size(); ++i) made += samples_[static_cast<std::size_t>(vectors_[i])];
    return made >= global_batch();
  }

  void score() {
    tables_.check_stop();
    std::vector<Candidate> candidates;
    for (std::size_t i = 0; i < vectors_.size(); ++i) candidates.push_back((*lists_[i])[chosen_[i]].candidate);
    Realised realised = realise(tables_, candidates, limit() * (1.0 - 1e-12), budget_.placements);
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
  std::vector<std::size_t> chosen_;
  std::map<std::pair<int, std::int64_t>, std::vector<Column>> known_;
  std::map<std::tuple<int, int, int>, std::vector<std::vector<ChainStage>>> chains_;
};

}  // namespace

ClosureResult close_branch(SearchTables& tables, Branch& branch, double limit, const ClosureBudget& budget) {
  return Closure(tables, branch, limit, budget).run();
}

}  // namespace hpplan
