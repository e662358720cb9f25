#include "search/engine.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "base/check.hpp"
#include "base/for_each_index.hpp"
#include "base/text.hpp"
#include "predict/rate_bound.hpp"
#include "search/anneal.hpp"
#include "search/branch.hpp"
#include "search/candidate.hpp"
#include "search/climb.hpp"
#include "search/closure.hpp"
#include "search/column_engine.hpp"
#include "search/enumeration.hpp"
#include "search/even_out.hpp"
#include "search/improve_places.hpp"
#include "search/infeasible.hpp"
#include "search/plan_shape.hpp"
#include "search/simple_plans.hpp"

namespace hpplan {

namespace {

/// More resource vectors than this make the pipeline tables slow: the space is coarsened until it has fewer.
constexpr std::size_t kMostVectors = 320;
/// A coarser space with at most this many vectors is searched first for a good incumbent.
constexpr std::size_t kFewVectors = 30;
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
/// Placements of one set of pipelines that are priced while the search is not yet closing branches.
constexpr int kPlacementsTried = 64;
/// Part of the budget that each coarser space may use.
constexpr std::int64_t kCoarseShare = 40;
/// Where the tables leave a larger gap than this, prices look for a better bound.
constexpr double kColumnGap = 0.01;
/// How far from the best a simple plan may be that is looked at, the first of its number of pipelines, as simple plans
/// are worse where that does not divide the cluster, and a plan to walk on from when it was climbed from.
constexpr double kNearBest = 1.05;
constexpr double kFarBest = 1.12;
constexpr double kNearWhenClimbed = 1.06;
constexpr double kTwins = 2e-4;
/// Work (trial_work) of a climb and of random walks from a plan, of all changes to good plans after which no other is
/// begun, and of other places for the best plan.
constexpr std::int64_t kClimbWork = 25'000'000;
constexpr std::int64_t kAnnealWork = 30'000'000;
constexpr std::int64_t kImproveWork = 100'000'000;
/// Plans that are climbed from side by side, whatever the number of threads.
constexpr std::size_t kClimbsAtOnce = 2;
constexpr std::int64_t kPlacesWork = 10'000'000;
/// Tenths of the budget that the prices may use.
constexpr std::int64_t kColumnTenths = 6;
/// Pipelines of plans of simple shape start the prices where the plan is within this factor of the best of them.
constexpr double kFirstColumns = 1.4;

/// Without SES, tables reach to this many times the ideal time whatever plan is known.
constexpr double kUnskipped = 4.0;
/// Times this close are equal: they differ by the order of additions only.
constexpr double kEqualTimes = 1e-11;
/// Stages that may be tried to choose among plans of equal time.
constexpr std::int64_t kTieBudget = 200'000;
/// Moves of a layer that may be priced to make the plan even where there are more plans of equal time than that.
constexpr int kEvenTries = 300;

/// Work so far in units of one transition, each kind at what it costs: a count, so that every machine ends alike.
std::int64_t counted_work(const SearchReport& report) {
  constexpr std::int64_t kBranch = 400'000;
  const std::int64_t scored = report.candidates - report.looks - report.trials + report.timings;
  return report.transitions + kBranch * report.branches + kCandidateWork * scored + kLookWork * report.looks +
         report.trial_work;
}

/// Tables that are not shared (without CPC): too few to be worth several threads.
struct OwnTables {
  OwnTables(const Problem& problem, int depth, const Space& space) : rows(problem, depth, 1), tables(rows, space) {}

  StageRows rows;
  SearchTables tables;
};

/// The whole space with its tables, shared by all parts of a search.
struct WholeSpace {
  WholeSpace(const Problem& problem, const SearchOptions& options)
      : space(make_space(problem)), rows(problem, std::max(1, space.max_stages), options.threads), tables(rows, space) {
  }

  Space space;
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

/// What a search knows so far, across coarser and finer spaces.
struct Knowledge {
  SearchReport report;
  double time = kInfinity;                     // of the best plan
  std::vector<std::pair<double, Plan>> plans;  // best first
  double bound = 0.0;                          // proved over the space searched last
  bool stopped = false;
  PlanShapes excluded;                     // plans of these shapes do not count
  std::map<std::size_t, Realised> starts;  // good plans of simple shape, by number of pipelines
  std::set<Candidate> simple;              // pipelines of plans of simple shape
};

void leave_out_excluded(SearchTables& tables, const Knowledge& known) {
  if (known.excluded.empty()) return;
  tables.leave_out([&tables, &known](const std::vector<Candidate>& pipelines) {
    return known.excluded.count(shape_of(tables.space(), pipelines)) > 0;
  });
}

/// Keeps a plan if it is the best, or among those that are wanted beside it.
void keep_plan(const Problem& problem, const Space& space, const SearchOptions& options, const Realised& realised,
               Knowledge& known) {
  if (realised.time == kInfinity || (options.met <= 1 && realised.time >= known.time)) return;
  known.report.improvements += realised.time < known.time ? 1 : 0;
  known.time = std::min(known.time, realised.time);
  const auto place = std::upper_bound(known.plans.begin(), known.plans.end(), realised.time,
                                      [](double time, const auto& other) { return time < other.first; });
  known.plans.insert(place, {realised.time, finish(problem, space, realised)});
  if (known.plans.size() > static_cast<std::size_t>(std::max({1, options.top, options.met}))) known.plans.pop_back();
}

/// Branch and bound over one space.
class Engine {
 public:
  Engine(StageRows& rows, const SearchOptions& options, const Space& space, Knowledge& knowledge)
      : problem_(rows.problem()), options_(options), space_(space), tables_(rows, space), known_(knowledge),
        report_(knowledge.report) {
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
    const int most = space_.max_pipelines;
    for (int first = std::max(1, problem_.job.constraints.pipelines.min); first <= most;) {
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

/// Coarser and coarser spaces until one has few vectors; from coarse to fine. Spaces with too many vectors are left
/// out.
std::vector<Space> spaces_to_search(const Problem& problem) {
  std::vector<Space> spaces;
  Space space = make_space(problem);
  while (!space.ports.empty()) {
    const std::size_t vectors = space.resources.vectors().size();
    const int next = 2 * space.coarseness;
    if (vectors <= kMostVectors) spaces.push_back(std::move(space));
    if (vectors <= kFewVectors || next > problem.cluster.device_count()) break;
    space = make_space(problem, next);
  }
  std::reverse(spaces.begin(), spaces.end());
  return spaces;
}

SearchResult result_of(const Problem& problem, Knowledge& known) {
  SearchResult result;
  double proved = std::max(rate_bound(problem).value(), known.bound);
  for (auto& [time, plan] : known.plans) {
    proved = std::min(proved, plan.iteration_time.value());
    plan.lower_bound = Seconds{proved};
    plan.complete = !known.stopped;
    if (known.stopped) plan.notes.emplace_back(kEndedEarly);
    result.plans.push_back(std::move(plan));
  }
  known.report.proved =
      !result.plans.empty() && proved * (1.0 + problem.job.tolerance) >= known.time * (1.0 - kEqualTimes);
  known.report.stopped = known.stopped;
  if (result.plans.empty()) {
    std::vector<Rejection>& rejections = known.report.rejections;
    rejections = explain_infeasible(problem);
    // That the constraints leave no plan is known only if all were looked at.
    if (rejections.empty() && known.bound == kInfinity && !known.stopped) {
      rejections.push_back(limits_rejection(problem));
    } else if (rejections.empty() && !known.stopped) {
      rejections.push_back({RejectReason::Constraint,
                            -1,
                            {},
                            {},
                            "constraint: no plan was met within the limits on pipelines, stages and micro-batches; too "
                            "many for a look at each, so there may still be one: wider limits are quicker to search"});
    }
  }
  result.report = std::move(known.report);
  return result;
}

/// The pipelines of a plan as candidates of a space.
std::vector<Candidate> candidates_of(const Space& space, const Plan& plan) {
  std::vector<Candidate> candidates;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    Candidate candidate;
    candidate.micro_batch = pipeline.micro_batch;
    for (const StagePlan& stage : pipeline.stages) {
      const int port = space.find({stage.node_group, static_cast<int>(stage.devices.size())});
      check_invariant(port >= 0, "the port of a stage in the whole space");
      candidate.stages.push_back({port, {stage.tensor_parallel, stage.data_parallel}, stage.layers});
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

/// The nodes of a plan's stages.
Placement placement_of(const Plan& plan) {
  Placement placement;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    placement.emplace_back();
    for (const StagePlan& stage : pipeline.stages) {
      std::vector<int>& nodes = placement.back().emplace_back();
      for (const DevicePlace& device : stage.devices) {
        if (nodes.empty() || nodes.back() != device.node) nodes.push_back(device.node);
      }
    }
  }
  return placement;
}

/// No slower than the best plan.
double best_limit(const Knowledge& known) { return known.plans.front().first * (1.0 + kEqualTimes); }

/// The best plan as its pipelines, where they lie.
Realised best_known(SearchTables& tables, const Knowledge& known) {
  const Plan& plan = known.plans.front().second;
  return realise(tables, candidates_of(tables.space(), plan), best_limit(known), 1, placement_of(plan));
}

/// Bounds the whole space by prices, and looks for better plans there.
void improve_by_columns(SearchTables& tables, const SearchOptions& options, Knowledge& known) {
  const Problem& problem = tables.problem();
  const Space& space = tables.space();
  ColumnInput input;
  input.low = std::max(known.bound, rate_bound(problem).value());
  input.incumbent = known.time;
  for (const auto& [time, plan] : known.plans) {
    for (Candidate& candidate : candidates_of(space, plan)) input.seeds.push_back(std::move(candidate));
  }
  input.seeds.insert(input.seeds.end(), known.simple.begin(), known.simple.end());
  input.threads = options.threads;
  input.tolerance = problem.job.tolerance;
  input.budget = options.proof_budget / 10 * kColumnTenths;
  input.progress = [&](double bound) {
    if (options.progress) options.progress({known.time, bound, known.report.transitions});
  };
  const ColumnResult result = search_columns(tables, input);
  known.bound = result.bound;
  known.stopped = known.stopped || result.stopped;
  known.report.transitions += result.work;
  known.report.candidates += result.candidates;
  for (const Realised& realised : result.found) keep_plan(problem, space, options, realised, known);
}

/// Scores plans of simple shape: incumbents for everything that follows (OSO).
void start_simple(SearchTables& tables, const SearchOptions& options, Knowledge& known) {
  try {
    const std::vector<SimplePlan> plans = simple_plans(tables);
    for (const SimplePlan& simple : plans) {
      if (simple.time > plans.front().time * kFirstColumns) break;
      known.simple.insert(simple.pipelines.begin(), simple.pipelines.end());
    }
    for (const SimplePlan& simple : plans) {
      // Slower ones may still be wanted as alternatives, or become the best by some changes.
      const bool first = known.starts.count(simple.pipelines.size()) == 0;
      const double limit = options.met > 1 ? kInfinity : known.time * (first ? kFarBest : kNearBest);
      if (simple.time >= limit) continue;
      ++known.report.candidates;
      const Realised realised = realise(tables, simple.pipelines, limit, kPlacementsTried);
      if (realised.time == kInfinity) continue;
      keep_plan(tables.problem(), tables.space(), options, realised, known);
      Realised& start = known.starts[simple.pipelines.size()];
      if (realised.time < start.time) start = realised;
    }
  } catch (const SearchStopped&) {
    known.stopped = true;
  }
}

void keep_improved(const SearchTables& tables, const SearchOptions& options, const Improved& improved,
                   Knowledge& known) {
  keep_plan(tables.problem(), tables.space(), options, improved.plan, known);
  known.report.candidates += improved.tries;
  known.report.trials += improved.tries;
  known.report.trial_work += improved.work;
  known.stopped = known.stopped || improved.stopped;
}

/// The best plans of each number of pipelines that are worth changing, the fastest first.
std::vector<Realised> plans_to_climb(const Knowledge& known) {
  std::vector<Realised> all;
  for (const auto& [pipelines, start] : known.starts) all.push_back(start);
  std::stable_sort(all.begin(), all.end(), [](const Realised& a, const Realised& b) { return a.time < b.time; });
  std::vector<Realised> starts;
  for (Realised& start : all) {
    if (start.time > known.time * kFarBest) break;
    // A pipeline and its twins of half the devices take the same time, and so do their changes.
    if (!starts.empty() && start.time - starts.back().time < kTwins * start.time) continue;
    starts.push_back(std::move(start));
  }
  return starts;
}

/// Changes a plan while that makes it faster, and walks on from there if that comes near the best.
std::vector<Improved> climb_and_walk(SearchTables& tables, const Realised& start, double best) {
  std::vector<Improved> found{climb(tables, start, kClimbWork)};
  const Improved& climbed = found.front();
  if (!climbed.stopped && climbed.plan.time <= std::min(best, climbed.plan.time) * kNearWhenClimbed)
    found.push_back(anneal(tables, climbed.plan, kAnnealWork, AnnealMoves::KeepCount));
  return found;
}

/// Changes the best plans of each number of pipelines side by side, and walks on from the best of all, where the proof
/// leaves room for that.
void climb_from_best(SearchTables& tables, const SearchOptions& options, Knowledge& known) {
  try {
    const Realised best = best_known(tables, known);
    if (best.time < kInfinity) known.starts[best.pipelines.size()] = best;
    const std::vector<Realised> starts = plans_to_climb(known);
    std::vector<SearchTables> forks = tables.fork(kClimbsAtOnce);
    std::int64_t work = 0;
    for (std::size_t first = 0; first < starts.size() && work < kImproveWork; first += kClimbsAtOnce) {
      std::vector<std::vector<Improved>> found(std::min(kClimbsAtOnce, starts.size() - first));
      for_each_index(found.size(), tables.threads(),
                     [&](std::size_t i) { found[i] = climb_and_walk(forks[i], starts[first + i], known.time); });
      std::vector<std::int64_t> parts(found.size(), 0);
      for (std::size_t i = 0; i < found.size(); ++i) {
        for (const Improved& improved : found[i]) {
          keep_improved(tables, options, improved, known);
          parts[i] += improved.work;
        }
        work += parts[i];
      }
      tables.share().add(parts);
      if (known.stopped) return;
    }
    const Realised start = best_known(tables, known);
    if (start.time == kInfinity) return;
    keep_improved(tables, options, anneal(tables, start, kAnnealWork, AnnealMoves::All), known);
  } catch (const SearchStopped&) {
    known.stopped = true;
  }
}

/// Stages of the best plan moved between nodes, where the proof leaves room for that.
void improve_places_of_best(SearchTables& tables, const SearchOptions& options, Knowledge& known) {
  try {
    const Realised best = best_known(tables, known);
    if (best.time == kInfinity) return;
    keep_improved(tables, options, improve_places(tables, best, kPlacesWork), known);
  } catch (const SearchStopped&) {
    known.stopped = true;
  }
}

/// Branch and bound over the spaces, then by prices where that leaves a gap.
void search_branches(WholeSpace& whole, const SearchOptions& options, Knowledge& known) {
  const Problem& problem = whole.tables.problem();
  if (whole.space.ports.empty()) return;
  known.starts.clear();  // of a search before: it left out less
  known.simple.clear();
  std::vector<Space> spaces = spaces_to_search(problem);
  if (options.order_search) {
    start_simple(whole.tables, options, known);
  } else if (spaces.size() > 1) {
    spaces.erase(spaces.begin(), spaces.end() - 1);
  }
  for (const Space& space : spaces) {
    if (known.stopped) break;
    const bool finest = space.coarseness == 1;
    // The coarser spaces only have to give a good incumbent; what they prove says nothing about the whole space.
    Engine(whole.rows, options, space, known).run(finest ? options.proof_budget : options.proof_budget / kCoarseShare);
    if (!finest) known.bound = 0.0;
  }
  const double enough = std::max(problem.job.tolerance, kColumnGap);
  const auto gap_is_wide = [&] {
    return !known.stopped && known.time < kInfinity && known.bound * (1.0 + enough) < known.time;
  };
  if (gap_is_wide()) climb_from_best(whole.tables, options, known);
  if (gap_is_wide()) improve_by_columns(whole.tables, options, known);
  if (gap_is_wide()) improve_places_of_best(whole.tables, options, known);
}

/// The same without dynamic programming. Ended early, it has proved nothing beyond the work bound.
void search_by_enumeration(const WholeSpace& whole, const SearchOptions& options, Knowledge& known) {
  const Problem& problem = whole.tables.problem();
  EnumerationInput input;
  input.cache = options.cache_pipelines;
  input.skip = options.skip_early;
  input.order = options.order_search;
  input.threads = options.threads;
  input.tolerance = problem.job.tolerance;
  input.limit = known.time / (1.0 + input.tolerance);
  input.excluded = &known.excluded;
  input.stop = options.stop;
  const double ideal = rate_bound(problem).value();
  input.progress = [&](double time) {
    if (options.progress) options.progress({std::min(time, known.time), ideal, 0});
  };
  const EnumerationResult found = enumerate_plans(problem, whole.space, input);
  SearchReport& report = known.report;
  report.branches += found.divisions;
  report.tables += found.lists;
  report.tables_reused += found.lists_reused;
  report.transitions += found.stages;
  report.candidates += found.sets;
  report.skipped += found.skipped_divisions + found.skipped_stages + found.skipped_pipelines + found.skipped_sets;
  report.improvements += found.improvements;
  if (found.best.time < known.time) {
    known.time = found.best.time;
    known.plans.insert(known.plans.begin(), {found.best.time, finish(problem, whole.space, found.best)});
  }
  known.stopped = found.stopped;
  if (found.complete) known.bound = input.skip ? known.time / (1.0 + input.tolerance) : known.time;
}

/// Layers moved to make the best plan's stages even, where that costs no time.
void even_out_best(SearchTables& tables, Knowledge& known) {
  const Space& space = tables.space();
  try {
    const double limit = best_limit(known);
    Realised best = best_known(tables, known);
    if (best.time > limit) return;
    best = even_out(tables, std::move(best), limit, kEvenTries);
    known.plans.front() = {best.time, finish(tables.problem(), space, best)};
  } catch (const SearchStopped&) {
    known.stopped = known.stopped || known.bound < known.time;  // what is proved stays proved
  }
}

/// Among plans as fast as the best one, the first in EvenOrder: the answer then does not depend on how it was found.
/// Where that would be too long a walk, or nothing is proved, the plan that was found is made more even.
void settle_ties(WholeSpace& whole, const SearchOptions& options, Knowledge& known) {
  if (known.plans.empty() || known.stopped) return;
  if (known.bound >= known.time * (1.0 - 1e-12)) {
    const Problem& problem = whole.tables.problem();
    EnumerationInput input;
    input.goal = EnumerationGoal::Even;
    input.limit = known.time * (1.0 + kEqualTimes);
    input.threads = options.threads;
    input.budget = kTieBudget;
    input.excluded = &known.excluded;
    input.stop = options.stop;
    const EnumerationResult found = enumerate_plans(problem, whole.space, input);
    known.report.tied += found.stages;
    if (found.complete && found.best.time < kInfinity) {
      known.plans.front() = {found.best.time, finish(problem, whole.space, found.best)};
      return;
    }
  }
  even_out_best(whole.tables, known);
}

/// The first simple plan that is feasible: a search that was ended before it met a plan is not to end with nothing.
void take_simple_plan(SearchTables& tables, Knowledge& known) {
  if (tables.space().ports.empty()) return;
  tables.stop_when({});  // it has stopped already
  for (const SimplePlan& simple : simple_plans(tables)) {
    ++known.report.candidates;
    const Realised realised = realise(tables, simple.pipelines, kInfinity, 1);
    if (realised.time == kInfinity) continue;
    known.time = realised.time;
    known.plans.emplace_back(realised.time, finish(tables.problem(), tables.space(), realised));
    return;
  }
}

/// One plan with what is proved of it: no plan whose shape is not that of a plan found before is faster than the bound.
void find_best(WholeSpace& whole, const SearchOptions& options, Knowledge& known) {
  const double floor = known.bound;
  const std::int64_t spared = whole.rows.share().total() - whole.rows.share().busiest();  // by searches before
  whole.tables.stop_when(options.stop);
  leave_out_excluded(whole.tables, known);
  options.dynamic_programming ? search_branches(whole, options, known) : search_by_enumeration(whole, options, known);
  if (known.stopped && known.plans.empty() && known.excluded.empty()) take_simple_plan(whole.tables, known);
  known.bound = std::min(std::max(known.bound, floor), known.time);
  settle_ties(whole, options, known);
  known.report.work = counted_work(known.report);
  const WorkShare& share = whole.rows.share();
  known.report.busiest = known.report.work - (share.total() - share.busiest() - spared);
}

void add_counts(const SearchReport& more, SearchReport& report) {
  report.branches += more.branches;
  report.tables += more.tables;
  report.tables_reused += more.tables_reused;
  report.transitions += more.transitions;
  report.candidates += more.candidates;
  report.skipped += more.skipped;
  report.improvements += more.improvements;
  report.trials += more.trials;
  report.trial_work += more.trial_work;
  report.timings += more.timings;
  report.looks += more.looks;
  report.work += more.work;
  report.busiest += more.busiest;
  report.tied += more.tied;
}

/// Further searches, each without the shapes of the plans before it.
void find_next_best(WholeSpace& whole, const SearchOptions& options, Knowledge& first, SearchResult& result) {
  const Problem& problem = whole.tables.problem();
  std::vector<std::pair<double, Plan>> spare = std::move(first.plans);
  Knowledge known = std::move(first);
  while (static_cast<int>(result.plans.size()) < options.top) {
    known.excluded.insert(shape_of(result.plans.back()));
    known.report = {};
    known.plans.clear();
    for (auto& entry : spare) {
      if (known.excluded.count(shape_of(entry.second)) == 0) known.plans.push_back(std::move(entry));
    }
    known.time = known.plans.empty() ? kInfinity : known.plans.front().first;
    if (!known.stopped) find_best(whole, options, known);
    add_counts(known.report, result.report);
    if (known.plans.empty()) {
      result.report.exhausted = !known.stopped;
      return;
    }
    Plan plan = known.plans.front().second;
    plan.lower_bound =
        Seconds{std::min({std::max(rate_bound(problem).value(), known.bound), plan.iteration_time.value()})};
    plan.complete = !known.stopped;
    result.plans.push_back(std::move(plan));
    spare = std::move(known.plans);
  }
}

/// A search that was not proved may be overtaken by a later one: then the bounds are those of the plans that follow.
void rank(std::vector<Plan>& plans) {
  std::stable_sort(plans.begin(), plans.end(),
                   [](const Plan& a, const Plan& b) { return a.iteration_time < b.iteration_time; });
  Seconds least{kInfinity};
  for (std::size_t k = plans.size(); k-- > 0;) {
    least = std::min(least, plans[k].lower_bound);
    plans[k].lower_bound = least;
  }
}

}  // namespace

namespace {

SearchResult refuse_uncountable(const Problem& problem) {
  SearchResult refused;
  refused.report.rejections.push_back(
      {RejectReason::Constraint,
       -1,
       {},
       {},
       concat("constraint: ", problem.cluster.group_count(), " node groups with ", problem.cluster.device_count(),
              " devices can be combined in too many ways: join groups of one device type")});
  return refused;
}

/// The best plan of whole nodes, where parts of nodes can be combined in too many ways to count them. What is proved is
/// the work of the batch.
SearchResult find_plan_of_whole_nodes(const Problem& problem, const SearchOptions& options) {
  Problem whole_nodes = problem;
  whole_nodes.job.constraints.whole_nodes = true;
  if (!space_is_countable(whole_nodes)) return refuse_uncountable(problem);
  SearchResult result = find_plan(whole_nodes, options);
  result.report.proved = false;
  for (Plan& plan : result.plans) {
    plan.lower_bound = std::min(rate_bound(problem), plan.iteration_time);
    plan.bound_kind = BoundKind::Work;
    plan.notes.push_back(concat("stages take whole nodes: parts of the nodes of ", problem.cluster.device_count(),
                                " devices can be combined in too many ways"));
  }
  return result;
}

}  // namespace

SearchResult find_plan(const Problem& problem, const SearchOptions& options) {
  Knowledge known;
  if (!space_is_countable(problem)) return find_plan_of_whole_nodes(problem, options);
  if (!batch_reachable(problem.job)) return result_of(problem, known);
  WholeSpace whole(problem, options);
  find_best(whole, options, known);
  if (options.top <= 1) return result_of(problem, known);
  const std::vector<std::pair<double, Plan>> all = known.plans;
  SearchResult result = result_of(problem, known);
  if (result.plans.empty()) return result;
  result.plans.resize(1);
  known.plans = all;
  find_next_best(whole, options, known, result);
  rank(result.plans);
  return result;
}

}  // namespace hpplan
