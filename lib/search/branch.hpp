#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "search/candidate.hpp"
#include "search/pipeline_table.hpp"
#include "search/sync_share.hpp"

namespace hpplan {

/// A part of the search space: plans of so many pipelines whose largest own share of the gradient sync lies in
/// [sync_low, sync_high).
struct BranchRange {
  PipelineCount pipelines;
  double sync_low = 0.0;
  double sync_high = kInfinity;
};

/// One pipeline of a relaxed plan.
struct RelaxedPipeline {
  int micro_batch = 1;
  int micro_batches = 1;
  int vector = 0;
};

/// The relaxation of one branch: pipelines cost their g of the pipeline table, the batch need not be met exactly.
class Branch {
 public:
  /// Nothing above `limit` is of interest, now or later.
  ///   wider   a branch whose every stage option is at least as good (fewer pipelines, or a range around this one) and
  ///           whose limit is no lower: its tables bound this branch's from below (CPC). May be null.
  Branch(SearchTables& tables, const BranchRange& range, double limit, const Branch* wider);

  [[nodiscard]] const BranchRange& range() const { return range_; }
  [[nodiscard]] double limit() const { return limit_; }

  /// Pipelines that finish the global batch by `target` in the relaxation, or nothing: then no plan of this branch is
  /// as fast as `target`.
  [[nodiscard]] std::optional<std::vector<RelaxedPipeline>> relaxed(double target);

  /// A candidate for each relaxed pipeline.
  [[nodiscard]] std::vector<Candidate> candidates(const std::vector<RelaxedPipeline>& pipelines);

  /// Most samples that one pipeline on vector v can finish by `target` (an upper bound), over all micro-batch sizes.
  [[nodiscard]] std::vector<std::int64_t> samples_by(double target);
  /// [v]: most micro-batches of this size that one pipeline on v can finish by `target` (an upper bound); empty for a
  /// size that no stage of the branch can run.
  [[nodiscard]] std::vector<int> most_micro_batches(int micro_batch, double target) const;

  [[nodiscard]] std::int64_t transitions() const { return transitions_; }
  [[nodiscard]] std::int64_t tables_built() const { return tables_built_; }
  [[nodiscard]] std::int64_t tables_reused() const { return tables_reused_; }

  /// The pipeline table of (b, m) for this branch; values above `limit` are dropped, and vectors that no plan within
  /// the limit would let make so few samples.
  ///   spare   samples beyond b m that the vector may in fact have to make
  [[nodiscard]] const PipelineTable& table(int micro_batch, int micro_batches, std::int64_t spare = 0);

  /// A table that will be asked for.
  struct TableKey {
    int micro_batch = 1;
    int micro_batches = 1;
    std::int64_t spare = 0;

    friend auto operator<=>(const TableKey&, const TableKey&) = default;
  };
  /// Computes tables side by side. A few are kept, so that many must not be asked for at once.
  void prepare(const std::vector<TableKey>& keys);

  /// Largest own share of the gradient sync over the stages of the candidates.
  [[nodiscard]] double sync_share(std::span<const Candidate> candidates) const;

  /// [p][n]: most samples within vector n by exactly p pipelines; -1 where there are none.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> global_table(const std::vector<std::int64_t>& samples) const;

 private:
  /// Least g over resource vectors for one number of micro-batches.
  struct Slice {
    std::vector<double> least;  // infinity beyond the limit, NaN outside the domain
    std::int64_t spare = 0;     // of the table
  };
  struct Bracket {
    std::vector<int> low;   // confirmed
    std::vector<int> high;  // upper bound
    std::vector<int> step;  // from there down to the number that is tried next

    [[nodiscard]] bool is_open(std::size_t v) const { return low[v] < high[v]; }
    [[nodiscard]] int next(std::size_t v) const { return std::max(low[v] + 1, high[v] - step[v]); }
  };
  struct Size {
    int micro_batch = 1;
    std::unique_ptr<OptionTable> options;
    std::vector<double> rates;       // per group: share of the model's work that one device does per second, at best
    double fixed = 0.0;              // least tail of any stage
    std::map<int, Slice> slices;     // by number of micro-batches
    std::map<int, Slice> inherited;  // of wider branches: lower bounds of g
    Bracket within;                  // the limit, kept up to date as that is asked for most
  };

  [[nodiscard]] Size make_size(const StageTable& stages) const;
  static void inherit(const Branch& wider, Size& size);
  [[nodiscard]] double own_share(const StageTable& stages, int variant, int range_class) const;
  [[nodiscard]] Size& size_of(int micro_batch);
  void compute_slices(const std::vector<TableKey>& keys);
  void tighten_prices();
  [[nodiscard]] Bracket bracket(const Size& size, double target) const;
  [[nodiscard]] Bracket make_bracket(const Size& size, double target) const;
  [[nodiscard]] static std::int64_t spare_of(const Size& size, std::size_t v, const Bracket& bracket);
  [[nodiscard]] static bool knows_next(const Size& size, std::size_t v, const Bracket& bracket);
  static void want(std::vector<TableKey>& missing, const TableKey& key);
  void try_next(const Size& size, std::size_t v, double target, Bracket& bracket) const;
  enum class Source { Own, Inherited };
  void tighten(const Size& size, int micro_batches, const Slice& least, Source source, double target,
               Bracket& bracket) const;
  [[nodiscard]] std::vector<RelaxedPipeline> best_combination(const std::vector<std::int64_t>& samples, int pipelines,
                                                              const std::vector<std::vector<std::int64_t>>& most) const;

  SearchTables* tables_;
  BranchRange range_;
  double limit_;
  NodeLoad load_;
  std::vector<Size> sizes_;
  std::vector<double> prices_;  // of every resource vector, in samples; valid for plans within the limit
  double slack_ = 0.0;          // samples that such a plan may waste in all
  std::map<TableKey, std::unique_ptr<PipelineTable>> recent_;  // a few
  std::int64_t transitions_ = 0;
  std::int64_t tables_built_ = 0;
  std::int64_t tables_reused_ = 0;
};

}  // namespace hpplan
