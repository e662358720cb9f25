#pragma once

#include <vector>

#include "search/space.hpp"
#include "search/stage_table.hpp"

namespace hpplan {

/// What a stage option costs inside one branch of the search: `time` is F + B of one micro-batch, `tail` is time that
/// any plan of the branch spends after its pipelines because of this stage (gradient sync and optimizer bounds).
struct StageOption {
  double time = 0.0;
  double tail = 0.0;
};

/// Stage options of one micro-batch size and one branch: for each port, range class and in-flight depth the
/// Pareto-optimal (time, tail) pairs over the splits.
class OptionTable {
 public:
  /// tails[variant][range class]: infinity removes the variant for that range.
  /// limit: nothing slower is of interest.
  OptionTable(const StageTable& stages, int ports, int range_count, const std::vector<std::vector<double>>& tails,
              double limit);

  /// Largest number of micro-batches that some option of the stage runs within the limit; 0 if none does. Never rises
  /// when layers are added to a range, unless the range then begins the model: it needs fewer buffers.
  [[nodiscard]] int reach(int port, int range_class, int in_flight) const {
    return reach_[cell(port, range_class, in_flight)];
  }

  [[nodiscard]] const std::vector<StageOption>& at(int port, int range_class, int in_flight) const {
    return options_[cell(port, range_class, in_flight)];
  }
  [[nodiscard]] int depth() const { return depth_; }

 private:
  [[nodiscard]] std::size_t cell(int port, int range_class, int in_flight) const {
    return (static_cast<std::size_t>(port) * static_cast<std::size_t>(ranges_) + static_cast<std::size_t>(range_class)) *
               static_cast<std::size_t>(depth_) +
           static_cast<std::size_t>(in_flight - 1);
  }

  int ranges_ = 0;
  int depth_ = 0;
  std::vector<std::vector<StageOption>> options_;
  std::vector<int> reach_;
};

/// One stage of a pipeline found by the table; the split is chosen afterwards.
struct ChainStage {
  int port = 0;
  LayerRange layers;
};

/// The pipelines of one micro-batch size and one number of micro-batches over all resource vectors, by dynamic
/// programming from the last stage (DPO). For a suffix of k stages that starts at `layer` on `port` and uses resources v
/// it holds the least
///     g = max( m t_s + tail_s , t_s + 2 c_s + g of the rest )
/// over its stages, a lower bound of the suffix's time after the stages before it (search-notes C.10); k gives the
/// in-flight depth min(m, k), so memory is exact. Transfers c_s are priced at the best placement.
/// Values above `limit` are dropped (SES), and so are suffixes that waste too much: with prices per device that no
/// pipeline's samples exceed, a plan that finishes the batch wastes at most `slack` samples in all, so a suffix whose
/// price plus the least price of the layers before it exceeds b m + slack is in no such plan. Vectors whose own price
/// exceeds b m + slack are outside the table's domain.
/// Work: O(stages * layers^2 * ports^2 * splits * vectors) at most.
class PipelineTable {
 public:
  struct Input {
    const Space* space = nullptr;
    const RangeClasses* ranges = nullptr;
    const OptionTable* options = nullptr;
    /// transfer[from * ports + to]: seconds of one micro-batch's tensor; infinity forbids the neighbourhood.
    const std::vector<double>* transfer = nullptr;
    int min_stages = 1;
    /// prices[v]: samples that the devices of v are worth; empty: nothing is dropped for waste.
    const std::vector<double>* prices = nullptr;
    double budget = kInfinity;   // b m + slack
  };

  PipelineTable(const Input& input, int micro_batches, double limit);

  /// Whether best()[v] is exact: the vector is not too dear for this number of micro-batches.
  [[nodiscard]] bool in_domain(int v) const { return price(v) <= input_.budget; }

  [[nodiscard]] int micro_batches() const { return micro_batches_; }
  /// Least g of a whole pipeline on exactly the resources v; infinity if there is none within the limit.
  [[nodiscard]] const std::vector<double>& best() const { return best_; }
  /// A pipeline that reaches best()[v]. Ties: fewest stages, then the smallest port, then the fewest layers first.
  [[nodiscard]] std::vector<ChainStage> trace(int v) const;
  /// Every pipeline on exactly v whose g is at most `limit`, in canonical order; stops after `most` and says so by
  /// returning false.
  [[nodiscard]] bool enumerate(int v, double limit, std::size_t most, std::vector<std::vector<ChainStage>>& found) const;
  /// Transitions computed: the work of this table.
  [[nodiscard]] std::int64_t transitions() const { return transitions_; }

 private:
  /// Values over resource vectors; [first, last) holds all finite ones.
  struct Row {
    std::vector<double> values;
    int first = 0;
    int last = 0;
  };

  [[nodiscard]] std::size_t row(int k, int layer, int port) const;
  [[nodiscard]] double value(int k, int layer, int port, int v) const;
  [[nodiscard]] int depth(int k) const;
  [[nodiscard]] double transfer(int from, int to) const;
  void seed_last_stages();
  void prepend(int k);
  void relax(Row& to, const Row& from, int port, const StageOption& option, double transfer_time);
  void drop(Row& values, double completion) const;
  [[nodiscard]] double price(int v) const {
    return input_.prices == nullptr ? 0.0 : (*input_.prices)[static_cast<std::size_t>(v)];
  }
  void price_completions();
  [[nodiscard]] std::vector<ChainStage> trace_from(int k, int port, int v) const;
  struct Walk;
  bool descend(Walk& walk, int k, int layer, int v, int previous, double prefix) const;

  Input input_;
  int micro_batches_ = 1;
  double limit_ = 0.0;
  int layers_ = 0;
  int ports_ = 0;
  int stages_ = 0;          // largest number of stages that has a feasible suffix
  std::vector<Row> rows_;   // [k][layer][port]; empty when all values are infinite
  std::vector<double> best_;
  /// [k][layer]: least price of stages that cover the layers before `layer` when k stages follow them.
  std::vector<std::vector<double>> completions_;
  std::int64_t transitions_ = 0;
};

}  // namespace hpplan
