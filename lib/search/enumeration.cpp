#include "search/enumeration.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <tuple>

#include "search/even_out.hpp"
#include "search/layer_weights.hpp"
#include "search/simple_plans.hpp"
#include "search/stage_menu.hpp"

namespace hpplan {

namespace {

/// Comparisons that drop something allow for rounding.
constexpr double kRound = 1.0 + 1e-9;
constexpr int kPlacements = 20'000;
/// Divisions that are put in order together.
constexpr std::size_t kDivisionsOrdered = 20'000;
/// What scoring a set of pipelines costs, in stages tried.
constexpr std::int64_t kSetCost = 100;
constexpr std::int64_t kStagesBetweenStops = 512;

/// Ends a walk whose budget is spent.
struct BudgetSpent {};

/// A pipeline with its links priced at best.
struct Column {
  Candidate candidate;
  PipelineTimer timer;
  double tail = 0.0;   // least time after the pipelines
  double least = 0.0;  // time of its share of the batch
  float unevenness = 0.0F;
};

/// Best rates of one micro-batch size: what one device of each group does of the model's work in a second.
struct Rates {
  std::vector<double> weights;    // [layer kind]
  std::vector<double> device;     // [group], in units of the weights
  double whole = 0.0;             // work of the model
  std::vector<double> tails;      // [variant][range class]: least time after the pipelines, with SES
  double least_tail = kInfinity;  // of any stage
};

class Walk {
 public:
  Walk(const Problem& problem, const Space& space, const EnumerationInput& input)
      : problem_(problem), space_(space), input_(input), resources_(space.resources) {
    renew_tables();
    for (const int b : problem.job.micro_batches) {
      if (b <= problem.job.global_batch) sizes_.push_back(b);
    }
    limit_ = input.limit;
  }

  EnumerationResult run() {
    if (space_.ports.empty()) return std::move(result_);
    try {
      if (input_.order && input_.goal == EnumerationGoal::Fastest) try_simple_plans();
      const int last = std::min(space_.max_pipelines, problem_.job.global_batch / sizes_.front());
      for (int count = std::max(1, problem_.job.constraints.pipelines.min); count <= last; ++count) {
        if (input_.goal == EnumerationGoal::Even && result_.best.time < kInfinity) break;  // fewer come first
        pipelines_ = count;
        choose_vectors(resources_.full(), resources_.full());
        try_divisions();
      }
    } catch (const SearchStopped&) {
      result_.stopped = true;
      result_.complete = false;
    } catch (const BudgetSpent&) {
      result_.complete = false;
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] double limit() const { return input_.skip ? limit_ : kInfinity; }

  void renew_tables() {
    // Rows that are soon thrown away are too few to be worth several threads.
    rows_ = std::make_unique<StageRows>(problem_, std::max(1, space_.max_stages), input_.cache ? input_.threads : 1);
    tables_ = std::make_unique<SearchTables>(*rows_, space_);
    tables_->stop_when(input_.stop);
    if (input_.excluded != nullptr && !input_.excluded->empty()) {
      tables_->leave_out([this](const std::vector<Candidate>& pipelines) {
        return input_.excluded->count(shape_of(space_, pipelines)) > 0;
      });
    }
    rates_.clear();
    lists_.clear();
  }

  void try_simple_plans() {
    for (const SimplePlan& simple : simple_plans(*tables_)) {
      tables_->check_stop();
      if (simple.time > limit_) continue;
      ++result_.sets;
      keep(realise(*tables_, simple.pipelines, limit_, kPlacements));
    }
  }

  // ---- divisions ---------------------------------------------------------------------------------------------------

  /// Multisets of `pipelines_` vectors in non-increasing order.
  void choose_vectors(int left, int last) {
    if (static_cast<int>(vectors_.size()) == pipelines_) {
      divisions_.push_back(vectors_);
      if (divisions_.size() >= kDivisionsOrdered) try_divisions();
      return;
    }
    for (int v = std::min(left, last); v > 0; --v) {
      if (!resources_.valid(v) || !resources_.contains(left, v)) continue;
      vectors_.push_back(v);
      choose_vectors(left - v, v);
      vectors_.pop_back();
    }
    count_work(1);
  }

  void try_divisions() {
    if (input_.order) {
      std::stable_sort(divisions_.begin(), divisions_.end(),
                       [&](const auto& a, const auto& b) { return ideal_rate(a) > ideal_rate(b); });
    }
    for (const std::vector<int>& division : divisions_) try_division(division);
    divisions_.clear();
  }

  [[nodiscard]] double ideal_rate(const std::vector<int>& division) {
    double rate = 0.0;
    for (const int v : division) rate += samples_per_second(v);
    return rate;
  }

  /// Of a pipeline on v at the best rate of every device.
  [[nodiscard]] double samples_per_second(int v) {
    double best = 0.0;
    for (const int b : sizes_) {
      const Rates& rates = rates_of(b);
      double work = 0.0;
      for (int g = 0; g < resources_.groups(); ++g)
        work += resources_.count(v, g) * rates.device[static_cast<std::size_t>(g)];
      if (rates.whole > 0.0) best = std::max(best, b * work / rates.whole);
    }
    return best;
  }

  /// Samples that a pipeline on v cannot exceed by the limit.
  [[nodiscard]] std::int64_t most_samples(int v) {
    const std::int64_t batch = problem_.job.global_batch;
    if (limit() == kInfinity) return batch;
    double tail = kInfinity;
    for (const int b : sizes_) tail = std::min(tail, rates_of(b).least_tail);
    if (tail == kInfinity) return 0;
    const double made = std::max(0.0, limit() - tail) * samples_per_second(v) * kRound;
    return std::min<std::int64_t>(batch, static_cast<std::int64_t>(std::min(made, 1e15)));
  }

  const Rates& rates_of(int micro_batch) {
    const auto [place, added] = rates_.try_emplace({micro_batch, pipelines_});
    if (added) place->second = compute_rates(micro_batch);
    return place->second;
  }

  [[nodiscard]] Rates compute_rates(int micro_batch) {
    const StageTable& stages = tables_->stages(micro_batch);
    const RangeClasses& ranges = tables_->ranges();
    const auto variants = static_cast<int>(stages.variants().size());
    Rates rates;
    rates.weights = layer_weights(problem_, stages, ranges);
    rates.device.assign(problem_.cluster.node_groups.size(), 0.0);
    rates.whole = work_of(problem_.model, rates.weights, {0, problem_.model.layer_count()});
    if (input_.skip) rates.tails.assign(static_cast<std::size_t>(variants * ranges.count()), kInfinity);
    for (int v = 0; v < variants; ++v) {
      const Variant& variant = stages.variants()[static_cast<std::size_t>(v)];
      const Port& port = space_.ports[static_cast<std::size_t>(variant.port)];
      for (int c = 0; c < ranges.count(); ++c) {
        const double time = stages.time(v, c, 1);
        if (time == kInfinity) continue;
        double& rate = rates.device[static_cast<std::size_t>(port.group)];
        rate = std::max(rate, work_of(problem_.model, rates.weights, ranges.example(c)) / (time * port.devices));
        if (!input_.skip) continue;  // nobody asks
        const CandidateStage stage{variant.port, variant.split, ranges.example(c)};
        double& tail = rates.tails[static_cast<std::size_t>(v * ranges.count() + c)];
        tail = stage_tail(*tables_, micro_batch, stage, {{pipelines_, pipelines_}});
        rates.least_tail = std::min(rates.least_tail, tail);
      }
    }
    return rates;
  }

  // ---- one division ------------------------------------------------------------------------------------------------

  void try_division(const std::vector<int>& division) {
    ++result_.divisions;
    tables_->check_stop();
    if (!input_.cache) renew_tables();
    std::int64_t most = 0;
    std::vector<std::int64_t> samples;
    for (const int v : division) {
      samples.push_back(input_.skip ? most_samples(v) : problem_.job.global_batch);
      most += samples.back();
    }
    if (most < problem_.job.global_batch) {
      ++result_.skipped_divisions;
      return;
    }
    chosen_lists_.clear();
    std::vector<std::unique_ptr<std::vector<Column>>> own;  // without the cache
    for (std::size_t i = 0; i < division.size(); ++i) {
      const std::int64_t need =
          input_.skip ? std::max<std::int64_t>(1, problem_.job.global_batch - (most - samples[i])) : 1;
      if (input_.cache) {
        chosen_lists_.push_back(&cached_columns(division[i], need));
      } else {
        own.push_back(std::make_unique<std::vector<Column>>(columns_of(division[i], need)));
        chosen_lists_.push_back(own.back().get());
      }
      if (chosen_lists_.back()->empty()) return;
    }
    division_ = &division;
    chosen_.clear();
    combine(0);
  }

  std::vector<Column>& cached_columns(int v, std::int64_t need) {
    const auto [place, added] = lists_.try_emplace({v, need, input_.skip ? pipelines_ : 0});
    if (added) {
      place->second = columns_of(v, need);
    } else {
      ++result_.lists_reused;
    }
    return place->second;
  }

  /// All pipelines on exactly v that may finish `need` samples by the limit.
  std::vector<Column> columns_of(int v, std::int64_t need) {
    ++result_.lists;
    std::vector<Column> list;
    for (const int b : sizes_) {
      const auto m = static_cast<int>(std::max<std::int64_t>(1, (need + b - 1) / b));
      if (static_cast<std::int64_t>(m) * b > problem_.job.global_batch) continue;
      const int first = std::max(1, problem_.job.constraints.stages.min);
      for (int p = first; p <= std::min(space_.max_stages, most_stages(v)); ++p) {
        Candidate candidate{b, {}};
        add_stage({v, 0, p, m}, candidate, 0.0, list);
      }
    }
    if (input_.goal == EnumerationGoal::Even) {
      std::stable_sort(list.begin(), list.end(), [](const Column& a, const Column& b) {
        return std::tuple(a.candidate.stages.size(), a.unevenness) <
               std::tuple(b.candidate.stages.size(), b.unevenness);
      });
    } else if (input_.order) {
      std::stable_sort(list.begin(), list.end(), [](const Column& a, const Column& b) { return a.least < b.least; });
    }
    return list;
  }

  /// Stages of the smallest ports on v.
  [[nodiscard]] int most_stages(int v) const {
    int most = 0;
    for (int g = 0; g < resources_.groups(); ++g) {
      int smallest = 0;  // ports ascend by group and size
      for (const Port& port : space_.ports) smallest = port.group == g && smallest == 0 ? port.devices : smallest;
      if (smallest > 0) most += resources_.count(v, g) / smallest;
    }
    return most;
  }

  /// What a pipeline under construction has left.
  struct Rest {
    int vector = 0;
    int layer = 0;
    int stages = 0;
    int micro_batches = 1;
  };

  void add_stage(const Rest& rest, Candidate& candidate, double tail, std::vector<Column>& list) {
    if (rest.stages == 0) {
      if (rest.vector == 0) add_column(rest, candidate, tail, list);
      return;
    }
    const StageTable& table = tables_->stages(candidate.micro_batch);
    const std::vector<double>& links = tables_->transfers(candidate.micro_batch);
    for (int port = 0; port < static_cast<int>(space_.ports.size()); ++port) {
      const int step = space_.step(port);
      if (step > rest.vector || !resources_.valid(rest.vector - step)) continue;
      if (rest.stages == 1 && step != rest.vector) continue;
      if (!resources_.contains(rest.vector, step)) continue;
      if (!candidate.stages.empty() &&
          links[static_cast<std::size_t>(candidate.stages.back().port) * space_.ports.size() +
                static_cast<std::size_t>(port)] == kInfinity) {
        continue;
      }
      add_stage_on(port, table, rest, candidate, tail, list);
    }
  }

  void add_stage_on(int port, const StageTable& table, const Rest& rest, Candidate& candidate, double tail,
                    std::vector<Column>& list) {
    const int layers = problem_.model.layer_count();
    const int in_flight = table.in_flight(static_cast<std::size_t>(rest.stages), rest.micro_batches);
    const int after = rest.vector - space_.step(port);
    const Rates& rates = rates_of(candidate.micro_batch);
    const int first_end = rest.stages == 1 ? layers : rest.layer + 1;
    for (int v = table.first_variant(port); v < table.first_variant(port + 1); ++v) {
      const Variant& variant = table.variants()[static_cast<std::size_t>(v)];
      for (int end = first_end; end <= layers - rest.stages + 1; ++end) {
        count_work(1);
        ++result_.stages;
        const int range = tables_->ranges().of(rest.layer, end);
        const double time = table.time(v, range, in_flight);
        if (time == kInfinity) continue;  // does not fit, whatever the limit
        double own = 0.0;
        if (input_.skip) {
          own = std::max(tail, rates.tails[static_cast<std::size_t>(v * tables_->ranges().count() + range)]);
          if (rest.micro_batches * time + own > limit() * kRound) {
            ++result_.skipped_stages;
            break;  // with more layers it takes longer
          }
          if (!rest_fits(rates, rest, after, end, own)) {
            ++result_.skipped_stages;
            continue;
          }
        }
        candidate.stages.push_back({port, variant.split, {rest.layer, end}});
        add_stage({after, end, rest.stages - 1, rest.micro_batches}, candidate, own, list);
        candidate.stages.pop_back();
      }
    }
  }

  /// Whether the devices left can take the layers left at their best rate, in the time that a stage may take.
  [[nodiscard]] bool rest_fits(const Rates& rates, const Rest& rest, int after, int layer, double tail) const {
    if (limit() == kInfinity) return true;
    double power = 0.0;
    for (int g = 0; g < resources_.groups(); ++g) {
      power += resources_.count(after, g) * rates.device[static_cast<std::size_t>(g)];
    }
    const double stage = (limit() - tail) / rest.micro_batches;
    return work_of(problem_.model, rates.weights, {layer, problem_.model.layer_count()}) <= stage * power * kRound;
  }

  void add_column(const Rest& rest, const Candidate& candidate, double tail, std::vector<Column>& list) {
    Column column{candidate, PipelineTimer(*tables_, candidate, best_links(*tables_, candidate)), tail, 0.0, 0.0F};
    if (input_.skip || input_.order) {
      column.least = column.timer.time(rest.micro_batches);
      if (input_.skip && column.least + tail > limit() * kRound) {
        ++result_.skipped_pipelines;
        return;
      }
    }
    if (input_.goal == EnumerationGoal::Even) column.unevenness = unevenness(*tables_, candidate);
    list.push_back(std::move(column));
  }

  // ---- sets of pipelines -------------------------------------------------------------------------------------------

  /// One column for each vector; equal vectors in non-decreasing column order.
  void combine(std::size_t i) {
    if (i == chosen_lists_.size()) {
      score();
      return;
    }
    // Equal vectors have equal lists: with the cache they are one, without it they are two copies.
    const bool repeats =
        i > 0 && (*division_)[i] == (*division_)[i - 1] && chosen_lists_[i]->size() == chosen_lists_[i - 1]->size();
    for (std::size_t c = repeats ? chosen_[i - 1] : 0; c < chosen_lists_[i]->size(); ++c) {
      count_work(1);
      chosen_.push_back(c);
      const bool go_on = input_.goal == EnumerationGoal::Fastest || may_come_first();
      if (go_on && (!input_.skip || enough())) combine(i + 1);
      chosen_.pop_back();
      if (!go_on && i + 1 == chosen_lists_.size()) break;  // the columns after it come later still
    }
  }

  [[nodiscard]] Column& chosen(std::size_t i) { return (*chosen_lists_[i])[chosen_[i]]; }

  /// Whether the columns chosen so far, with the first ones of the other lists, can come before the best plan.
  [[nodiscard]] bool may_come_first() {
    if (result_.best.time == kInfinity) return true;
    int stages = 0;
    float unevenness = 0.0F;
    for (std::size_t i = 0; i < chosen_lists_.size(); ++i) {
      const Column& column = i < chosen_.size() ? chosen(i) : chosen_lists_[i]->front();
      stages += static_cast<int>(column.candidate.stages.size());
      // The first column is the most even only among those with as few stages.
      if (i < chosen_.size()) unevenness += column.unevenness;
    }
    // Sums of few floats in another order differ by less.
    return std::tuple(stages, unevenness * (1.0F - 1e-5F)) <= std::tuple(best_order_.stages, best_order_.unevenness);
  }

  /// Whether the chosen columns, and the ideal of the vectors still open, finish the batch by the limit.
  [[nodiscard]] bool enough() {
    if (limit() == kInfinity) return true;
    double tail = 0.0;
    for (std::size_t i = 0; i < chosen_.size(); ++i) tail = std::max(tail, chosen(i).tail);
    std::int64_t made = 0;
    for (std::size_t i = 0; i < chosen_lists_.size(); ++i) {
      if (i >= chosen_.size()) {
        made += most_samples((*division_)[i]);
        continue;
      }
      const int b = chosen(i).candidate.micro_batch;
      made += static_cast<std::int64_t>(b) *
              chosen(i).timer.most_within((limit() - tail) * kRound, problem_.job.global_batch / b);
    }
    if (made >= problem_.job.global_batch) return true;
    ++result_.skipped_sets;
    return false;
  }

  void score() {
    tables_->check_stop();
    count_work(kSetCost);
    ++result_.sets;
    std::vector<Candidate> candidates;
    for (std::size_t i = 0; i < chosen_lists_.size(); ++i) candidates.push_back(chosen(i).candidate);
    // With a limit that does not depend on what was found before, so that equal sets give equal plans.
    Realised realised = realise(*tables_, std::move(candidates), input_.skip ? limit_ : kInfinity, kPlacements);
    result_.complete = result_.complete && realised.complete;
    keep(std::move(realised));
  }

  void keep(Realised realised) {
    if (input_.goal == EnumerationGoal::Even) {
      keep_first(std::move(realised));
      return;
    }
    if (!(realised.time < result_.best.time)) return;
    ++result_.improvements;
    result_.best = std::move(realised);
    limit_ = std::min(limit_, result_.best.time / (1.0 + input_.tolerance));
    if (input_.progress) input_.progress(result_.best.time);
  }

  void keep_first(Realised realised) {
    if (realised.time > limit_) return;
    EvenOrder order{pipelines_, 0, 0.0F, realised.pipelines};
    for (const Candidate& pipeline : realised.pipelines) {
      order.stages += static_cast<int>(pipeline.stages.size());
      order.unevenness += unevenness(*tables_, pipeline);
    }
    if (result_.best.time < kInfinity && !(order < best_order_)) return;
    best_order_ = std::move(order);
    result_.best = std::move(realised);
  }

  void count_work(std::int64_t work) {
    work_ += work;
    if (work_ > input_.budget) throw BudgetSpent{};
    if (work_ >= next_stop_) {
      next_stop_ = work_ + kStagesBetweenStops;
      tables_->check_stop();
    }
  }

  const Problem& problem_;
  const Space& space_;
  const EnumerationInput& input_;
  const ResourceSpace& resources_;
  std::vector<int> sizes_;
  double limit_ = kInfinity;
  std::unique_ptr<StageRows> rows_;
  std::unique_ptr<SearchTables> tables_;
  std::map<std::pair<int, int>, Rates> rates_;                               // by micro-batch size and pipelines
  std::map<std::tuple<int, std::int64_t, int>, std::vector<Column>> lists_;  // by vector, samples and pipelines
  int pipelines_ = 1;
  std::vector<int> vectors_;
  std::vector<std::vector<int>> divisions_;
  const std::vector<int>* division_ = nullptr;
  std::vector<std::vector<Column>*> chosen_lists_;
  std::vector<std::size_t> chosen_;
  EvenOrder best_order_;
  EnumerationResult result_;
  std::int64_t work_ = 0;
  std::int64_t next_stop_ = kStagesBetweenStops;
};

}  // namespace

EnumerationResult enumerate_plans(const Problem& problem, const Space& space, const EnumerationInput& input) {
  return Walk(problem, space, input).run();
}

}  // namespace hpplan
