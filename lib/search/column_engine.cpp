#include "search/column_engine.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "search/column_search.hpp"

namespace hpplan {

namespace {

/// A part is closed when its bound and the relaxed packing beyond it are this close.
constexpr double kClose = 2e-3;
/// Steps of a bound: they double until one is too much work.
constexpr double kFirstStep = 0.06;
/// The first one once nodes are counted. They are while no more was used than a part of the budget, or so many times
/// what was used before.
constexpr double kCloserStep = 0.01;
constexpr std::int64_t kCloserShare = 2;
constexpr std::int64_t kCloserTimes = 3;
/// Nodes are counted from the start in the parts of a part whose bound that raised by so much.
constexpr double kWorthCounting = 1.01;
/// The next target after one that was too much work, as a part of what its bound tells.
constexpr double kLikely = 0.997;
/// A bound is given up when a target this close above it is too much work; a target less close, if what it bounded
/// says that no other will do, and there is work left for fewer than so many steps like it.
constexpr double kCloseToHard = 7e-3;
constexpr double kNearHard = 1.5e-2;
constexpr std::int64_t kFewSteps = 3;
/// Prices are for halfway between the bound and this many times it, or the incumbent.
constexpr double kFarthest = 2.0;
/// Part of the budget that one step may use.
constexpr std::int64_t kStepShare = 5;
/// Columns worth at least this part of their price are put together into plans.
constexpr double kHarvestLoss = 0.02;
/// Packings between the relaxed optimum and this much above it are turned into plans.
constexpr double kAssembleRange = 1.25;
constexpr int kPlacementsTried = 64;

struct Part {
  PipelineCount count;
  std::unique_ptr<ColumnSearch> search;
  double low = 0.0;
  double high = kInfinity;    // a relaxed packing finishes by then
  double packed = kInfinity;  // and by then, nodes counted or not
  double step = kFirstStep;
  double hard = kInfinity;       // a target that took too much work
  double likely = 0.0;           // a target that may take less; 0 for none
  double uncounted = kInfinity;  // `low` before nodes were counted
  bool closed = false;
};

class ColumnEngine {
 public:
  ColumnEngine(SearchTables& tables, const ColumnInput& input) : tables_(tables), input_(input) {
    result_.bound = input.low;
  }

  ColumnResult run() {
    try {
      search();
    } catch (const SearchStopped&) {
      result_.stopped = true;  // every part's bound holds as it is
    }
    result_.bound = opened_ ? bound() : std::max(input_.low, sound_);  // a cut of a part may have been in hand
    result_.work = work();
    return std::move(result_);
  }

 private:
  void search() {
    open();
    while (work() < input_.budget) {
      const auto part = std::min_element(parts_.begin(), parts_.end(), sooner);
      const double enough = incumbent() / (1.0 + input_.tolerance);
      if (part == parts_.end() || part->closed || part->low >= enough) break;
      advance(*part);
      // Parts of one that was too much work take as much again.
      if (part->closed && (is_tight(*part) || part->search->work() < input_.budget - work()))
        split(static_cast<std::size_t>(part - parts_.begin()));
      if (input_.progress) input_.progress(bound());
    }
    // The last packings are from some way below the best integer ones.
    for (Part& part : parts_) {
      if (part.packed < kInfinity) assemble(part);
    }
  }

  /// The lowest bound is to be raised first. Of equal ones that of few pipelines, which have the least gradient sync:
  /// where it stays, no other part matters.
  [[nodiscard]] static bool sooner(const Part& a, const Part& b) {
    return std::pair(a.low, a.count.first) < std::pair(b.low, b.count.first);
  }
  [[nodiscard]] double incumbent() const {
    return result_.found.empty() ? input_.incumbent : result_.found.back().time;
  }
  [[nodiscard]] double bound() const {
    double least = incumbent();
    for (const Part& part : parts_) least = std::min(least, part.low);
    return std::max(input_.low, least);
  }
  [[nodiscard]] std::int64_t work() const {
    std::int64_t sum = spent_;
    for (const Part& part : parts_) sum += part.search->work();
    return sum;
  }
  /// One pipeline and several are apart from the start: the gradient sync differs most between those.
  void open() {
    const int least = std::max(1, tables_.problem().job.constraints.pipelines.min);
    const int most = tables_.space().max_pipelines;
    if (least <= 1) open({1, 1}, input_.low, nullptr);
    if (most >= 2) open({std::max(2, least), most}, input_.low, nullptr);
    opened_ = true;
  }

  ///   uncounted   the bound before nodes were counted, where they are to be from the start
  void open(PipelineCount count, double low, const ColumnSearch* before, double uncounted = kInfinity) {
    Part part;
    part.count = count;
    part.low = low;
    part.search = std::make_unique<ColumnSearch>(tables_, count, input_.incumbent, input_.threads);
    for (const Candidate& seed : input_.seeds) part.search->offer(seed);
    if (before != nullptr) {
      part.search->start_from(*before);
      if (uncounted < kInfinity) look_closer(part);
      part.uncounted = uncounted;
    }
    part.search->calibrate(0.5 * (low + std::min(input_.incumbent, kFarthest * low)));
    parts_.push_back(std::move(part));
  }

  /// Cuts a part whose bound no longer rises: more pipelines hold more replicas, which need more gradient sync, above
  /// all where a node has no room for them. The fewest pipelines are a part of their own: where they keep the bound,
  /// the others need no look.
  void split(std::size_t index) {
    const PipelineCount count = parts_[index].count;
    if (count.first == count.last) return;
    const int node = tables_.problem().cluster.largest_node();
    const int middle = count.first <= node && node < count.last ? node : std::min(count.last - 1, 2 * count.first - 1);
    const double low = parts_[index].low;
    const bool worth = may_count() && low > kWorthCounting * parts_[index].uncounted;
    const double uncounted = worth ? parts_[index].uncounted : kInfinity;
    sound_ = bound();
    opened_ = false;
    spent_ += parts_[index].search->work();
    const std::unique_ptr<ColumnSearch> before = std::move(parts_[index].search);
    parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(index));
    open({count.first, count.first}, low, before.get(), uncounted);
    if (middle > count.first) open({count.first + 1, middle}, low, before.get(), uncounted);
    open({middle + 1, count.last}, low, before.get(), uncounted);
    opened_ = true;
  }

  [[nodiscard]] double next_target(const Part& part) const {
    const double end = std::min(part.high, part.hard);
    if (part.likely > 0.0 && part.likely < end) return part.likely;
    return end < kInfinity ? 0.5 * (part.low + end) : std::min(incumbent(), part.low * (1.0 + part.step));
  }

  void advance(Part& part) {
    const double target = next_target(part);
    const std::int64_t before = work();
    const ColumnSearch::Answer answer = part.search->can_finish(target, input_.budget / kStepShare);
    part.likely = 0.0;
    bool hopeless = false;
    if (answer == ColumnSearch::Answer::Impossible) {
      part.low = target;
      part.step *= 2.0;
    } else if (answer == ColumnSearch::Answer::Possible) {
      part.high = part.packed = target;
    } else {
      part.hard = target;
      const double likely = part.search->likely() * kLikely;
      if (likely > part.low * (1.0 + kClose)) {
        part.likely = likely;
      } else {
        hopeless = kFewSteps * (work() - before) > input_.budget - work();
      }
    }
    const double to_hard = part.hard < kInfinity ? (part.hard - part.low) / part.hard : kInfinity;
    part.closed = is_tight(part) || to_hard < kCloseToHard || (hopeless && to_hard < kNearHard);
    if (part.search->counts_nodes()) {
      part.closed = part.closed || !may_count();
    } else if (is_tight(part) && may_count()) {
      look_closer(part);
    }
  }
  /// Whether the bound is at the relaxed packing.
  [[nodiscard]] static bool is_tight(const Part& part) { return part.high - part.low < kClose * part.high; }

  [[nodiscard]] bool may_count() const {
    return tables_.problem().cluster.largest_node() <= kLargestCountedNode &&
           (most_counting_ == 0 || work() < most_counting_);
  }

  /// Where the bound is at the relaxed packing, a sharper relaxation may raise it.
  void look_closer(Part& part) {
    if (most_counting_ == 0) most_counting_ = std::max(kCloserTimes * work(), input_.budget / kCloserShare);
    part.search->count_nodes();
    part.uncounted = part.low;
    part.high = part.hard = kInfinity;
    part.step = kCloserStep;
    part.closed = false;
  }

  /// Looks for plans out of the part's columns, faster and faster ones.
  void assemble(Part& part) {
    part.search->harvest(part.packed, kHarvestLoss, input_.budget / kStepShare);
    double low = part.low;
    double high = std::min(incumbent() * 1.02, part.packed * kAssembleRange);
    while (high - low > kClose * low) {
      const double middle = 0.5 * (low + high);
      std::vector<Candidate> pipelines = part.search->assemble(middle);
      if (pipelines.empty()) {
        low = middle;
        continue;
      }
      high = middle;
      std::sort(pipelines.begin(), pipelines.end());
      if (!scored_.insert(pipelines).second) continue;
      ++result_.candidates;
      Realised realised = realise(tables_, std::move(pipelines), incumbent(), kPlacementsTried);
      if (realised.time < incumbent()) result_.found.push_back(std::move(realised));
    }
  }

  SearchTables& tables_;
  const ColumnInput& input_;
  std::vector<Part> parts_;
  std::int64_t most_counting_ = 0;  // work until which nodes may be counted; 0 while none are
  bool opened_ = false;             // the parts cover the whole space
  double sound_ = 0.0;              // a bound of the whole space, kept while a part is being cut
  std::int64_t spent_ = 0;          // work of parts that were cut
  std::set<std::vector<Candidate>> scored_;
  ColumnResult result_;
};

}  // namespace

ColumnResult search_columns(SearchTables& tables, const ColumnInput& input) {
  return ColumnEngine(tables, input).run();
}

}  // namespace hpplan
