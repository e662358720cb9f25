#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
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

  [[nodiscard]] std::span<const StageOption> at(int port, int range_class, int in_flight) const {
    const std::size_t here = cell(port, range_class, in_flight);
    return {options_.data() + starts_[here], options_.data() + starts_[here + 1]};
  }
  [[nodiscard]] int depth() const { return depth_; }

 private:
  [[nodiscard]] std::size_t cell(int port, int range_class, int in_flight) const {
    return (static_cast<std::size_t>(in_flight - 1) * static_cast<std::size_t>(ports_) +
            static_cast<std::size_t>(port)) *
               static_cast<std::size_t>(ranges_) +
           static_cast<std::size_t>(range_class);
  }

  int ports_ = 0;
  int ranges_ = 0;
  int depth_ = 0;
  std::vector<std::uint32_t> starts_;  // [cell], cells in the order in which a table asks for them; and the end
  std::vector<StageOption> options_;
  std::vector<int> reach_;  // [cell]
};

/// One stage of a pipeline found by the table; the split is chosen afterwards.
struct ChainStage {
  int port = 0;
  LayerRange layers;
};

/// The pipelines of one micro-batch size and one number of micro-batches over all resource vectors, by dynamic
/// programming from the last stage (DPO). For a suffix of k stages that starts at `layer` on `port` and uses resources
/// v it holds the least S = t_s + 2 c_s + S of the rest, the time of one micro-batch there and back, the least W, the
/// excess of a window that starts here over `rate_` per stage, and the least
///     g = max( m t_s + tail_s,  t_s + 2 c_s + g of the rest,
///              (m - k + 1) t_s + 2 (2 c_s + S of the rest) + tail_s,
///              (m - 1 - k) lambda + 2 S - 4 c + least tail )
/// over its stages, each by itself: a lower bound of the suffix's time after the stages before it (search-notes C.10
/// and C.5). lambda is the largest average of a window of stages that starts here, as far as W tells; 4 c is twice the
/// round trip over the slowest link. k gives the in-flight depth min(m, k), so memory is exact. Transfers c_s are
/// priced at the best placement.
///
/// Why the last term holds. Let lambda' be the largest average of any window inside the suffix, of n stages from j' on.
/// A path that enters j', goes round the window as often as it can and once more round its first stages takes at least
/// S_0 + S_j' + (m - 1 - w_j') lambda' - 2 c: the part left out averages at most lambda'. Between j and j' windows
/// average at most lambda' too, so S_j - S_j' <= (j' - j) lambda' + 2 c, which gives the same for j with 4 c. It is
/// left out where it would not grow at least in proportion to m, see Branch::tighten.
///
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
    double budget = kInfinity;  // b m + slack
    double least_tail = 0.0;    // of any stage
    /// Called between pieces of the table's work, to end it by an exception; may be empty.
    std::function<void()> check_stop;
  };

  PipelineTable(const Input& input, int micro_batches, double limit);

  /// Whether best()[v] is exact: the vector is not too dear for this number of micro-batches.
  [[nodiscard]] bool in_domain(int v) const { return price(v) <= input_.budget; }

  /// Least g of a whole pipeline on exactly the resources v; infinity if there is none within the limit.
  [[nodiscard]] const std::vector<double>& best() const { return best_; }
  /// A pipeline that reaches best()[v]. Ties: fewest stages, then the smallest port, then the fewest layers first.
  [[nodiscard]] std::vector<ChainStage> trace(int v) const;
  /// Every pipeline on exactly v whose g is at most `limit`, in canonical order; stops after `most` and says so by
  /// returning false.
  [[nodiscard]] bool enumerate(int v, double limit, std::size_t most,
                               std::vector<std::vector<ChainStage>>& found) const;
  /// Transitions computed: the work of this table.
  [[nodiscard]] std::int64_t transitions() const { return transitions_; }

 private:
  /// Values of the resource vectors in [first, last); those of all others are infinite. `values` is null while all are.
  struct Row {
    double* values = nullptr;   // g
    double* sums = nullptr;     // S
    double* windows = nullptr;  // W
    int first = 0;
    int last = 0;
    double least_price = 0.0;  // of any vector with a value
  };
  /// What one stage option in front of a suffix adds, without what depends on the suffix.
  struct Step {
    double floor = 0.0;   // m t + tail
    double shift = 0.0;   // t + 2 c
    double around = 0.0;  // (m - k + 1) t + 4 c + tail; minus infinity where m <= k
    double excess = 0.0;  // t - rate
    double link = 0.0;    // 2 c
    double loops = 0.0;   // m - 1 - k
    double over = 0.0;    // loops / k: a window above the rate may be as long as the suffix
    double base = 0.0;    // loops rate + least tail - 4 c; minus infinity where there is no loop
    double fixed = 0.0;   // base - m rate
    double slope = 0.0;   // (k + 1) / loops
  };
  [[nodiscard]] std::size_t row(int k, int layer, int port) const;
  [[nodiscard]] double value(int k, int layer, int port, int v) const;
  [[nodiscard]] int depth(int k) const;
  [[nodiscard]] double transfer(int from, int to) const;
  /// Gives a row values of [first, last), infinite where it had none.
  void widen(Row& row, int first, int last);
  /// Takes a row's values away.
  void clear(Row& row);
  void seed_last_stages();
  void prepend(int k);
  [[nodiscard]] double affordable(double completion) const;
  [[nodiscard]] Step step_of(int k, const StageOption& option, double transfer_time) const;
  /// Lowers g, S and W of `count` consecutive vectors. Pointers, not structs: the compiler then makes lanes of the
  /// loop.
  static void relax_span(const Step& step, double limit, int count, const double* from_g, const double* from_sum,
                         const double* from_window, double* to_g, double* to_sum, double* to_window);
  void relax(Row& to, const Row& from, int port, const Step& step);
  void drop(Row& values, double completion);
  [[nodiscard]] double price(int v) const {
    return input_.prices == nullptr ? 0.0 : (*input_.prices)[static_cast<std::size_t>(v)];
  }
  [[nodiscard]] std::vector<double> stage_prices(int in_flight) const;
  void price_completions();
  [[nodiscard]] std::vector<ChainStage> trace_from(int k, int port, int v) const;
  struct Walk;
  bool descend(Walk& walk, int k, int layer, int v, int previous, double prefix) const;

  Input input_;
  int micro_batches_ = 1;
  double limit_ = 0.0;
  double rate_ = 0.0;  // W counts from here; any value is valid, the best is near the true rate
  double slowest_link_ = 0.0;
  int layers_ = 0;
  int ports_ = 0;
  int stages_ = 0;                                 // largest number of stages that has a feasible suffix
  std::vector<Row> rows_;                          // [k][layer][port]
  std::vector<std::unique_ptr<double[]>> blocks_;  // of values for some rows each
  std::vector<double*> spare_;                     // values of a row each, in a block
  std::vector<double> best_;
  /// [k][layer]: least price of stages that cover the layers before `layer` when k stages follow them.
  std::vector<std::vector<double>> completions_;
  std::int64_t transitions_ = 0;
};

}  // namespace hpplan
