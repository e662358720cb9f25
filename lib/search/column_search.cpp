#include "search/column_search.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/for_each_index.hpp"

namespace hpplan {

namespace {

/// The bound of a pass is this close to the best column that it knows.
constexpr double kSharp = 5e-4;
/// Ratio of consecutive micro-batch numbers of the first grid.
constexpr double kGrid = 1.25;
/// Cells are halved by the sheets alone until their ranges are this narrow: the DP is dear on wide ones.
constexpr double kFine = 0.03;
/// Cells looked at together, whatever the number of threads, so that the work does not depend on it.
constexpr std::size_t kWave = 8;
constexpr int kPasses = 24;
/// Grid of micro-batch numbers for the first prices.
constexpr int kCutsPerOctave = 3;

}  // namespace

ColumnSearch::ColumnSearch(SearchTables& tables, PipelineCount pipelines, double limit, int threads)
    : tables_(&tables), pipelines_(pipelines), threads_(threads) {
  const Problem& problem = tables.problem();
  const Space& space = tables.space();
  for (const int b : problem.job.micro_batches) {
    if (b > problem.job.global_batch) continue;
    auto menu = std::make_unique<StageMenu>(tables, b, pipelines, limit);
    if (menu->ports().empty() || menu->least_tail() == kInfinity) continue;
    menus_.push_back(std::move(menu));
  }
  const int least = std::max(1, problem.job.constraints.stages.min);
  for (const auto& menu : menus_) pricers_.emplace_back(*menu, least, space.max_stages);
  // A group without usable devices has no ports either: one too many is worth nothing, and none would divide by zero.
  for (int g = 0; g < problem.cluster.group_count(); ++g) stock_.push_back(std::max(1, problem.places.device_count(g)));
  stock_.push_back(pipelines.last);
  lp_ = std::make_unique<PackingLp>(stock_);

  // First prices: what a device does at best on the layer that it does best.
  center_.device.assign(problem.cluster.node_groups.size(), 0.0);
  for (const auto& menu : menus_) {
    for (std::size_t p = 0; p < menu->ports().size(); ++p) {
      const Port& port = menu->ports()[p];
      double& rate = center_.device[static_cast<std::size_t>(port.group)];
      for (int layer = 0; layer < menu->layers(); ++layer) {
        for (const MenuOption& option : menu->at(static_cast<int>(p), menu->ranges().of(layer, layer + 1), 1)) {
          rate = std::max(rate, menu->micro_batch() / option.time / port.devices);
        }
      }
    }
  }
  for (double& price : center_.device) price = std::max(price, 1e-12);
}

/// Samples that no packing exceeds by `target`, from the sheets alone and on a coarse grid.
double ColumnSearch::sheet_worth(double target, const Prices& prices) const {
  tables_->check_stop();
  struct Cut {
    std::size_t size;
    int first;
    int last;
  };
  std::vector<Cut> cuts;
  for (std::size_t i = 0; i < menus_.size(); ++i) {
    const int most = tables_->problem().job.global_batch / menus_[i]->micro_batch();
    for (int last = most; last >= 1;) {
      const int first = pipelines_.last == 1 ? most : last - last / kCutsPerOctave;
      cuts.push_back({i, first, last});
      last = pipelines_.last == 1 ? 0 : first - 1;
    }
  }
  std::vector<double> best(cuts.size(), 0.0);
  for_each_index(cuts.size(), threads_, [&](std::size_t k) {
    const Pricer::Sheet sheet = pricers_[cuts[k].size].sheet(cuts[k].first, target, prices);
    for (int p = 1; p <= sheet.stages(); ++p) {
      best[k] =
          std::max(best[k], menus_[cuts[k].size]->micro_batch() * static_cast<double>(cuts[k].last) / sheet.least(p));
    }
  });
  return best.empty() ? 0.0 : *std::max_element(best.begin(), best.end()) * stock_worth(prices);
}

/// The DP is slow at prices that make one group of devices a bargain.
void ColumnSearch::calibrate(double target) {
  double least = sheet_worth(target, center_);
  for (double step = 1.5; step > 1.04 && center_.device.size() > 1; step = std::sqrt(step)) {
    for (std::size_t g = 0; g < center_.device.size(); ++g) {
      for (const double factor : {step, 1.0 / step}) {
        Prices moved = center_;
        moved.device[g] *= factor;
        const double value = sheet_worth(target, moved);
        if (value >= least) continue;
        least = value;
        center_ = std::move(moved);
        break;
      }
    }
  }
}

/// Samples that a plan makes, less what rounding may take from their worth.
double ColumnSearch::needed() const { return tables_->problem().job.global_batch * (1.0 - 1e-9); }

double ColumnSearch::stock_worth(const Prices& prices) const {
  double worth = prices.pipeline * stock_.back();
  for (std::size_t g = 0; g < prices.device.size(); ++g) worth += prices.device[g] * stock_[g];
  return worth;
}

int ColumnSearch::most_samples(Column& column, double target) {
  const int b = column.candidate.micro_batch;
  return b * column.timer.most_within(target - column.tail, tables_->problem().job.global_batch / b);
}

void ColumnSearch::value_columns(double target) {
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    columns_[c].relaxed = most_samples(columns_[c], target);
    lp_->set_value(c, columns_[c].relaxed);
  }
}

void ColumnSearch::add(Candidate candidate, double relaxed) {
  const auto [place, added] = known_.try_emplace(candidate, columns_.size());
  if (added) {
    Column column{candidate, PipelineTimer(*tables_, candidate, best_links(*tables_, candidate)), {}};
    column.use.assign(stock_.size(), 0.0);
    column.tail = pipeline_tail(*tables_, candidate, pipelines_);
    column.use.back() = pipelines_.last == 1 ? 0.0 : 1.0;  // one pipeline has no others to trade devices with
    const Space& space = tables_->space();
    for (const CandidateStage& stage : candidate.stages) {
      const Port& port = space.ports[static_cast<std::size_t>(stage.port)];
      column.use[static_cast<std::size_t>(port.group)] += port.devices;
      column.vector += space.step(stage.port);
    }
    // The prices do not know how many devices there are.
    for (std::size_t g = 0; g + 1 < stock_.size(); ++g) {
      if (column.use[g] > stock_[g]) column.vector = -1;
    }
    lp_->add(column.use, 0.0);
    columns_.push_back(std::move(column));
  }
  Column& column = columns_[place->second];
  if (relaxed <= column.relaxed) return;
  column.relaxed = relaxed;
  lp_->set_value(place->second, relaxed);
}

void ColumnSearch::fill_sheets(Pass& pass, const std::vector<std::pair<std::size_t, int>>& keys) {
  std::vector<std::pair<std::pair<std::size_t, int>, std::shared_ptr<const Pricer::Sheet>*>> missing;
  for (const auto& key : keys) {
    const auto [place, added] = pass.sheets.try_emplace(key);
    if (added) missing.emplace_back(key, &place->second);
  }
  for_each_index(missing.size(), threads_, [&](std::size_t i) {
    const auto& [size, micro_batches] = missing[i].first;
    *missing[i].second =
        std::make_shared<const Pricer::Sheet>(pricers_[size].sheet(micro_batches, pass.target, *pass.prices));
  });
  std::vector<std::int64_t> parts;
  for (const auto& entry : missing) parts.push_back((*entry.second)->work());
  tables_->share().add(parts);
  for (const std::int64_t work : parts) transitions_ += work;
}

/// The first grid of cells, with the sheets' prices.
void ColumnSearch::open_cells(Pass& pass) {
  std::vector<std::pair<std::size_t, int>> keys;
  std::vector<int> lasts;
  for (std::size_t i = 0; i < menus_.size(); ++i) {
    const int most = tables_->problem().job.global_batch / menus_[i]->micro_batch();
    // One pipeline runs the whole batch.
    if (pipelines_.last == 1 && most * menus_[i]->micro_batch() != tables_->problem().job.global_batch) continue;
    for (int first = pipelines_.last == 1 ? most : 1; first <= most;) {
      const int last = std::min(most, std::max(first, static_cast<int>(first * kGrid)));
      keys.emplace_back(i, first);
      lasts.push_back(last);
      first = last + 1;
    }
  }
  fill_sheets(pass, keys);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Pricer::Sheet& sheet = *pass.sheets.at(keys[i]);
    for (int p = 1; p <= sheet.stages(); ++p) {
      keep(pass, {keys[i].first, p, keys[i].second, lasts[i], sheet.least(p), false});
    }
  }
}

void ColumnSearch::keep(Pass& pass, const Cell& cell) const {
  const double worth = worth_of(cell);
  if (!(worth > pass.ratio)) return;
  pass.cells.push({worth, cell});
}

double ColumnSearch::worth_of(const Cell& cell) const {
  return cell.price == kInfinity ? 0.0 : menus_[cell.size]->micro_batch() * static_cast<double>(cell.last) / cell.price;
}

/// Halves a cell; the upper half gets the price of its own sheet.
void ColumnSearch::split(Pass& pass, const Cell& cell) const {
  Cell low = cell;
  low.last = cell.first + (cell.last - cell.first) / 2;
  Cell high = cell;
  high.first = low.last + 1;
  high.priced = false;
  const Pricer::Sheet& sheet = *pass.sheets.at({high.size, high.first});
  high.price = high.stages <= sheet.stages() ? std::max(cell.price, sheet.least(high.stages)) : kInfinity;
  keep(pass, low);
  keep(pass, high);
}

std::optional<double> ColumnSearch::price_all(double target, const Prices& prices, double ratio, double known,
                                              Depth depth, std::int64_t most_work) {
  Pass pass;
  pass.target = target;
  pass.prices = &prices;
  pass.ratio = ratio;
  open_cells(pass);
  double best = known;    // of the known columns
  double proved = ratio;  // no pipeline of a closed cell exceeds it
  while (!pass.cells.empty()) {
    tables_->check_stop();
    if (work() > most_work) return std::nullopt;
    const double sharp = depth == Depth::Sharp ? std::max(ratio, best * (1.0 + kSharp)) : ratio;
    if (pass.cells.top().first <= sharp) {
      proved = std::max(proved, pass.cells.top().first);
      break;
    }
    std::vector<Cell> wave;
    std::vector<std::pair<std::size_t, int>> keys;
    std::vector<Cell> wide;
    while (!pass.cells.empty() && wave.size() + wide.size() < kWave && pass.cells.top().first > sharp) {
      const Cell cell = pass.cells.top().second;
      pass.cells.pop();
      const bool coarse = cell.last > cell.first + static_cast<int>(cell.first * kFine);
      if (cell.priced || coarse) {
        wide.push_back(cell);
        keys.emplace_back(cell.size, cell.first + (cell.last - cell.first) / 2 + 1);
      } else {
        wave.push_back(cell);
      }
    }
    fill_sheets(pass, keys);
    for (const Cell& cell : wide) split(pass, cell);
    std::vector<Pricer::Priced> results(wave.size());
    const double floor = depth == Depth::Sharp ? std::max(ratio, best) : ratio;
    for_each_index(wave.size(), threads_, [&](std::size_t i) {
      const Cell& cell = wave[i];
      const double budget = menus_[cell.size]->micro_batch() * static_cast<double>(cell.last) / floor;
      results[i] = pricers_[cell.size].cheapest(*pass.sheets.at({cell.size, cell.first}), cell.stages, budget);
    });
    std::vector<std::int64_t> parts;
    for (const Pricer::Priced& result : results) parts.push_back(result.work + kPricing);
    tables_->share().add(parts);
    for (std::size_t i = 0; i < wave.size(); ++i) {
      Cell& cell = wave[i];
      transitions_ += results[i].work;
      ++priced_;
      if (results[i].price == kInfinity) continue;
      cell.price = std::max(cell.price, results[i].price);
      cell.priced = true;
      const double made = menus_[cell.size]->micro_batch() * static_cast<double>(cell.first);
      best = std::max(best, made / cell.price);
      add(std::move(results[i].candidate), made);
      if (cell.first == cell.last || depth == Depth::Harvest) {
        proved = std::max(proved, worth_of(cell));
      } else {
        keep(pass, cell);
      }
    }
  }
  return std::max(proved, best);
}

ColumnSearch::Answer ColumnSearch::can_finish(double target, std::int64_t most_work) {
  const std::int64_t until = work() + most_work;
  const double need = needed();
  if (menus_.empty()) return Answer::Impossible;
  value_columns(target);
  double bound = kInfinity;
  std::size_t before = columns_.size();
  for (int pass = 0; pass < kPasses; ++pass) {
    const PackingLp::Solution packed = lp_->solve();
    if (packed.value >= need) return Answer::Possible;
    if (bound <= packed.value * (1.0 + 2.0 * kSharp)) return Answer::Possible;  // and no pass will change that
    // Between the packing's own prices and those of the best bound: a packing of few columns prices wildly. Once the
    // mixture finds nothing new, the packing's own prices are the ones to try.
    const double own = pass == 0 ? 0.0 : (columns_.size() > before ? 0.5 : 1.0);
    before = columns_.size();
    Prices prices = center_;
    const double center_worth = stock_worth(center_);
    const double worth_now = std::max(packed.value, 1e-300);
    for (std::size_t g = 0; g < prices.device.size(); ++g) {
      const double center = center_.device[g] / center_worth;
      prices.device[g] = std::max(own * packed.prices[g] / worth_now + (1.0 - own) * center, 0.05 * center);
    }
    prices.pipeline = own * packed.prices.back() / worth_now + (1.0 - own) * center_.pipeline / center_worth;

    // Only pipelines worth more than this keep the batch possible.
    const double enough = need / stock_worth(prices) * (1.0 - 1e-12);
    double known = 0.0;
    for (const Column& column : columns_) {
      double price = prices.pipeline;
      for (std::size_t g = 0; g < prices.device.size(); ++g) price += prices.device[g] * column.use[g];
      known = std::max(known, column.relaxed / price);
    }
    const std::optional<double> ratio = price_all(target, prices, enough, known, Depth::Sharp, until);
    if (!ratio) return Answer::TooMuchWork;
    const double worth = *ratio * stock_worth(prices);
    if (worth < bound) {
      bound = worth;
      center_ = prices;
    }
    if (bound < need) return Answer::Impossible;
  }
  return Answer::Possible;
}

void ColumnSearch::harvest(double target, double loss, std::int64_t most_work) {
  value_columns(target);
  const PackingLp::Solution packed = lp_->solve();
  if (packed.value <= 0.0) return;
  Prices prices;
  prices.device.assign(packed.prices.begin(), packed.prices.end() - 1);
  prices.pipeline = packed.prices.back();
  // A device that the packing leaves idle would be free, and every pipeline on it a bargain.
  for (std::size_t g = 0; g < prices.device.size(); ++g) {
    prices.device[g] = std::max(prices.device[g], 1e-3 * packed.value / stock_[g]);
  }
  static_cast<void>(price_all(target, prices, 1.0 - loss, 0.0, Depth::Harvest, work() + most_work));
}

/// Items (vector, samples), each as often as wanted, that make the most samples within the devices and the number of
/// pipelines; as indices of items.
std::vector<std::size_t> ColumnSearch::pack(const std::vector<std::pair<int, std::int64_t>>& items) const {
  const ResourceSpace& resources = tables_->space().resources;
  const auto cells = static_cast<std::size_t>(resources.size());
  std::vector<std::int64_t> most(cells, -1);
  std::vector<int> count(cells, 0);
  std::vector<std::size_t> last(cells, items.size());
  for (const int n : resources.vectors()) {
    const auto here = static_cast<std::size_t>(n);
    most[here] = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const auto& [vector, samples] = items[i];
      if (vector > n) continue;
      const auto rest = static_cast<std::size_t>(n - vector);
      if (most[rest] < 0 || count[rest] >= pipelines_.last) continue;
      if (std::pair(most[rest] + samples, -count[rest] - 1) <= std::pair(most[here], -count[here])) continue;
      most[here] = most[rest] + samples;
      count[here] = count[rest] + 1;
      last[here] = i;
    }
  }
  std::vector<std::size_t> chosen;
  for (auto n = static_cast<std::size_t>(resources.full()); last[n] < items.size();) {
    chosen.push_back(last[n]);
    n -= static_cast<std::size_t>(items[last[n]].first);
  }
  return chosen;
}

std::vector<Candidate> ColumnSearch::assemble(double target) {
  std::map<int, std::pair<std::int64_t, std::size_t>> best;  // by vector
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (columns_[c].vector < 0) continue;
    const std::int64_t made = most_samples(columns_[c], target);
    const auto [place, added] = best.try_emplace(columns_[c].vector, made, c);
    if (!added && made > place->second.first) place->second = {made, c};
  }
  std::vector<std::pair<int, std::int64_t>> items;
  std::vector<std::size_t> owners;
  for (const auto& [vector, entry] : best) {
    if (entry.first <= 0) continue;
    items.emplace_back(vector, entry.first);
    owners.push_back(entry.second);
  }
  std::int64_t made = 0;
  std::vector<Candidate> chosen;
  for (const std::size_t i : pack(items)) {
    made += items[i].second;
    chosen.push_back(columns_[owners[i]].candidate);
  }
  const auto count = static_cast<int>(chosen.size());
  if (made < tables_->problem().job.global_batch || count < pipelines_.first) chosen.clear();
  return chosen;
}

}  // namespace hpplan
