#include "search/realise.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.hpp"
#include "predict/evaluate.hpp"
#include "predict/gradient_sync.hpp"
#include "predict/link.hpp"
#include "predict/placed_sync.hpp"
#include "predict/stage.hpp"

namespace hpplan {

namespace {

std::vector<double> placed_links(const Problem& problem, const PipelinePlan& plan) {
  std::vector<double> links;
  for (std::size_t s = 0; s + 1 < plan.stages.size(); ++s) {
    links.push_back(link_time(problem, plan.stages[s], plan.stages[s + 1], plan.micro_batch).value());
  }
  return links;
}

/// Places a set of pipelines in every way that can still beat the best one, and times it.
class Realiser final : public PlacementVisitor {
 public:
  Realiser(SearchTables& tables, const std::vector<Candidate>& pipelines, double limit, int most_placements)
      : tables_(tables), problem_(tables.problem()), pipelines_(pipelines), limit_(limit), budget_(most_placements),
        optimizer_(slowest_optimizer(tables, pipelines)), sync_(problem_, sync_stages(), tables.layer_gradients()) {}

  ///   first   see realise()
  Realised run(const Placement& first) {
    PipelineTimers ideal;
    for (const Candidate& pipeline : pipelines_) ideal.add(tables_.timer(pipeline, best_links(tables_, pipeline)));
    const double sync = syncs() ? sync_.at_least().value() : 0.0;
    const auto least = allocate(ideal, problem_.job.global_batch, limit_ - optimizer_ - sync);
    if (!least) return std::move(best_);
    pipelines_time_ = least->time;
    if (!first.empty()) price(first);
    if (spent() < budget_) {
      if (const auto aligned = aligned_placement(problem_, tables_.space(), pipelines_)) price(*aligned);
      best_.complete = for_each_placement(problem_, tables_.space(), pipelines_, *this) && !exhausted_ && all_splits_;
    } else {
      best_.complete = false;
    }
    best_.tried = spent();
    best_.looks = sync_.looks();
    return std::move(best_);
  }

  bool enter(std::size_t pipeline, std::size_t stage, const std::vector<int>& nodes) override {
    const double raised = sync_.place(first_stage_[pipeline] + stage, nodes).value();
    placed_sync_.push_back(std::max(placed_sync_.empty() ? 0.0 : placed_sync_.back(), raised));
    if (++entered_ % kEnters == 0) tables_.check_stop();
    exhausted_ = exhausted_ || spent() >= budget_;
    if (exhausted_) return false;
    if (!syncs() || !too_slow(placed_sync_.back())) return true;
    if (++dead_ends_ % kDeadEnds == 0) tables_.check_stop();
    exhausted_ = spent() >= budget_;
    return false;
  }

  void leave() override {
    sync_.lift();
    placed_sync_.pop_back();
  }

  bool visit(const Placement& placement) override {
    if (spent() >= budget_) return false;
    tables_.check_stop();
    price(placement);
    return true;
  }

 private:
  /// Placements left half way that cost as much as one that is priced.
  static constexpr int kDeadEnds = 32;
  /// Stages put on nodes that cost as much as a placement that is priced, for plans of few stages, and for each stage
  /// of large plans: equal pipelines, and nodes without room, can end a long search without one.
  static constexpr std::int64_t kPuts = 2000;
  static constexpr std::int64_t kPutsOfEach = 4;
  static constexpr std::int64_t kEnters = 1024;
  /// Splits of the batch, and parts of one, that are looked at for each placement with overlap: a part of the
  /// placements, so that trials of single plans are content with the most even one.
  static constexpr int kSplitShare = 20;

  [[nodiscard]] int spent() const {
    return tried_ + dead_ends_ / kDeadEnds + static_cast<int>(entered_ / std::max(kPuts, kPutsOfEach * stage_count_));
  }
  [[nodiscard]] bool syncs() const { return !problem_.job.overlap_gradient_sync; }

  std::vector<SyncStage> sync_stages() {
    std::vector<SyncStage> stages;
    for (const Candidate& pipeline : pipelines_) {
      first_stage_.push_back(stages.size());
      for (const CandidateStage& stage : pipeline.stages) {
        const Port& port = tables_.space().ports[static_cast<std::size_t>(stage.port)];
        stages.push_back(
            {port.group, port.devices, stage.split.tensor_parallel, stage.split.data_parallel, stage.layers});
      }
    }
    stage_count_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(stages.size()));
    return stages;
  }

  /// No placement has better links than the ideal pipelines.
  [[nodiscard]] bool too_slow(double sync) const {
    return pipelines_time_ + sync + optimizer_ > limit_ * (1.0 + 1e-12);
  }

  void price(const Placement& placement) {
    ++tried_;
    const std::vector<PipelinePlan> plans = skeleton(problem_, tables_.space(), pipelines_, placement, {});
    const double sync = syncs() ? predict_gradient_sync(problem_, plans).time.value() : 0.0;
    if (too_slow(sync)) return;
    PipelineTimers timers;
    for (std::size_t i = 0; i < pipelines_.size(); ++i)
      timers.add(tables_.timer(pipelines_[i], placed_links(problem_, plans[i])));
    const auto allocation = allocate(timers, problem_.job.global_batch, limit_ - sync - optimizer_);
    if (!allocation) return;
    Realised placed{pipelines_, allocation->micro_batches, placement, allocation->time + sync + optimizer_, true, 0};
    if (syncs()) return keep(placed);
    time_and_keep(placed);
    splits_left_ = budget_ / kSplitShare;
    room_.assign(timers.size() + 1, 0);
    const std::vector<int> caps = timers.most_within(limit_ - optimizer_, problem_.job.global_batch);
    for (std::size_t i = timers.size(); i-- > 0;) {
      room_[i] = room_[i + 1] + static_cast<std::int64_t>(timers.micro_batch(i)) * caps[i];
    }
    price_splits(timers, placed, 0, problem_.job.global_batch);
  }

  void keep(const Realised& placed) {
    if (!(placed.time < best_.time && placed.time <= limit_)) return;
    limit_ = placed.time;
    best_ = placed;
  }

  void time_and_keep(Realised& placed) {
    placed.time = finish(problem_, tables_.space(), placed).iteration_time.value();
    keep(placed);
  }

  /// With overlap, a split of the batch whose slowest pipeline is slower may leave less of the sync exposed: prices
  /// all splits of the `left` samples over the pipelines from `i` on that can still beat the best one.
  void price_splits(PipelineTimers& timers, Realised& placed, std::size_t i, int left) {
    if (i == timers.size()) {
      if (left == 0) time_and_keep(placed);
      return;
    }
    const int b = timers.micro_batch(i);
    const std::int64_t rest = left - room_[i + 1];  // that this pipeline has to take
    const auto least = static_cast<int>(std::max<std::int64_t>(1, (rest + b - 1) / b));
    const int most = std::min(left / b, timers.at(i).most_within(limit_ - optimizer_, left / b));
    for (int m = least; m <= most; ++m) {
      if (splits_left_-- <= 0) {
        all_splits_ = false;
        return;
      }
      placed.micro_batches[i] = m;
      price_splits(timers, placed, i + 1, left - m * b);
    }
  }

  SearchTables& tables_;
  const Problem& problem_;
  const std::vector<Candidate>& pipelines_;
  double limit_;
  int budget_;
  double optimizer_;
  double pipelines_time_ = 0.0;  // with the best links
  std::vector<std::size_t> first_stage_;
  std::int64_t stage_count_ = 1;
  PlacedSync sync_;
  std::vector<double> placed_sync_;  // of the stages placed so far, at least: the limit may fall while they lie there
  Realised best_;
  int tried_ = 0;
  int dead_ends_ = 0;
  std::int64_t entered_ = 0;
  bool exhausted_ = false;          // the budget ended the search
  std::vector<std::int64_t> room_;  // [i]: samples that the pipelines from i on can take by the limit
  int splits_left_ = 0;             // that may be looked at, of one placement
  bool all_splits_ = true;          // no placement had more
};

/// Brings pipelines, and their places if there are any, into the one order in which they are placed.
void sort_with_places(std::vector<Candidate>& pipelines, Placement& places) {
  if (places.empty()) return std::sort(pipelines.begin(), pipelines.end());
  std::vector<std::pair<Candidate, std::vector<std::vector<int>>>> both;
  for (std::size_t i = 0; i < pipelines.size(); ++i) both.emplace_back(std::move(pipelines[i]), std::move(places[i]));
  std::sort(both.begin(), both.end());
  for (std::size_t i = 0; i < both.size(); ++i) std::tie(pipelines[i], places[i]) = std::move(both[i]);
}

}  // namespace

Realised realise(SearchTables& tables, std::vector<Candidate> pipelines, double limit, int most_placements,
                 Placement first) {
  sort_with_places(pipelines, first);
  if (tables.is_left_out(pipelines)) return {};
  return Realiser(tables, pipelines, limit, most_placements).run(first);
}

std::int64_t trial_work(const Problem& problem, const std::vector<Candidate>& pipelines) {
  constexpr std::int64_t kStagePlaced = 200;
  const int samples = problem.job.global_batch / static_cast<int>(pipelines.size());
  std::int64_t work = 0;
  for (const Candidate& pipeline : pipelines) work += kStagePlaced * static_cast<std::int64_t>(pipeline.stages.size());
  for (const Candidate& pipeline : std::set<Candidate>(pipelines.begin(), pipelines.end())) {
    work += static_cast<std::int64_t>(pipeline.stages.size()) * std::max(1, samples / pipeline.micro_batch);
  }
  return work;
}

Realised Trials::realise(std::vector<Candidate> pipelines, double limit, int most_placements, Placement first) {
  tables_->check_stop();
  const std::int64_t cost = trial_work(tables_->problem(), pipelines);
  Realised realised = hpplan::realise(*tables_, std::move(pipelines), limit, most_placements, std::move(first));
  count(1, cost, realised);
  return realised;
}

Plan finish(const Problem& problem, const Space& space, const Realised& realised) {
  std::vector<PipelinePlan> plans =
      skeleton(problem, space, realised.pipelines, realised.placement, realised.micro_batches);
  for (PipelinePlan& plan : plans) {
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      StagePlan& stage = plan.stages[s];
      const int in_flight = std::min(plan.micro_batches, static_cast<int>(plan.stages.size() - s));
      const StageQuery query{stage.node_group, stage.tensor_parallel, stage.data_parallel,
                             plan.micro_batch, stage.layers,          in_flight};
      const auto predicted = predict_stage(problem, query);
      const StageEstimate* estimate = std::get_if<StageEstimate>(&predicted);
      check_invariant(estimate != nullptr, "a realised stage fits its devices");
      stage.recompute = recompute_ranges(problem, query, estimate->recompute);
    }
  }
  return evaluate(problem, std::move(plans));
}

}  // namespace hpplan
