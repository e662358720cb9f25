#include "search/schedule_choice.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "base/for_each_index.hpp"
#include "base/text.hpp"
#include "predict/evaluate.hpp"
#include "predict/link.hpp"
#include "predict/rate_bound.hpp"
#include "schedule/table.hpp"
#include "search/plan_shape.hpp"
#include "search/schedule_fit.hpp"

namespace hpplan {

namespace {

/// Plans of the 1F1B search that get other schedules.
constexpr int kPlansTried = 12;
/// Rounds in which micro-batches move between pipelines.
constexpr int kSplitRounds = 3;

bool is_asynchronous(const PipelinePlan& pipeline) {
  return schedule_family(pipeline.schedule).stepping == Stepping::Asynchronous;
}

/// Best ways to run one kind of pipeline, by number of micro-batches; pipelines that differ only in which devices they
/// use share it.
class PipelineOptions {
 public:
  PipelineOptions(const Problem& problem, const PipelinePlan& pipeline, Stepping stepping, std::int64_t& fits,
                  const std::function<bool()>& stop)
      : problem_(problem), fits_(fits), stop_(stop) {
    for (ScheduleVariant& variant : schedule_variants(problem, pipeline)) {
      const bool wanted = schedule_family(variant.skeleton.schedule).stepping == stepping;
      if (wanted) (variant.is_costly ? costly_ : quick_).push_back(std::move(variant));
    }
    if (quick_.empty()) quick_.swap(costly_);
  }

  /// The fastest way that costs little to find.
  [[nodiscard]] const std::optional<PipelinePlan>& quick(int micro_batches) {
    const auto [known, is_new] = quick_best_.try_emplace(micro_batches);
    if (is_new) known->second = best_of(quick_, micro_batches, std::nullopt);
    return known->second;
  }
  /// The fastest way of all.
  [[nodiscard]] const std::optional<PipelinePlan>& best(int micro_batches) {
    const auto [known, is_new] = best_.try_emplace(micro_batches);
    if (is_new) known->second = best_of(costly_, micro_batches, quick(micro_batches));
    return known->second;
  }

 private:
  std::optional<PipelinePlan> best_of(const std::vector<ScheduleVariant>& variants, int micro_batches,
                                      std::optional<PipelinePlan> best) {
    for (const ScheduleVariant& variant : variants) {
      if (best && stop_ && stop_()) break;
      ++fits_;
      std::optional<PipelinePlan> plan = fit(problem_, variant, micro_batches, stop_);
      // The first of equals: the job's list is in order of preference.
      if (plan && (!best || plan->time < best->time * (1.0 - 1e-12))) best = std::move(plan);
    }
    return best;
  }

  const Problem& problem_;
  std::int64_t& fits_;
  const std::function<bool()>& stop_;
  std::vector<ScheduleVariant> quick_;
  std::vector<ScheduleVariant> costly_;
  std::map<int, std::optional<PipelinePlan>> quick_best_;
  std::map<int, std::optional<PipelinePlan>> best_;
};

/// All that a pipeline's time depends on, but its schedule and micro-batches.
std::string key_of(const Problem& problem, const PipelinePlan& pipeline) {
  std::string key = concat(pipeline.micro_batch);
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const StagePlan& stage = pipeline.stages[s];
    const StagePlan& next = pipeline.stages[(s + 1) % pipeline.stages.size()];
    key += concat('|', stage.node_group, ',', stage.tensor_parallel, ',', stage.data_parallel, ',', stage.layers.first,
                  ',', stage.layers.last, ',', link_time(problem, stage, next, pipeline.micro_batch).value());
  }
  return key;
}

/// One plan's pipelines and what is known of each.
class Splitter {
 public:
  Splitter(const Problem& problem, const Plan& plan, Stepping stepping, std::int64_t& fits,
           const std::function<bool()>& stop)
      : problem_(problem), pipelines_(plan.pipelines), stop_(stop) {
    std::map<std::string, std::shared_ptr<PipelineOptions>> kinds;
    for (const PipelinePlan& pipeline : pipelines_) {
      std::shared_ptr<PipelineOptions>& options = kinds[key_of(problem, pipeline)];
      if (!options) options = std::make_shared<PipelineOptions>(problem, pipeline, stepping, fits, stop);
      options_.push_back(options);
      counts_.push_back(pipeline.micro_batches);
    }
  }

  /// Moves micro-batches between the pipelines while the slowest gets faster; nothing if a pipeline cannot run at all.
  [[nodiscard]] std::optional<Plan> run() {
    double slowest = split_time(counts_);
    for (int round = 0; round < kSplitRounds && pipelines_.size() > 1; ++round) {
      if (stop_ && stop_()) break;
      const std::vector<int> next = best_split_nearby();
      const double time = next.empty() ? 1e300 : split_time(next);
      if (time >= slowest) break;
      slowest = time;
      counts_ = next;
    }
    std::vector<PipelinePlan> chosen;
    for (std::size_t i = 0; i < pipelines_.size(); ++i) {
      const std::optional<PipelinePlan>& best = options_[i]->best(counts_[i]);
      if (!best) return std::nullopt;
      chosen.push_back(*best);
      for (std::size_t s = 0; s < chosen.back().stages.size(); ++s) {
        chosen.back().stages[s].devices = pipelines_[i].stages[s].devices;
      }
    }
    return evaluate(problem_, std::move(chosen));
  }

 private:
  [[nodiscard]] double split_time(const std::vector<int>& counts) {
    double slowest = 0.0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::optional<PipelinePlan>& plan = options_[i]->quick(counts[i]);
      slowest = std::max(slowest, plan ? plan->time.value() : 1e300);
    }
    return slowest;
  }

  /// Numbers of micro-batches near the present one, wide enough to meet a multiple of the stages.
  [[nodiscard]] std::pair<int, int> window(std::size_t i) const {
    const int reach = std::max(4, static_cast<int>(pipelines_[i].stages.size()));
    return {std::max(1, counts_[i] - reach), counts_[i] + reach};
  }

  /// Whether some numbers in the windows, each with a time of at most `limit`, make the whole batch; fills them in.
  bool split_within(double limit, std::vector<int>& counts) {
    // reached[i]: samples that the first i pipelines can run, each with the number its last one took
    std::vector<std::map<int, int>> reached(pipelines_.size() + 1);
    reached[0][0] = 0;
    for (std::size_t i = 0; i < pipelines_.size(); ++i) {
      const auto [low, high] = window(i);
      for (int m = low; m <= high; ++m) {
        const std::optional<PipelinePlan>& plan = options_[i]->quick(m);
        if (!plan || plan->time.value() > limit) continue;
        for (const auto& [samples, last] : reached[i]) {
          const int sum = samples + m * pipelines_[i].micro_batch;
          if (sum <= problem_.job.global_batch) reached[i + 1].emplace(sum, m);
        }
      }
    }
    int rest = problem_.job.global_batch;
    if (reached.back().count(rest) == 0) return false;
    counts.assign(pipelines_.size(), 0);
    for (std::size_t i = pipelines_.size(); i-- > 0;) {
      counts[i] = reached[i + 1].at(rest);
      rest -= counts[i] * pipelines_[i].micro_batch;
    }
    return true;
  }

  [[nodiscard]] std::vector<int> best_split_nearby() {
    std::set<double> times;
    for (std::size_t i = 0; i < pipelines_.size(); ++i) {
      const auto [low, high] = window(i);
      for (int m = low; m <= high; ++m) {
        const std::optional<PipelinePlan>& plan = options_[i]->quick(m);
        if (plan) times.insert(plan->time.value());
      }
    }
    const std::vector<double> limits(times.begin(), times.end());
    std::vector<int> best;
    std::size_t low = 0;
    std::size_t high = limits.size();
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      std::vector<int> counts;
      if (split_within(limits[middle], counts)) {
        best = std::move(counts);
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return best;
  }

  const Problem& problem_;
  const std::vector<PipelinePlan>& pipelines_;
  const std::function<bool()>& stop_;
  std::vector<std::shared_ptr<PipelineOptions>> options_;
  std::vector<int> counts_;
};

/// Whether a kind of layer in use has its weight gradient from the model and not from a profile.
bool models_the_split(const Problem& problem, const Plan& plan) {
  for (const PipelinePlan& pipeline : plan.pipelines) {
    if (schedule_family(pipeline.schedule).backward != BackwardOps::Split) continue;
    for (const StagePlan& stage : pipeline.stages) {
      for (const int kind : problem.model.layers) {
        const int samples = pipeline.micro_batch / stage.data_parallel;
        if (!problem.costs.at(stage.node_group, stage.tensor_parallel, samples, kind).known_split) return true;
      }
    }
  }
  return false;
}

void add_notes(const Problem& problem, Plan& plan) {
  plan.notes.push_back(
      "schedules: the best of the job's for each pipeline of the fastest 1F1B plans; devices and degrees "
      "are those of the 1F1B search, and the layers too unless chunks ask for others");
  plan.notes.push_back(
      "lower bound: the work of the batch over the best rates of all devices, valid under every "
      "schedule; how near this plan is to the best one is not proved beyond it");
  const bool split = std::any_of(plan.pipelines.begin(), plan.pipelines.end(), [](const PipelinePlan& pipeline) {
    return schedule_family(pipeline.schedule).backward == BackwardOps::Split;
  });
  if (split) plan.notes.push_back("activations are counted until the weight gradient, more than a framework may keep");
  if (models_the_split(problem, plan)) {
    plan.notes.push_back(
        "weight gradients: no profile states them all; the others take half of a matrix product's "
        "backward, and all of the embedding's");
  }
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    const PipelinePlan& pipeline = plan.pipelines[p];
    if (!is_asynchronous(pipeline)) continue;
    int drift = 0;
    for (const StagePlan& stage : pipeline.stages) drift = std::max(drift, stage.drift);
    plan.notes.push_back(concat("pipeline ", p, ": each stage updates after ", pipeline.accumulation,
                                " micro-batches; drift at most ", drift, "; steady ",
                                significant(steady_samples_per_second(pipeline), 4), " samples/s"));
  }
}

void sort_by_time(std::vector<Plan>& plans) {
  std::stable_sort(plans.begin(), plans.end(),
                   [](const Plan& a, const Plan& b) { return a.iteration_time < b.iteration_time; });
}

/// A problem whose devices hold twice as much: its plans show how devices could be used where 1F1B needs too much.
Problem with_more_memory(const Problem& problem) {
  Problem roomy = problem;
  for (DeviceType& type : roomy.cluster.device_types) type.memory = type.memory * 2;
  return roomy;
}

/// Why no schedule of the job runs the pipelines of a plan, each reason once.
std::vector<Rejection> schedule_rejections(const Problem& problem, const Plan& plan) {
  std::set<std::string> reasons;
  std::set<std::string> laid_out;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    for (const ScheduleVariant& variant : schedule_variants(problem, pipeline)) {
      laid_out.insert(variant.skeleton.schedule);
      const std::string reason = refusal(problem, variant, pipeline.micro_batches);
      if (reason.empty()) continue;
      reasons.insert(
          concat("constraint: ", variant.skeleton.schedule, " on pipelines of the fastest 1F1B plan: ", reason));
    }
  }
  for (const std::string& name : problem.job.schedules) {
    if (laid_out.count(name) > 0) continue;
    reasons.insert(concat("constraint: ", name, " cannot be laid out over the stages of the fastest 1F1B plan, ",
                          plan.pipelines.front().stages.size(), "; another number of --stages may do"));
  }
  std::vector<Rejection> rejections;
  for (const std::string& reason : reasons) rejections.push_back({RejectReason::Constraint, -1, {}, {}, reason});
  return rejections;
}

}  // namespace

bool asks_for_other_schedules(const Job& job) {
  return std::any_of(job.schedules.begin(), job.schedules.end(),
                     [](const std::string& name) { return name != "1f1b"; });
}

std::vector<Plan> with_best_schedules(const Problem& problem, const Plan& plan, std::int64_t& fits,
                                      const std::function<bool()>& stop) {
  std::vector<Plan> plans;
  for (const Stepping stepping : {Stepping::Synchronous, Stepping::Asynchronous}) {
    const auto& names = problem.job.schedules;
    const bool asked = std::any_of(names.begin(), names.end(),
                                   [&](const std::string& name) { return schedule_family(name).stepping == stepping; });
    if (!asked) continue;
    std::optional<Plan> better = Splitter(problem, plan, stepping, fits, stop).run();
    if (better) plans.push_back(std::move(*better));
  }
  sort_by_time(plans);
  return plans;
}

ScheduledSearch find_scheduled_plan(const Problem& problem, const SearchOptions& options) {
  if (!asks_for_other_schedules(problem.job)) return {find_plan(problem, options), 0};
  SearchOptions wider = options;
  wider.top = 1;
  wider.met = std::max(options.top, kPlansTried);
  ScheduledSearch found{find_plan(problem, wider), 0};
  SearchResult& result = found.search;
  std::vector<Plan> seeds = std::move(result.plans);
  if (seeds.empty()) seeds = find_plan(with_more_memory(problem), wider).plans;

  std::vector<std::vector<Plan>> better(seeds.size());
  std::vector<std::int64_t> fits(seeds.size(), 0);
  std::vector<char> tried(seeds.size(), 0);
  std::mutex one_at_a_time;
  const auto is_stopped = [&] {
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    return options.stop && options.stop();
  };
  const auto try_seed = [&](std::size_t k) {
    tried[k] = 1;
    better[k] = with_best_schedules(problem, seeds[k], fits[k], is_stopped);
  };
  for_each_index(seeds.size(), options.threads, [&](std::size_t k) {
    if (k == 0 || !is_stopped()) try_seed(k);
  });
  const bool ended_early = is_stopped();
  const auto found_any = [&] {
    return std::any_of(better.begin(), better.end(), [](const auto& b) { return !b.empty(); });
  };
  for (std::size_t k = 0; k < seeds.size() && !found_any(); ++k) {
    if (tried[k] == 0) try_seed(k);  // a search that is ended early is not to end with nothing
  }

  result.plans.clear();
  result.report.proved = false;
  result.report.stopped = result.report.stopped || ended_early;
  for (std::size_t k = 0; k < seeds.size(); ++k) {
    found.fits += fits[k];
    for (Plan& plan : better[k]) {
      plan.lower_bound = rate_bound(problem);
      plan.bound_kind = BoundKind::Work;
      plan.notes = seeds[k].notes;
      if (seeds[k].complete && ended_early) plan.notes.emplace_back(kEndedEarly);
      plan.complete = seeds[k].complete && !ended_early;
      add_notes(problem, plan);
      result.plans.push_back(std::move(plan));
    }
  }
  if (result.plans.empty() && result.report.rejections.empty() && !seeds.empty()) {
    result.report.rejections = schedule_rejections(problem, seeds.front());
  }
  sort_by_time(result.plans);
  PlanShapes seen;
  std::erase_if(result.plans, [&](const Plan& plan) { return !seen.insert(shape_of(plan)).second; });
  if (result.plans.size() > static_cast<std::size_t>(options.top))
    result.plans.resize(static_cast<std::size_t>(options.top));
  return found;
}

}  // namespace hpplan
