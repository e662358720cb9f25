#include "search/engine.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "base/check.hpp"
#include "base/text.hpp"
#include "predict/evaluate.hpp"
#include "search/branch.hpp"
#include "search/candidate.hpp"
#include "search/closure.hpp"
#include "search/infeasible.hpp"
#include "search/rate_bound.hpp"

namespace hpplan {

namespace {

/// More resource vectors than this make the pipeline tables slow: the space is coarsened until it has fewer.
constexpr int kMostVectors = 320;
/// A bracket of a branch's relaxed optimum is closed when it is this narrow.
constexpr double kBracket = 2e-4;
/// Largest step between the first targets of a branch.
constexpr double kGrowth = 1.08;

/// A branch with the bracket of its relaxed optimum: no plan of it is faster than `low`.
struct Node {
  BranchRange range;
  double low = 0.0;
  double high = kInfinity;
  std::vector<Candidate> plan;       // candidates of the relaxed plan at `high`
  std::unique_ptr<Branch> branch;
  bool exhausted = false;            // nothing more can be done within the budget
};

class Engine {
 public:
  Engine(const Problem& problem, const SearchOptions& options)
      : problem_(problem), options_(options), space_(choose_space(problem)), tables_(problem, space_, options.threads) {}

  SearchResult run() {
    if (space_.ports.empty() || !seed()) return infeasible();
    refine();
    return finish_result();
  }

 private:
  static Space choose_space(const Problem& problem) {
    int coarseness = 1;
    Space space = make_space(problem, coarseness);
    while (space.resources.size() > kMostVectors) {
      coarseness *= 2;
      Space coarser = make_space(problem, coarseness);
      if (coarser.ports.empty()) break;
      space = std::move(coarser);
    }
    return space;
  }

  [[nodiscard]] bool whole_space() const {
    return space_.resources.size() == make_space(problem_).resources.size();
  }

  [[nodiscard]] double incumbent() const { return best_.time; }

  /// Numbers of replicas, one by one while few and then in growing ranges.
  [[nodiscard]] std::vector<BranchRange> replica_classes() const {
    std::vector<BranchRange> classes;
    const int most = problem_.cluster.device_count();
    for (int first = 1; first <= most;) {
      const int last = std::min(most, first < 8 ? first : first + first / 4);
      classes.push_back({first, last, 0.0, kInfinity});
      first = last + 1;
    }
    return classes;
  }

  /// A first bracket for every class, and the first plans.
  bool seed() {
    const double ideal = rate_bound(problem_).value();
    for (const BranchRange& range : replica_classes()) {
      if (stopped()) break;
      Node node;
      node.range = range;
      node.low = ideal;
      double target = std::min(ideal * kGrowth, incumbent());
      while (true) {
        if (!node.branch || node.branch->limit() < target) {
          node.branch = std::make_unique<Branch>(tables_, range, std::min(incumbent(), target * kGrowth), options_.threads);
          ++report_.branches;
        }
        if (try_target(node, target)) break;
        if (target >= incumbent() || target > ideal * 1e6) break;
        target = std::min(incumbent(), target * std::max(kGrowth, std::sqrt(target / ideal)));
      }
      if (node.high < kInfinity) {
        nodes_.push_back(std::move(node));
      } else {
        ++report_.skipped;
      }
    }
    return best_.time < kInfinity;
  }

  /// Whether the branch has a relaxed plan by `target`; keeps it, scores it, and moves the bracket.
  bool try_target(Node& node, double target) {
    const std::int64_t before = node.branch->transitions();
    const auto relaxed = node.branch->relaxed(target);
    report_.transitions += node.branch->transitions() - before;
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
    // A plan that is slower than the incumbent may still be wanted as an alternative.
    keep(realise(tables_, std::move(sorted), kInfinity, 64));
  }

  void keep(Realised realised) {
    if (realised.time == kInfinity) return;
    if (realised.time < best_.time) best_ = realised;
    if (options_.top <= 1) return;
    found_.push_back(std::move(realised));
  }

  [[nodiscard]] double bound() const {
    double least = incumbent();
    for (const Node& node : nodes_) least = std::min(least, node.low);
    return least;
  }

  [[nodiscard]] bool stopped() {
    if (options_.stop && options_.stop()) stopped_ = true;
    return stopped_;
  }

  void report_progress() {
    if (options_.progress) options_.progress({incumbent(), bound(), report_.transitions});
  }

  /// Best-first: always the branch with the least lower bound.
  void refine() {
    while (!stopped()) {
      std::erase_if(nodes_, [&](const Node& node) {
        const bool done = node.low >= incumbent() * (1.0 - 1e-12);
        report_.skipped += done ? 1 : 0;
        return done;
      });
      const auto next = std::min_element(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) {
        return std::pair(a.exhausted, a.low) < std::pair(b.exhausted, b.low);
      });
      if (next == nodes_.end() || next->exhausted) return;
      if (bound() * (1.0 + problem_.job.tolerance) >= incumbent()) return;
      if (report_.transitions > options_.proof_budget) return;
      advance(static_cast<std::size_t>(next - nodes_.begin()));
      report_progress();
    }
  }

  void advance(std::size_t index) {
    Node& node = nodes_[index];
    if (node.branch->limit() > incumbent() * 1.05) {
      // A tighter limit makes every later table cheaper.
      node.branch = std::make_unique<Branch>(tables_, node.range, incumbent(), options_.threads);
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
    if (!split(index)) close(nodes_[index]);
  }

  /// Cuts a branch where its relaxed plan is charged less than it costs: by gradient-sync share, then by replicas.
  bool split(std::size_t index) {
    const Node& node = nodes_[index];
    const double share = node.branch->sync_share(node.plan);
    std::vector<BranchRange> parts;
    if (share > node.range.sync_low + 1e-5 * node.high && share < node.range.sync_high) {
      parts.push_back({node.range.replicas_first, node.range.replicas_last, node.range.sync_low, share});
      parts.push_back({node.range.replicas_first, node.range.replicas_last, share, node.range.sync_high});
    } else if (node.range.replicas_first < node.range.replicas_last) {
      const int middle = (node.range.replicas_first + node.range.replicas_last) / 2;
      parts.push_back({node.range.replicas_first, middle, 0.0, kInfinity});
      parts.push_back({middle + 1, node.range.replicas_last, 0.0, kInfinity});
    }
    if (parts.empty()) return false;
    const double low = node.low;
    nodes_.erase(nodes_.begin() + static_cast<std::ptrdiff_t>(index));
    for (const BranchRange& range : parts) {
      Node part;
      part.range = range;
      part.low = low;
      part.branch = std::make_unique<Branch>(tables_, range, incumbent(), options_.threads);
      ++report_.branches;
      if (try_target(part, incumbent())) {
        nodes_.push_back(std::move(part));
      } else {
        ++report_.skipped;
      }
    }
    return true;
  }

  void close(Node& node) {
    const std::int64_t before = node.branch->transitions();
    ClosureResult closed = close_branch(tables_, *node.branch, incumbent(), ClosureBudget{});
    report_.transitions += node.branch->transitions() - before;
    report_.candidates += closed.combinations;
    if (closed.best.time < incumbent()) keep(std::move(closed.best));
    if (closed.complete) {
      node.low = kInfinity;
    } else {
      node.exhausted = true;
    }
  }

  SearchResult infeasible() {
    SearchResult result;
    report_.rejections = explain_infeasible(problem_);
    result.report = report_;
    return result;
  }

  SearchResult finish_result() {
    SearchResult result;
    double proved = bound();
    // A coarser space proves nothing about the whole one.
    if (!whole_space() || problem_.job.overlap_gradient_sync) proved = std::min(proved, rate_bound(problem_).value());
    std::vector<Realised> ranked{best_};
    std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
    for (const Realised& other : found_) {
      if (static_cast<int>(ranked.size()) >= options_.top) break;
      const bool known = std::any_of(ranked.begin(), ranked.end(),
                                     [&](const Realised& r) { return r.pipelines == other.pipelines; });
      if (!known) ranked.push_back(other);
    }
    for (const Realised& realised : ranked) {
      Plan plan = finish(problem_, space_, realised);
      plan.lower_bound = Seconds{std::min(proved, plan.iteration_time.value())};
      plan.complete = !stopped_;
      if (stopped_) plan.notes.push_back("the search was ended early: the plan is the best found so far");
      result.plans.push_back(std::move(plan));
    }
    report_.proved = proved * (1.0 + problem_.job.tolerance) >= best_.time * (1.0 - 1e-12);
    for (const Node& node : nodes_) report_.tables += node.branch ? node.branch->tables_built() : 0;
    for (const Node& node : nodes_) report_.tables_reused += node.branch ? node.branch->tables_reused() : 0;
    result.report = report_;
    return result;
  }

  const Problem& problem_;
  SearchOptions options_;
  Space space_;
  SearchTables tables_;
  SearchReport report_;
  Realised best_;
  std::vector<Realised> found_;
  std::set<std::vector<Candidate>> scored_;
  std::vector<Node> nodes_;
  bool stopped_ = false;
};

}  // namespace

SearchResult find_plan(const Problem& problem, const SearchOptions& options) { return Engine(problem, options).run(); }

}  // namespace hpplan
