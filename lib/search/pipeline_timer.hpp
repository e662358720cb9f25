#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "schedule/stage_time.hpp"
#include "search/stage_table.hpp"
#include "simulate/one_f_one_b.hpp"

namespace hpplan {

struct Candidate;
class SearchTables;

/// Times of one pipeline by number of micro-batches, remembered; copies remember together. Infinity where a stage does
/// not fit. Not thread-safe.
class PipelineTimer {
 public:
  /// links[s]: seconds of the transfer from stage s to s + 1.
  PipelineTimer(SearchTables& tables, const Candidate& candidate, std::vector<double> links);

  /// A timer of the same pipeline that remembers on its own: for another thread.
  [[nodiscard]] PipelineTimer fork() const;
  [[nodiscard]] double time(int micro_batches);
  /// Whether `micro_batches` take no more than `limit`, which is finite: often told by a bound, which is quicker than a
  /// simulation.
  [[nodiscard]] bool within(int micro_batches, double limit) {
    return !(bound(micro_batches) > limit) && time(micro_batches) <= limit;
  }
  /// No less than most_within(), without a simulation.
  [[nodiscard]] int no_more_within(double limit, int most) const;
  /// Largest m in [0, most] whose time is at most `limit`; times never fall with m.
  [[nodiscard]] int most_within(double limit, int most);
  [[nodiscard]] int micro_batch() const { return micro_batch_; }
  /// Whether both have the same times.
  [[nodiscard]] bool same_as(const PipelineTimer& other) const {
    return table_ == other.table_ && variants_ == other.variants_ && classes_ == other.classes_ &&
           links_ == other.links_;
  }

 private:
  /// What copies share.
  struct Memory {
    std::map<int, double> times;
    std::vector<StageTime> stages;  // while the pipeline is full
    bool fits = false;              // when it is
    OneFOneBMarks marks;            // and of these
    std::vector<StepLine> lines;    // bounds of a full pipeline
    // The last question of most_within(), which is often asked again.
    double limit = 0.0;
    int most = 0;
    int answer = 0;
  };

  /// Whether as many micro-batches are in flight as there can be.
  [[nodiscard]] bool is_full(int micro_batches) const { return micro_batches >= static_cast<int>(variants_.size()); }

  [[nodiscard]] std::vector<StageTime> stages(int micro_batches) const;
  /// Never above the time.
  [[nodiscard]] double bound(int micro_batches) const;
  [[nodiscard]] int find_most_within(double limit, int most);

  const StageTable* table_;
  int micro_batch_;
  std::vector<int> variants_;
  std::vector<int> classes_;
  std::vector<double> links_;
  double slowest_ = 0.0;  // time of the slowest stage for one micro-batch, at its best
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
};

/// Timers of the pipelines of a plan; equal pipelines share one, as large plans have hundreds of them.
class PipelineTimers {
 public:
  void add(PipelineTimer timer);

  [[nodiscard]] std::size_t size() const { return owners_.size(); }
  [[nodiscard]] PipelineTimer& at(std::size_t pipeline) { return distinct_[owners_[pipeline]]; }
  [[nodiscard]] std::vector<PipelineTimer>& distinct() { return distinct_; }
  [[nodiscard]] int micro_batch(std::size_t pipeline) const { return distinct_[owners_[pipeline]].micro_batch(); }
  /// Whether of any two micro-batch sizes one divides the other.
  [[nodiscard]] bool nested_sizes() const { return nested_; }
  /// For each pipeline the largest number of micro-batches whose time is at most `limit`.
  [[nodiscard]] std::vector<int> most_within(double limit, int global_batch);

 private:
  std::vector<PipelineTimer> distinct_;
  std::vector<std::size_t> owners_;  // by pipeline
  bool nested_ = true;
};

/// Splits the global batch: the m_i >= 1 with sum of micro_batch_i * m_i == global_batch that minimise the slowest
/// pipeline (search-notes C.6); nothing if no split is exact or every split exceeds `limit`.
struct Allocation {
  std::vector<int> micro_batches;
  double time = 0.0;
};
[[nodiscard]] std::optional<Allocation> allocate(PipelineTimers& timers, int global_batch, double limit);

}  // namespace hpplan
