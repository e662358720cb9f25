#include "search/column_engine.hpp"

#include <algorithm>
#include <memory>
#include <set>

#include "search/column_search.hpp"

namespace hpplan {

namespace {

/// A part is closed when its bound and the relaxed packing beyond it are this close.
constexpr double kClose = 2e-3;
/// Steps of a bound: as wide as the work of the last one was small.
constexpr double kWideStep = 0.03;
constexpr double kStep = 0.01;
constexpr double kNarrowStep = 0.004;
constexpr std::int64_t kLittleWork = 2'000'000;
constexpr std::int64_t kMuchWork = 12'000'000;
/// Columns worth at least this part of their price are put together into plans.
constexpr double kHarvestLoss = 0.02;
/// Packings between the relaxed optimum and this much above it are turned into plans.
constexpr double kAssembleRange = 1.25;
constexpr int kPlacementsTried = 64;

struct Part {
  std::unique_ptr<ColumnSearch> search;
  double low = 0.0;
  double high = kInfinity;    // a relaxed packing finishes by then
  double step = kStep;
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
      result_.stopped = true;   // every part's bound holds as it is
    }
    result_.bound = parts_.size() == part_count_ ? bound() : input_.low;
    result_.work = work();
    return std::move(result_);
  }

 private:
  void search() {
    open();
    while (work() < input_.budget) {
      const auto part = std::min_element(parts_.begin(), parts_.end(),
                                         [](const Part& a, const Part& b) { return a.low < b.low; });
      if (part == parts_.end() || part->closed || part->low >= incumbent()) break;
      advance(*part);
      if (input_.progress) input_.progress(bound());
    }
    // The last packings are from some way below the best integer ones.
    for (Part& part : parts_) {
      if (part.high < kInfinity) assemble(part);
    }
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
    std::int64_t sum = 0;
    for (const Part& part : parts_) sum += part.search->work();
    return sum;
  }
  void open() {
    const CountLimit& allowed = tables_.problem().job.constraints.pipelines;
    const int least = std::max(1, allowed.min);
    const int most = tables_.space().max_pipelines;
    part_count_ = (least <= 1 ? 1U : 0U) + (most >= 2 ? 1U : 0U);
    if (least <= 1) open({1, 1});
    if (most >= 2) open({std::max(2, least), most});
  }

  void open(PipelineCount count) {
    Part part;
    part.search = std::make_unique<ColumnSearch>(tables_, count, input_.incumbent, input_.threads);
    for (const Candidate& seed : input_.seeds) part.search->offer(seed);
    part.low = part.search->first_bound(input_.low);
    parts_.push_back(std::move(part));
  }

  void advance(Part& part) {
    const std::int64_t before = part.search->work();
    const double target = part.high < kInfinity ? 0.5 * (part.low + part.high)
                                                : std::min(incumbent(), part.low * (1.0 + part.step));
    if (part.search->can_finish(target) == ColumnSearch::Answer::Impossible) {
      part.low = target;
    } else {
      part.high = target;
      assemble(part);
    }
    const std::int64_t spent = part.search->work() - before;
    part.step = spent < kLittleWork ? kWideStep : (spent < kMuchWork ? kStep : kNarrowStep);
    part.closed = part.high - part.low < kClose * part.high;
  }

  /// Looks for plans out of the part's columns, faster and faster ones.
  void assemble(Part& part) {
    part.search->harvest(part.high, kHarvestLoss);
    double low = part.low;
    double high = std::min(incumbent() * 1.02, part.high * kAssembleRange);
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
  std::size_t part_count_ = 1;   // of a space that is bounded whole
  std::set<std::vector<Candidate>> scored_;
  ColumnResult result_;
};

}  // namespace

ColumnResult search_columns(SearchTables& tables, const ColumnInput& input) { return ColumnEngine(tables, input).run(); }

}  // namespace hpplan
