#include "search/space_search.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "predict/rate_bound.hpp"
#include "search/branch.hpp"
#include "search/candidate.hpp"
#include "search/closure.hpp"

namespace hpplan {

namespace {

/// A bracket of a branch's relaxed optimum is closed when it is this narrow.
constexpr double kBracket = 2e-4;
/// Parts of the budget: of the looks, and of the timings, that close a branch, and of all work that may be lost to
/// branches that were looked at before they were cut.
constexpr std::int64_t kClosureShare = 2;
constexpr std::int64_t kFruitlessShare = 5;
/// Part of the budget that tables may use: where they need more, the branches are too many to be ended.
constexpr std::int64_t kTableShare = 2;
/// Work that ends branches for good raises the budget by up to so many times itself.
constexpr std::int64_t kAllowance = 3;
/// Pipelines on one vector that memory has room for.
constexpr std::size_t kMostChains = 1'000'000;
/// Ranges of numbers of pipelines grow by one in so many.
constexpr int kWiden = 5;
/// First step from the ideal time to the first target of a branch.
constexpr double kGrowth = 1.08;
/// While no plan is known, a branch is given up when it has none within this many times the ideal time.
constexpr double kHopeless = 1e5;
/// Without SES, tables reach to this many times the ideal time whatever plan is known.
constexpr double kUnskipped = 4.0;
/// Placements of one set of pipelines that are priced while the search is not yet closing branches.
constexpr int kPlacementsTried = 64;

/// Tables that are not shared (without CPC): too few to be worth several threads.
struct OwnTables {
  OwnTables(const Problem& problem, int depth, const Space& space) : rows(problem, depth, 1), tables(rows, space) {}

  StageRows rows;
  SearchTables tables;
};

/// A branch with the bracket of its relaxed optimum: no plan of it is faster than `low`.
struct Node {
  BranchRange range;
  double low = 0.0;
  double high = kInfinity;         // infinity: no relaxed plan is known, the tables may not reach far enough
  std::vector<Candidate> plan;     // candidates of the relaxed plan at `high`
  std::shared_ptr<OwnTables> own;  // of `branch`, without CPC
  std::shared_ptr<Branch> branch;
  bool exhausted = false;  // nothing more can be done within the budget
};

/// Branch and bound over one space.
class SpaceSearch {
 public:
  SpaceSearch(StageRows& rows, const SearchOptions& options, const Space& space, PipelineCount pipelines,
              Knowledge& knowledge)
      : problem_(rows.problem()), options_(options), space_(space), pipelines_(pipelines), tables_(rows, space),
        known_(knowledge), report_(knowledge.report) {
    leave_out_excluded(tables_, known_);
  }

  /// budget: work after which the remaining gap is left open.
  void run(std::int64_t budget) {
    budget_ = work() + budget;
    allowance_ = kAllowance * budget;
    const std::int64_t before = work();
    const std::int64_t start = tables_.work();
    tables_.stop_when(
        [this, before, start] { return stopped() || tables_.work() - start > (budget_ - before) / kTableShare; });
    try {
      seed();
      sound_ = bound();
      refine();
      sound_ = bound();
    } catch (const SearchStopped&) {
      // Parts of the space may be in nobody's hands: the bound is the last one that covered all.
    }
    known_.bound = std::min(sound_, incumbent());
  }

 private:
  [[nodiscard]] double incumbent() const { return known_.time; }

  [[nodiscard]] std::int64_t work() const { return counted_work(report_); }

  /// Numbers of pipelines, one by one while few and then in growing ranges.
  [[nodiscard]] std::vector<PipelineCount> pipeline_classes() const {
    std::vector<PipelineCount> classes;
    const int most = std::min(space_.max_pipelines, pipelines_.last);
    for (int first = std::max({1, problem_.job.constraints.pipelines.min, pipelines_.first}); first <= most;) {
      const int last = std::min(most, first + first / kWiden);
      classes.push_back({first, last});
      first = last + 1;
    }
    return classes;
  }

  /// A first bracket for every class. While no plan is known, targets grow from the ideal time until one is.
  void seed() {
    const double ideal = rate_bound(problem_).value();
    std::shared_ptr<Branch> previous;
    for (const PipelineCount& pipelines : pipeline_classes()) {
      if (options_.skip_early && ideal >= incumbent()) break;
      Node node;
      node.range.pipelines = pipelines;
      node.low = ideal;
      if (stopped()) {
        nodes_.push_back(std::move(node));  // not looked at, so it holds the bound down
        continue;
      }
      double target = std::min(ideal * kGrowth, incumbent());
      while (true) {
        if (!node.branch || node.branch->limit() < target) {
          // More pipelines cost more All-Reduce: tables of fewer are lower bounds.
          open(node, incumbent() < kInfinity ? incumbent() : target * kGrowth, previous);
          ++report_.branches;
        }
        const bool last = target >= incumbent() || target > ideal * kHopeless;
        if (try_target(node, incumbent() < kInfinity ? incumbent() : target) || last) break;
        target = next_target(target, ideal);
      }
      if (!options_.skip_early) bracket(node);
      if (options_.order_search && !previous) narrow(node);
      previous = node.branch;
      if (node.high < kInfinity) {
        nodes_.push_back(std::move(node));
      } else {
        ++report_.skipped;
      }
    }
  }

  /// Without SES: where the relaxed optimum of a branch is, even where no plan there can be the best.
  void bracket(Node& node) {
    while (!stopped() && node.high < kInfinity && node.high - node.low > kBracket * node.high) {
      static_cast<void>(try_target(node, 0.5 * (node.low + node.high)));
    }
  }

  /// The plans of the fewest pipelines, before others are opened: their tables are the cheapest, and a faster incumbent
  /// makes the tables of all others cheaper.
  void narrow(Node& node) {
    while (!stopped() && node.high < kInfinity) {
      const double top = std::min(node.high, incumbent());
      if (node.low * (1.0 + problem_.job.tolerance) >= top || top - node.low <= kBracket * top) return;
      static_cast<void>(try_target(node, 0.5 * (node.low + top)));
    }
  }

  /// Gives a node the branch of its range, for times up to `limit`.
  void open(Node& node, double limit, const std::shared_ptr<Branch>& wider) {
    if (!options_.skip_early) limit = std::max(limit, kUnskipped * rate_bound(problem_).value());
    if (options_.cache_pipelines) {
      node.branch = std::make_shared<Branch>(tables_, node.range, limit, wider_of(wider, limit));
      return;
    }
    node.own = std::make_shared<OwnTables>(problem_, std::max(1, space_.max_stages), space_);
    node.own->tables.stop_when([this] { return stopped(); });
    node.branch = std::make_shared<Branch>(node.own->tables, node.range, limit, nullptr);
  }

  [[nodiscard]] double next_target(double target, double ideal) const {
    return std::min(incumbent(), target * std::max(kGrowth, std::sqrt(target / ideal)));
  }

  /// The slowest time that matters to a branch and that its tables know: beyond their limit they prove nothing.
  [[nodiscard]] double goal_of(const Node& node) const { return std::min(incumbent(), node.branch->limit()); }

  static const Branch* wider_of(const std::shared_ptr<Branch>& other, double limit) {
    return other && other->limit() >= limit ? other.get() : nullptr;
  }

  /// What a branch has counted so far.
  struct Tally {
    std::int64_t transitions = 0;
    std::int64_t tables = 0;
    std::int64_t tables_reused = 0;
  };
  static Tally tally_of(const Branch& branch) {
    return {branch.transitions(), branch.tables_built(), branch.tables_reused()};
  }
  /// Adds what a branch counts from here on to the report, also where that ends with an exception.
  class Counting {
   public:
    Counting(SearchReport& report, const Branch& branch)
        : report_(report), branch_(branch), before_(tally_of(branch)) {}
    ~Counting() {
      const Tally now = tally_of(branch_);
      report_.transitions += now.transitions - before_.transitions;
      report_.tables += now.tables - before_.tables;
      report_.tables_reused += now.tables_reused - before_.tables_reused;
    }
    Counting(const Counting&) = delete;
    Counting& operator=(const Counting&) = delete;

   private:
    SearchReport& report_;
    const Branch& branch_;
    Tally before_;
  };

  /// Whether the branch has a relaxed plan by `target`; keeps it, scores it, and moves the bracket.
  bool try_target(Node& node, double target) {
    if (!options_.cache_pipelines) open(node, node.branch->limit(), nullptr);
    const std::int64_t before = node.branch->transitions();
    const auto relaxed = [&] {
      const Counting counting(report_, *node.branch);
      return node.branch->relaxed(target);
    }();
    if (node.own) tables_.add_work(node.branch->transitions() - before);
    if (!relaxed) {
      node.low = std::max(node.low, target);
      return false;
    }
    node.high = target;
    node.plan = node.branch->candidates(*relaxed);
    score(node.plan);
    report_progress();
    return true;
  }

  void score(const std::vector<Candidate>& candidates) {
    ++report_.candidates;
    std::vector<Candidate> sorted = candidates;
    std::sort(sorted.begin(), sorted.end());
    if (!scored_.insert(sorted).second) return;
    // A plan slower than the incumbent may still be wanted as an alternative.
    keep(realise(tables_, std::move(sorted), options_.met > 1 ? kInfinity : incumbent(), kPlacementsTried));
  }

  void keep(const Realised& realised) { keep_plan(problem_, space_, options_, realised, known_); }

  [[nodiscard]] double bound() const {
    double least = incumbent();
    for (const Node& node : nodes_) least = std::min(least, node.low);
    return least;
  }

  [[nodiscard]] bool stopped() {
    if (options_.stop && options_.stop()) known_.stopped = true;
    return known_.stopped;
  }

  void report_progress() {
    if (!options_.progress) return;
    // What is proved of a coarser space says nothing about the plans of the whole one, and what is proved of some
    // branches nothing while others are in nobody's hands.
    const double ideal = rate_bound(problem_).value();
    const double proved = space_.coarseness == 1 ? std::max(sound_, ideal) : ideal;
    options_.progress({incumbent(), std::min(proved, incumbent()), report_.transitions});
  }

  /// Best-first: always the branch with the least lower bound.
  void refine() {
    while (!stopped()) {
      std::erase_if(nodes_, [&](const Node& node) {
        const bool done = node.low >= incumbent() * (1.0 - 1e-12);
        report_.skipped += done ? 1 : 0;
        return done;
      });
      const auto promising = std::min_element(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) {
        return std::pair(a.exhausted, a.low) < std::pair(b.exhausted, b.low);
      });
      const auto first = std::find_if(nodes_.begin(), nodes_.end(), [](const Node& node) { return !node.exhausted; });
      const auto next = options_.order_search || first == nodes_.end() ? promising : first;
      if (next == nodes_.end() || next->exhausted) return;
      if (bound() * (1.0 + problem_.job.tolerance) >= incumbent()) return;
      if (work() > budget_) return;
      sound_ = bound();
      advance(static_cast<std::size_t>(next - nodes_.begin()));
      report_progress();
    }
  }

  /// Looks for a relaxed plan beyond the limit of the branch's tables.
  void reach_further(Node& node) {
    const double ideal = rate_bound(problem_).value();
    if (incumbent() == kInfinity && node.low > ideal * kHopeless) {
      node.low = kInfinity;
      return;
    }
    const double target = next_target(node.low, ideal);
    open(node, target, nullptr);
    ++report_.branches;
    static_cast<void>(try_target(node, target));
  }

  void advance(std::size_t index) {
    Node& node = nodes_[index];
    if (node.high == kInfinity) {
      reach_further(node);
      return;
    }
    if (options_.skip_early && node.branch->limit() > incumbent() * 1.05) {
      // A tighter limit makes every later table cheaper.
      const std::shared_ptr<Branch> old = node.branch;
      open(node, incumbent(), old);
    }
    if (incumbent() == kInfinity) {
      // The relaxed plan cannot be placed or does not make the exact batch: the plans around it may.
      node.exhausted = !close(node);
      return;
    }
    if (node.high > incumbent()) {
      // What matters first is whether the branch can beat the incumbent at all.
      const double goal = incumbent();
      if (!try_target(node, std::min(goal, node.branch->limit()))) return;
      if (node.high > incumbent()) return;
    }
    if (node.high - node.low > kBracket * node.high) {
      static_cast<void>(try_target(node, 0.5 * (node.low + node.high)));
      return;
    }
    // A coarser space only has to give a good incumbent: what its bound cannot separate is left alone.
    const bool finest = space_.coarseness == 1;
    if (finest && may_close_early() && close(node)) return;
    if (split(index)) return;
    nodes_[index].exhausted = !finest || !close(nodes_[index]);
  }

  /// Cuts a branch where its relaxed plan is charged less than it costs: by gradient-sync share, then by pipelines.
  bool split(std::size_t index) {
    const Node& node = nodes_[index];
    const double share = node.branch->sync_share(node.plan);
    std::vector<BranchRange> parts;
    if (share > node.range.sync_low + 1e-5 * node.high && share < node.range.sync_high) {
      parts.push_back({node.range.pipelines, node.range.sync_low, share});
      parts.push_back({node.range.pipelines, share, node.range.sync_high});
    } else if (node.range.pipelines.first < node.range.pipelines.last) {
      const PipelineCount& all = node.range.pipelines;
      const int middle = (all.first + all.last) / 2;
      parts.push_back({{all.first, middle}, 0.0, kInfinity});
      parts.push_back({{middle + 1, all.last}, 0.0, kInfinity});
    }
    if (parts.empty()) return false;
    const double low = node.low;
    const double goal = goal_of(node);
    const std::shared_ptr<Branch> whole = node.branch;
    nodes_.erase(nodes_.begin() + static_cast<std::ptrdiff_t>(index));
    for (const BranchRange& range : parts) {
      Node part;
      part.range = range;
      part.low = low;
      open(part, goal, whole);
      ++report_.branches;
      if (try_target(part, goal) || part.low < incumbent()) {
        nodes_.push_back(std::move(part));
      } else {
        ++report_.skipped;
      }
    }
    return true;
  }

  /// One look at all plans of a branch is often cheaper than the tables of its many parts, but not if it comes to
  /// nothing.
  [[nodiscard]] bool may_close_early() const { return fruitless_ < options_.proof_budget / kFruitlessShare; }

  [[nodiscard]] ClosureBudget closure_budget() const {
    ClosureBudget budget;
    budget.combinations = options_.proof_budget / kClosureShare / kLookWork;
    budget.timings = options_.proof_budget / kClosureShare / kCandidateWork;
    budget.chains = std::clamp(static_cast<std::size_t>(budget.timings), budget.chains, kMostChains);
    return budget;
  }

  /// Looks at all plans of a branch; whether the budget was enough for that.
  bool close(Node& node) {
    const std::int64_t start = work();
    const double goal = goal_of(node);
    ClosureResult closed = [&] {
      const Counting counting(report_, *node.branch);
      return close_branch(tables_, *node.branch, goal, closure_budget());
    }();
    report_.candidates += closed.combinations;
    report_.looks += closed.combinations;
    report_.timings += closed.timings;
    if (closed.best.time < goal) keep(closed.best);
    if (closed.stopped) throw SearchStopped{};
    if (closed.complete) {
      // Every plan of the branch below the goal was scored; slower ones only matter while the incumbent is slower.
      node.low = goal;
      node.high = kInfinity;
      // What ends a branch for good is not at the cost of the others.
      const std::int64_t granted = std::min(work() - start, allowance_);
      budget_ += granted;
      allowance_ -= granted;
    } else {
      fruitless_ += kLookWork * closed.combinations + kCandidateWork * closed.timings;
    }
    return closed.complete;
  }

  const Problem& problem_;
  const SearchOptions& options_;
  const Space& space_;
  PipelineCount pipelines_;
  SearchTables tables_;
  Knowledge& known_;
  SearchReport& report_;
  std::int64_t budget_ = 0;
  std::int64_t allowance_ = 0;  // by which closed branches may still raise it
  std::int64_t fruitless_ = 0;  // work of closures that were given up
  double sound_ = 0.0;          // a bound over the whole space
  std::set<std::vector<Candidate>> scored_;
  std::vector<Node> nodes_;
};

}  // namespace

void search_space(StageRows& rows, const SearchOptions& options, const Space& space, PipelineCount pipelines,
                  Knowledge& known, std::int64_t budget) {
  SpaceSearch(rows, options, space, pipelines, known).run(budget);
}

}  // namespace hpplan
