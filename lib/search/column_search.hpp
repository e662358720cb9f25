#pragma once

#include <map>
#include <memory>
#include <queue>
#include <span>
#include <vector>

#include "search/packing_lp.hpp"
#include "search/pricing.hpp"

namespace hpplan {

/// The global problem with prices instead of resource vectors (search-notes C.11): pipelines are columns of a packing
/// problem over the devices of every node group, and its linear relaxation bounds the samples that any plan finishes by
/// a time. Work does not grow with the number of devices, only with the number of ports.
///
/// The columns are cut into cells by micro-batch size, numbers of stages and of micro-batches. A sheet bounds the cells
/// of all numbers of stages at once; where cells are still worth their price it is made sharper, if that is cheaper
/// than what follows: a cell is halved while it is wide, and priced by a DP in the end. Prices start where the sheets
/// bound best, and follow the packing of what was found.
///
/// A plan has no more than so many pipelines, which gives each of them a price, and no fewer than so many. With a
/// credit c for each, and at least P of them, no plan makes more samples than all devices are worth at prices that no
/// pipeline's samples + c exceed, less c P: many pipelines are small, with many layers on each device.
class ColumnSearch {
 public:
  /// Plans with `pipelines` pipelines; nothing slower than `limit` is of interest, now or later.
  ColumnSearch(SearchTables& tables, PipelineCount pipelines, double limit, int threads);

  /// Moves the prices to where the sheets alone bound the samples by `target` best: the DP is slow at prices that make
  /// one group of devices, or the right to a pipeline, a bargain.
  void calibrate(double target);
  /// Starts with the prices that another search ended with, and with what a DP cost there.
  void start_from(const ColumnSearch& other) {
    center_ = other.center_;
    first_cost_ = other.pricing_cost();
  }
  /// From now on pipelines have the places that their nodes have room for: sharper bounds for more work.
  void count_nodes();
  [[nodiscard]] bool counts_nodes() const { return nodes_ == Pricer::Nodes::Counted; }

  enum class Answer { Impossible, Possible, TooMuchWork };
  /// Impossible: no plan finishes the global batch by `target` (proved). Possible: the relaxation finishes it.
  /// TooMuchWork: not known after about `most_work`.
  [[nodiscard]] Answer can_finish(double target, std::int64_t most_work);
  /// After TooMuchWork: the time by which what was bounded would have been Impossible, if samples grow with time.
  [[nodiscard]] double likely() const { return likely_; }

  /// Offers a pipeline as a column.
  void offer(const Candidate& candidate) { add(candidate, 0.0); }

  /// Adds every column (cheapest of its micro-batch size, stage count and micro-batch range) that is within `loss` of
  /// being worth its price by `target`.
  void harvest(double target, double loss, std::int64_t most_work);

  /// Pipelines out of the known columns that finish the batch by `target` and fit the devices, as far as counts tell;
  /// empty if the known ones do not.
  [[nodiscard]] std::vector<Candidate> assemble(double target);

  /// Transitions of all DPs, each pricing counted with what it costs beside them.
  [[nodiscard]] std::int64_t work() const { return transitions_ + pricing_ + kPricing * priced_; }

 private:
  static constexpr std::int64_t kPricing = 2000;
  struct Times {
    PipelineTimer pipeline;
    double tail = 0.0;  // after it
  };
  struct Column {
    Candidate candidate;
    Times times;
    std::vector<double> use;  // of every row
    double relaxed = 0.0;     // samples that the relaxation makes of it by the current target
    int vector = 0;           // of the resource space
  };
  /// A part of the columns: one micro-batch size, number of stages and range of micro-batches.
  struct Cell {
    std::size_t size = 0;
    int stages = 0;
    int first = 0;  // micro-batches
    int last = 0;
    double price = 0.0;   // of the cheapest at `first`, a lower bound for all
    bool priced = false;  // by the DP, not only by the sheet

    friend auto operator<=>(const Cell&, const Cell&) = default;
  };
  using SheetKey = std::pair<std::size_t, int>;  // size, micro-batches
  [[nodiscard]] static SheetKey key_of(const Cell& cell) { return {cell.size, cell.first}; }
  [[nodiscard]] static int middle_of(const Cell& cell) { return cell.first + (cell.last - cell.first) / 2 + 1; }
  struct PassSheet {
    PriceSheet sheet;
    bool sharp = false;
  };
  /// A point at which prices are compared.
  struct Probe {
    std::size_t size = 0;
    int micro_batches = 1;
    double worth = 0.0;
  };
  /// Cells that are dealt with together, whatever the number of threads.
  struct Wave {
    std::vector<Cell> due;          // to be priced by a DP each
    std::vector<Cell> dull;         // one for each sheet that is to be made sharper
    std::vector<Cell> waiting;      // for those sheets
    std::vector<Cell> wide;         // to be halved
    std::vector<SheetKey> missing;  // sheets of their upper halves
  };
  /// One look at all columns at one target and one set of prices.
  struct Pass {
    double target = 0.0;
    const Prices* prices = nullptr;
    double ratio = 0.0;  // cells worth no more are dropped
    std::map<SheetKey, PassSheet> sheets;
    std::priority_queue<std::pair<double, Cell>> cells;  // by worth
    std::vector<Cell> due;                               // taken from there: DPs are cheapest in company
  };

  /// Sharp splits cells until the answer is as sharp as it gets; Harvest takes one pipeline of each.
  enum class Depth { Sharp, Harvest };
  struct Look {
    double ratio = 0.0;  // no pipeline exceeds it
    bool complete = true;
  };
  /// Looks at all cells whose pipelines may be worth more than `ratio` samples for the price of one; adds what it
  /// finds. Not complete if the work of the search exceeds `most_work` before.
  Look price_all(double target, const Prices& prices, double ratio, double known, Depth depth, std::int64_t most_work);
  void open_cells(Pass& pass);
  void make_sheets(Pass& pass, const Wave& wave);
  [[nodiscard]] bool worth_sharpening(const Pass& pass, const Cell& cell, bool coarse) const;
  [[nodiscard]] Wave next_wave(Pass& pass, double sharp, std::int64_t work_left) const;
  [[nodiscard]] std::vector<Pricer::Priced> price_cells(const Pass& pass, const std::vector<Cell>& cells, double floor,
                                                        std::int64_t work_left);
  void keep(Pass& pass, const Cell& cell) const;
  void split(Pass& pass, const Cell& cell) const;
  [[nodiscard]] double worth_of(const Pass& pass, const Cell& cell) const;
  [[nodiscard]] double samples_of(const Cell& cell, int micro_batches) const;
  /// The same with the credit of the prices.
  [[nodiscard]] double credited(const Pass& pass, const Cell& cell, int micro_batches) const {
    return samples_of(cell, micro_batches) + pass.prices->credit;
  }
  /// Work of one DP, on average.
  [[nodiscard]] double pricing_cost() const {
    return priced_ > 0 ? static_cast<double>(pricing_ / priced_ + kPricing) : first_cost_;
  }
  void add(Candidate candidate, double relaxed);
  [[nodiscard]] Times times_of(const Candidate& candidate) const;
  void count(const std::vector<std::int64_t>& parts);
  [[nodiscard]] std::vector<Probe> probes(double target);
  void value_probes(double target, const Prices& prices, double enough, std::span<Probe> probes);
  double most_probed(double target, const Prices& prices, double known, std::vector<Probe>& probes);
  void value_columns(double target);
  /// A packing of the columns as they are valued.
  struct Packing {
    double value = 0.0;  // samples: no packing with so many pipelines makes more
    double worth = 0.0;  // of all devices and pipelines by the prices
    Prices prices;
  };
  [[nodiscard]] Packing pack_columns();
  [[nodiscard]] Packing pack_columns(double credit, double& pipelines);
  [[nodiscard]] std::vector<std::size_t> pack(const std::vector<std::pair<int, std::int64_t>>& items) const;
  [[nodiscard]] int most_samples(Column& column, double target);
  [[nodiscard]] double needed() const;
  [[nodiscard]] double stock_worth(const Prices& prices) const;
  /// Samples that the credit gives to every plan at least.
  [[nodiscard]] double credits(const Prices& prices) const { return prices.credit * pipelines_.first; }

  SearchTables* tables_;
  PipelineCount pipelines_;
  int threads_;
  NodeLoad load_;
  Pricer::Nodes nodes_ = Pricer::Nodes::Endless;
  std::vector<std::unique_ptr<StageMenu>> menus_;
  std::vector<Pricer> pricers_;
  std::vector<double> stock_;
  Prices center_;  // of the best bound so far that took a whole look
  std::vector<Column> columns_;
  std::map<Candidate, std::size_t> known_;
  std::unique_ptr<PackingLp> lp_;
  std::int64_t transitions_ = 0;
  std::int64_t pricing_ = 0;  // transitions of the DPs that priced a cell
  std::int64_t priced_ = 0;   // cells
  double first_cost_ = 0.0;   // of a DP, while none was run
  double likely_ = 0.0;       // seconds
};

}  // namespace hpplan
