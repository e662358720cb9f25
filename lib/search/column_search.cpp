#include "search/column_search.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/for_each_index.hpp"

namespace hpplan {

namespace {

/// The bound of a pass is this close to the best column that it knows.
constexpr double kSharp = 5e-4;
/// Ratio of consecutive micro-batch numbers of the first grid.
constexpr double kGrid = 1.25;
/// Cells are halved by the sheets alone until their ranges are this narrow: the DP is dear on wide ones.
constexpr double kFine = 0.03;
/// Sheets made together, whatever the number of threads, so that the work does not depend on it.
constexpr std::size_t kWave = 16;
/// Cells priced together by a DP each, as long as that takes no more than a part of the work that is left.
constexpr std::size_t kDue = 16;
constexpr double kDueShare = 8.0;
/// What one of them may take, in times of its share of that work.
constexpr std::int64_t kMostShares = 2;
constexpr int kPasses = 24;
/// A target that looks out of reach is given up when there is work left for fewer than so many passes like the last.
constexpr std::int64_t kFewPasses = 2;
/// What it costs to make a sheet sharper, in times of what it cost.
constexpr double kSharpening = 24.0;
/// Of so many coarse cells one comes to a DP in the end.
constexpr double kCoarseCells = 8.0;
/// First price of the right to a pipeline: its part of what all devices are worth.
constexpr double kPipelinePart = 0.1;
/// From so many pipelines on that a plan must have there is a credit: fewer are seldom too many for the best packing.
constexpr int kCreditedPipelines = 3;
/// First credit of a pipeline: its part of what the fewest pipelines make each. And the most, and steps to find it.
constexpr double kCreditPart = 0.1;
constexpr double kMostCredit = 64.0;
constexpr int kCreditSteps = 12;
/// Prices are compared at probes worth at least this part of the best one.
constexpr double kProbeWorth = 0.6;
/// No device is priced below this part of what it might be worth: a packing of few columns may make it free.
constexpr double kLeastPart = 0.05;
/// Factors by which prices are moved to find better ones.
constexpr double kFirstMove = 1.5;
constexpr double kLastMove = 1.04;

}  // namespace

ColumnSearch::ColumnSearch(SearchTables& tables, PipelineCount pipelines, double limit, int threads)
    : tables_(&tables), pipelines_(pipelines), threads_(threads), load_(tables, limit) {
  const Problem& problem = tables.problem();
  const Space& space = tables.space();
  for (const int b : problem.job.micro_batches) {
    if (b > problem.job.global_batch) continue;
    auto menu = std::make_unique<StageMenu>(tables, b, pipelines, limit, &load_);
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

/// Work on sheets that the threads shared.
void ColumnSearch::count(const std::vector<std::int64_t>& parts) {
  tables_->share().add(parts);
  transitions_ = std::accumulate(parts.begin(), parts.end(), transitions_);
}

/// Single numbers of micro-batches at which prices are compared: what is wanted is prices, not a bound. The most
/// promising come first, those that do not matter are left out.
std::vector<ColumnSearch::Probe> ColumnSearch::probes(double target) {
  std::vector<Probe> all;
  for (std::size_t i = 0; i < menus_.size(); ++i) {
    const int most = tables_->problem().job.global_batch / menus_[i]->micro_batch();
    for (int m = most; m >= 1; m = pipelines_.last == 1 ? 0 : std::min(m - 1, static_cast<int>(m / kGrid))) {
      all.push_back({i, m, 0.0});
    }
  }
  value_probes(target, center_, 0.0, {all.data(), all.size()});
  std::stable_sort(all.begin(), all.end(), [](const Probe& a, const Probe& b) { return a.worth > b.worth; });
  std::erase_if(all, [&](const Probe& probe) { return probe.worth < kProbeWorth * all.front().worth; });
  return all;
}

/// Samples that the sheets let a packing make of the best pipeline at each probe, made sharper above `enough`.
void ColumnSearch::value_probes(double target, const Prices& prices, double enough, std::span<Probe> probes) {
  tables_->check_stop();
  const double stock = stock_worth(prices);
  std::vector<std::int64_t> parts(probes.size(), 0);
  for_each_index(probes.size(), threads_, [&](std::size_t k) {
    Probe& probe = probes[k];
    const double samples = menus_[probe.size]->micro_batch() * static_cast<double>(probe.micro_batches);
    const double made = (samples + prices.credit) * stock;
    PriceSheet sheet = pricers_[probe.size].sheet(probe.micro_batches, target, prices);
    const double dear = made / (enough + credits(prices));
    if (enough > 0.0) sheet.sharpen(*menus_[probe.size], dear, PriceSheet::Sharpness::Sums);
    probe.worth = 0.0;
    for (int p = 1; p <= sheet.stages(); ++p)
      probe.worth = std::max(probe.worth, made / sheet.least(p) - credits(prices));
    parts[k] = sheet.work();
  });
  count(parts);
}

/// The most that any probe lets a packing make; ends at once where that is more than `known`, and moves the probe that
/// decides to the front.
double ColumnSearch::most_probed(double target, const Prices& prices, double known, std::vector<Probe>& probes) {
  double most = kProbeWorth * known;
  std::size_t decides = 0;
  for (std::size_t first = 0; first < probes.size() && most < known;) {
    const std::size_t count = first == 0 ? 1 : std::min(kWave, probes.size() - first);
    value_probes(target, prices, most, std::span(probes).subspan(first, count));
    for (std::size_t k = first; k < first + count; ++k) {
      if (probes[k].worth <= most) continue;
      most = probes[k].worth;
      decides = k;
    }
    first += count;
  }
  const auto place = probes.begin() + static_cast<std::ptrdiff_t>(decides);
  std::rotate(probes.begin(), place, place + 1);
  return most;
}

void ColumnSearch::calibrate(double target) {
  std::vector<Probe> places = probes(target);
  if (places.empty()) return;
  double least = most_probed(target, center_, places.front().worth * (1.0 + 1e-9), places);
  const auto take = [&](const Prices& moved) {
    const double value = most_probed(target, moved, least, places);
    if (value >= least) return false;
    least = value;
    center_ = moved;
    return true;
  };
  value_columns(target);
  Packing packed = pack_columns();
  if (packed.value > 0.0) {
    for (std::size_t g = 0; g < packed.prices.device.size(); ++g) {
      packed.prices.device[g] = std::max(packed.prices.device[g], kLeastPart * packed.worth / stock_[g]);
    }
    static_cast<void>(take(packed.prices));
  }
  if (pipelines_.last > 1 && center_.pipeline == 0.0) {
    Prices moved = center_;
    moved.pipeline = kPipelinePart * stock_worth(center_) / stock_.back();
    static_cast<void>(take(moved));
  }
  if (pipelines_.first >= kCreditedPipelines && center_.credit == 0.0) {
    Prices moved = center_;
    moved.credit = kCreditPart * tables_->problem().job.global_batch / pipelines_.first;
    static_cast<void>(take(moved));
  }
  const std::size_t groups = center_.device.size();
  const auto part_of = [groups](Prices& prices, std::size_t part) -> double& {
    if (part < groups) return prices.device[part];
    return part == groups ? prices.pipeline : prices.credit;
  };
  for (double step = kFirstMove; step > kLastMove; step = std::sqrt(step)) {
    for (std::size_t part = 0; part < groups + 2; ++part) {
      if (part < groups ? groups == 1 : part_of(center_, part) == 0.0) continue;
      for (const double factor : {step, 1.0 / step}) {
        Prices moved = center_;
        part_of(moved, part) *= factor;
        if (take(moved)) break;
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

/// One pipeline alone makes the whole batch, or nothing.
int ColumnSearch::most_samples(Column& column, double target) {
  const int b = column.candidate.micro_batch;
  const int batch = tables_->problem().job.global_batch;
  const int made = b * column.times.pipeline.most_within(target - column.times.tail, batch / b);
  return pipelines_.last == 1 && made < batch ? 0 : made;
}

void ColumnSearch::value_columns(double target) {
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    columns_[c].relaxed = most_samples(columns_[c], target);
  }
}

ColumnSearch::Packing ColumnSearch::pack_columns(double credit, double& pipelines) {
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    lp_->set_value(c, columns_[c].relaxed > 0.0 ? columns_[c].relaxed + credit : 0.0);
  }
  const PackingLp::Solution packed = lp_->solve();
  Packing packing{packed.value - credit * pipelines_.first, packed.value, {}};
  packing.prices.device.assign(packed.prices.begin(), packed.prices.end() - 1);
  packing.prices.pipeline = packed.prices.back();
  packing.prices.credit = credit;
  pipelines = std::accumulate(packed.amounts.begin(), packed.amounts.end(), 0.0);
  return packing;
}

/// That a plan has at least so many pipelines is a row of the packing with the other sign: by a credit for each
/// pipeline (Lagrange), the least at which the packing has as many.
ColumnSearch::Packing ColumnSearch::pack_columns() {
  double pipelines = 0.0;
  Packing best = pack_columns(0.0, pipelines);
  if (pipelines_.first < kCreditedPipelines || pipelines >= pipelines_.first) return best;
  const auto keep = [&](const Packing& packing) {
    if (packing.value < best.value) best = packing;
  };
  const double each = tables_->problem().job.global_batch / static_cast<double>(pipelines_.first);
  double low = 0.0;
  double high = kCreditPart * each;
  for (;; high *= 4.0) {
    keep(pack_columns(high, pipelines));
    if (pipelines >= pipelines_.first || high > kMostCredit * each) break;
    low = high;
  }
  for (int step = 0; step < kCreditSteps; ++step) {
    const double middle = 0.5 * (low + high);
    keep(pack_columns(middle, pipelines));
    (pipelines >= pipelines_.first ? high : low) = middle;
  }
  return best;
}

/// Over the best link between any two stages or, where nodes are counted, with its chains on nodes of its own.
ColumnSearch::Times ColumnSearch::times_of(const Candidate& candidate) const {
  const Chains chains = counts_nodes() ? least_links(*tables_, candidate) : Chains{best_links(*tables_, candidate), {}};
  return {PipelineTimer(*tables_, candidate, chains.links),
          pipeline_tail(*tables_, candidate, {pipelines_, false, 0, &load_}, chains.taken)};
}

void ColumnSearch::count_nodes() {
  nodes_ = Pricer::Nodes::Counted;
  for (Column& column : columns_) column.times = times_of(column.candidate);
}

void ColumnSearch::add(Candidate candidate, double relaxed) {
  const auto [place, added] = known_.try_emplace(candidate, columns_.size());
  if (added) {
    Column column{candidate, times_of(candidate), {}};
    column.use.assign(stock_.size(), 0.0);
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
  column.relaxed = std::max(column.relaxed, relaxed);
}

/// Whether a sharper sheet costs less than the DPs that it may spare.
bool ColumnSearch::worth_sharpening(const Pass& pass, const Cell& cell, bool coarse) const {
  const PassSheet& entry = pass.sheets.at(key_of(cell));
  if (entry.sharp) return false;
  const double dear = credited(pass, cell, cell.last) / pass.ratio;
  int open = 0;
  for (int p = 1; p <= entry.sheet.stages(); ++p) open += entry.sheet.least(p) < dear ? 1 : 0;
  const double steps = coarse ? kSharpening * kCoarseCells : kSharpening;
  return open * pricing_cost() > steps * static_cast<double>(entry.sheet.work());
}

/// The first grid of cells, with the sheets' prices.
void ColumnSearch::open_cells(Pass& pass) {
  Wave grid;
  std::vector<SheetKey>& keys = grid.missing;
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
  make_sheets(pass, grid);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const PriceSheet& sheet = pass.sheets.at(keys[i]).sheet;
    for (int p = 1; p <= sheet.stages(); ++p) {
      keep(pass, {keys[i].first, p, keys[i].second, lasts[i], sheet.least(p), false});
    }
  }
}

void ColumnSearch::keep(Pass& pass, const Cell& cell) const {
  const double worth = worth_of(pass, cell);
  if (!(worth > pass.ratio)) return;
  pass.cells.push({worth, cell});
}

double ColumnSearch::worth_of(const Pass& pass, const Cell& cell) const {
  return cell.price == kInfinity ? 0.0 : credited(pass, cell, cell.last) / cell.price;
}

double ColumnSearch::samples_of(const Cell& cell, int micro_batches) const {
  return menus_[cell.size]->micro_batch() * static_cast<double>(micro_batches);
}

/// Halves a cell; the upper half gets the price of its own sheet.
void ColumnSearch::split(Pass& pass, const Cell& cell) const {
  Cell low = cell;
  low.last = middle_of(cell) - 1;
  Cell high = cell;
  high.first = middle_of(cell);
  high.priced = false;
  const PriceSheet& sheet = pass.sheets.at(key_of(high)).sheet;
  high.price = high.stages <= sheet.stages() ? std::max(cell.price, sheet.least(high.stages)) : kInfinity;
  keep(pass, low);
  keep(pass, high);
}

/// The best cells, as far as they are worth more than `sharp`: those whose sheet is to be made sharper, and those that
/// are to be halved. Those that are to be priced are kept until there are enough of them, or nothing else is left.
ColumnSearch::Wave ColumnSearch::next_wave(Pass& pass, double sharp, std::int64_t work_left) const {
  Wave wave;
  const double affordable = pricing_cost() > 0.0 ? static_cast<double>(work_left) / (kDueShare * pricing_cost()) : 0.0;
  const auto due = static_cast<std::size_t>(std::clamp(affordable, 1.0, static_cast<double>(kDue)));
  const auto enough_due = [&] { return pass.due.size() >= due; };
  while (!pass.cells.empty() && pass.cells.top().first > sharp && !enough_due() &&
         wave.dull.size() + wave.missing.size() < kWave) {
    Cell cell = pass.cells.top().second;
    pass.cells.pop();
    const double least = pass.sheets.at(key_of(cell)).sheet.least(cell.stages);
    if (least > cell.price) {  // its sheet was made sharper
      cell.price = least;
      keep(pass, cell);
      continue;
    }
    const bool coarse = cell.last > cell.first + static_cast<int>(cell.first * kFine);
    const auto same_sheet = [&](const Cell& other) { return key_of(other) == key_of(cell); };
    if (!cell.priced && std::any_of(wave.dull.begin(), wave.dull.end(), same_sheet)) {
      wave.waiting.push_back(cell);
    } else if (!cell.priced && worth_sharpening(pass, cell, coarse)) {
      wave.dull.push_back(cell);
      wave.waiting.push_back(cell);
    } else if (cell.priced || coarse) {
      wave.wide.push_back(cell);
      const SheetKey upper{cell.size, middle_of(cell)};
      const bool known = pass.sheets.count(upper) > 0;
      if (!known && std::find(wave.missing.begin(), wave.missing.end(), upper) == wave.missing.end())
        wave.missing.push_back(upper);
    } else {
      pass.due.push_back(cell);
    }
  }
  if (enough_due() || (wave.dull.empty() && wave.wide.empty())) wave.due.swap(pass.due);
  return wave;
}

/// Makes sheets sharper, each for a cell that needs it, and those that are missing.
void ColumnSearch::make_sheets(Pass& pass, const Wave& wave) {
  std::vector<PriceSheet*> sheets;
  for (const Cell& cell : wave.dull) {
    PassSheet& entry = pass.sheets.at(key_of(cell));
    entry.sharp = true;
    sheets.push_back(&entry.sheet);
  }
  for (const SheetKey& key : wave.missing) sheets.push_back(&pass.sheets[key].sheet);
  std::vector<std::int64_t> parts(sheets.size(), 0);
  for_each_index(sheets.size(), threads_, [&](std::size_t i) {
    PriceSheet& sheet = *sheets[i];
    const std::int64_t before = sheet.work();
    if (i < wave.dull.size()) {
      const Cell& cell = wave.dull[i];
      const double dear = credited(pass, cell, cell.last) / pass.ratio;
      sheet.sharpen(*menus_[cell.size], dear, PriceSheet::Sharpness::Slices);
    } else {
      const auto& [size, micro_batches] = wave.missing[i - wave.dull.size()];
      sheet = pricers_[size].sheet(micro_batches, pass.target, *pass.prices);
    }
    parts[i] = sheet.work() - before;
  });
  count(parts);
}

/// The cheapest pipeline of each cell, if it is worth more than `floor`. Each DP is given up after a few times its
/// share of the work that is left: what DPs cost so far says little about the first ones at another time.
std::vector<Pricer::Priced> ColumnSearch::price_cells(const Pass& pass, const std::vector<Cell>& cells, double floor,
                                                      std::int64_t work_left) {
  std::vector<Pricer::Priced> results(cells.size());
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(1, cells.size()));
  const std::int64_t most_work = std::min(work_left, kMostShares * work_left / count);
  for_each_index(cells.size(), threads_, [&](std::size_t i) {
    const Cell& cell = cells[i];
    const double budget = credited(pass, cell, cell.last) / floor;
    results[i] =
        pricers_[cell.size].cheapest(pass.sheets.at(key_of(cell)).sheet, cell.stages, budget, nodes_, most_work);
  });
  std::vector<std::int64_t> parts;
  for (const Pricer::Priced& result : results) {
    parts.push_back(result.work + kPricing);
    pricing_ += result.work;
  }
  tables_->share().add(parts);
  priced_ += static_cast<std::int64_t>(cells.size());
  return results;
}

ColumnSearch::Look ColumnSearch::price_all(double target, const Prices& prices, double ratio, double known, Depth depth,
                                           std::int64_t most_work) {
  Pass pass;
  pass.target = target;
  pass.prices = &prices;
  pass.ratio = ratio;
  open_cells(pass);
  double best = known;    // of the known columns
  double proved = ratio;  // no pipeline of a closed cell exceeds it
  bool complete = true;
  while (complete) {
    tables_->check_stop();
    if (work() > most_work) {
      complete = false;
      break;
    }
    const double sharp = depth == Depth::Sharp ? std::max(ratio, best * (1.0 + kSharp)) : ratio;
    Wave wave = next_wave(pass, sharp, most_work - work());
    if (wave.due.empty() && wave.wide.empty() && wave.dull.empty()) break;
    make_sheets(pass, wave);
    for (const Cell& cell : wave.waiting) keep(pass, cell);
    for (const Cell& cell : wave.wide) split(pass, cell);

    std::vector<Pricer::Priced> results =
        price_cells(pass, wave.due, depth == Depth::Sharp ? std::max(ratio, best) : ratio, most_work - work());
    for (std::size_t i = 0; i < results.size(); ++i) {
      Cell& cell = wave.due[i];
      if (results[i].price == kInfinity) continue;
      cell.price = std::max(cell.price, results[i].price);
      if (results[i].cut) {
        complete = false;
        keep(pass, cell);
        continue;
      }
      cell.priced = true;
      best = std::max(best, credited(pass, cell, cell.first) / cell.price);
      add(std::move(results[i].candidate), samples_of(cell, cell.first));
      if (cell.first == cell.last || depth == Depth::Harvest) {
        proved = std::max(proved, worth_of(pass, cell));
      } else {
        keep(pass, cell);
      }
    }
  }
  if (!pass.cells.empty()) proved = std::max(proved, pass.cells.top().first);
  for (const Cell& cell : pass.due) proved = std::max(proved, worth_of(pass, cell));
  return {std::max(proved, best), complete};
}

ColumnSearch::Answer ColumnSearch::can_finish(double target, std::int64_t most_work) {
  const std::int64_t until = work() + most_work;
  const double need = needed();
  if (menus_.empty()) return Answer::Impossible;
  value_columns(target);
  double bound = kInfinity;
  std::size_t before = columns_.size();
  for (int pass = 0; pass < kPasses; ++pass) {
    const Packing packed = pack_columns();
    if (packed.value >= need) return Answer::Possible;
    if (bound <= packed.value * (1.0 + 2.0 * kSharp)) return Answer::Possible;  // and no pass will change that
    // Between the packing's own prices and those of the best bound: a packing of few columns prices wildly. Once the
    // mixture finds nothing new, the packing's own prices are the ones to try.
    const double own = pass == 0 ? 0.0 : (columns_.size() > before ? 0.5 : 1.0);
    before = columns_.size();
    const auto mix = [own](double packing, double center) { return own * packing + (1.0 - own) * center; };
    Prices prices = center_;
    const double center_worth = stock_worth(center_);
    const double worth_now = std::max(packed.worth, 1e-300);
    for (std::size_t g = 0; g < prices.device.size(); ++g) {
      const double center = center_.device[g] / center_worth;
      prices.device[g] = std::max(mix(packed.prices.device[g] / worth_now, center), kLeastPart * center);
    }
    prices.pipeline = mix(packed.prices.pipeline / worth_now, center_.pipeline / center_worth);
    prices.credit = mix(packed.prices.credit, center_.credit);

    // Only pipelines worth more than this keep the batch possible.
    const double enough = (need + credits(prices)) / stock_worth(prices) * (1.0 - 1e-12);
    double known = 0.0;
    for (const Column& column : columns_) {
      if (column.relaxed <= 0.0) continue;
      double price = prices.pipeline;
      for (std::size_t g = 0; g < prices.device.size(); ++g) price += prices.device[g] * column.use[g];
      known = std::max(known, (column.relaxed + prices.credit) / price);
    }
    const std::int64_t start = work();
    const Look look = price_all(target, prices, enough, known, Depth::Sharp, until);
    const double worth = look.ratio * stock_worth(prices) - credits(prices);
    if (worth < bound) {
      bound = worth;
      if (look.complete) center_ = prices;
    }
    if (bound < need) return Answer::Impossible;
    likely_ = target * need / bound;
    // What is packed and what bounds it close in on the optimum from both sides.
    const bool last_passes = kFewPasses * (work() - start) > until - work();
    if (look.complete && !(last_passes && 0.5 * (packed.value + bound) > need)) continue;
    return pack_columns().value >= need ? Answer::Possible : Answer::TooMuchWork;  // with the last columns
  }
  return Answer::Possible;
}

void ColumnSearch::harvest(double target, double loss, std::int64_t most_work) {
  value_columns(target);
  const Packing packed = pack_columns();
  if (packed.value <= 0.0) return;
  Prices prices = packed.prices;
  // A device that the packing leaves idle would be free, and every pipeline on it a bargain.
  for (std::size_t g = 0; g < prices.device.size(); ++g) {
    prices.device[g] = std::max(prices.device[g], 1e-3 * packed.worth / stock_[g]);
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
