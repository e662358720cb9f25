#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "predict/gradient_sync.hpp"
#include "search/branch.hpp"
#include "search/realise.hpp"

namespace hpplan {

/// A pipeline with its links priced at best, and what it adds after the pipelines at least.
struct Column {
  Candidate candidate;
  double optimizer = 0.0;
  double share = 0.0;  // of the gradient sync: the stages' own
  PipelineTimer timer;
  std::int64_t most = 0;  // samples by the limit, whatever the other pipelines are
};

/// Columns on one resource vector, those that finish most first.
using ColumnList = std::vector<Column>;

/// A column is to be chosen from each list. Equal lists are neighbours, and one in memory.
struct ColumnLists {
  std::vector<std::shared_ptr<const ColumnList>> lists;
  std::vector<std::int64_t> rest;  // [i]: samples that the best columns of the lists from i on finish
};

/// Sets of pipelines that begin with one column of the first list.
struct Family {
  std::shared_ptr<const ColumnLists> lists;
  std::size_t first = 0;
};

/// What all families of a wave may cost together. Safe to use from several threads.
class WaveBudget {
 public:
  WaveBudget(std::int64_t combinations, std::int64_t timings) : combinations_(combinations), timings_(timings) {}

  void spend(std::int64_t combinations, std::int64_t timings) {
    const bool enough = (combinations_ -= combinations) >= 0 && (timings_ -= timings) >= 0;
    if (!enough) spent_ = true;
  }
  /// Whether there was too little. Once all families have ended this does not depend on their order.
  [[nodiscard]] bool spent() const { return spent_; }

 private:
  std::atomic<std::int64_t> combinations_;
  std::atomic<std::int64_t> timings_;
  std::atomic<bool> spent_ = false;
};

/// What a look at all sets of a family came to.
struct FamilyResult {
  Realised best;                  // the best plan below the limit, if any
  bool complete = true;           // every placement of every set was tried
  bool stopped = false;           // by the tables' check_stop(), with the best plan until then
  std::int64_t combinations = 0;  // sets, and parts of sets, looked at
  std::int64_t timings = 0;       // placements priced
};

/// Scores the plans of one family after the other. One for each thread.
class FamilySearch {
 public:
  ///   tables   of this thread (SearchTables::fork)
  ///   range    whose plans spend its lower end on the gradient sync at least; a plan of a range below may come too
  FamilySearch(SearchTables& tables, const BranchRange& range) : tables_(tables), range_(range) {}

  /// Ends early where the budget of the wave is spent: how far it came then depends on the other families.
  ///   placements   that may be priced of one set of pipelines
  [[nodiscard]] FamilyResult run(const Family& family, double limit, int placements, WaveBudget& budget);

 private:
  using Timers = std::vector<std::optional<PipelineTimer>>;  // by column
  /// What holds a layer in the pipelines chosen so far.
  struct Holders {
    int group = -1;
    int devices = 0;
    int replicas = 0;
    bool mixed = false;  // of different node groups
  };

  [[nodiscard]] int global_batch() const { return tables_.problem().job.global_batch; }
  [[nodiscard]] double limit() const { return found_.best.time; }
  [[nodiscard]] std::size_t size() const { return lists_->lists.size(); }
  [[nodiscard]] const Column& column(std::size_t i) const { return (*lists_->lists[i])[chosen_[i]]; }
  PipelineTimer& timer(std::size_t i);
  void count();
  void combine(std::size_t i, std::int64_t made);
  void take(std::size_t i, std::size_t c, std::int64_t made);
  [[nodiscard]] bool enough(std::size_t last);
  template <typename Within>
  [[nodiscard]] bool can_finish(std::size_t last, double after, Within within);
  void hold(std::size_t last);
  [[nodiscard]] double spread_share(std::size_t last, double known);
  [[nodiscard]] double spread_share(const CandidateStage& stage, const std::vector<Holders>& all, int more,
                                    double known);
  [[nodiscard]] double each_byte(int port, const SyncShape& shape);
  void score();

  SearchTables& tables_;
  BranchRange range_;
  int placements_ = 0;
  FamilyResult found_;
  std::int64_t counted_combinations_ = 0;  // of `found_`, against the budget
  std::int64_t counted_timings_ = 0;
  WaveBudget* budget_ = nullptr;
  const ColumnLists* lists_ = nullptr;
  std::vector<Timers*> timers_;  // of `lists_`
  std::vector<std::size_t> chosen_;
  std::vector<std::vector<Holders>> holders_;                       // by columns chosen and layer
  std::unordered_map<std::uint64_t, double> each_byte_;             // by port, TP degree and replicas
  std::map<std::shared_ptr<const ColumnList>, Timers> all_timers_;  // they remember: every thread has its own
  std::size_t timer_count_ = 0;                                     // of all these
};

}  // namespace hpplan
