#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "schedule/octopipe.hpp"

namespace hpplan {

namespace {

/// Ops simulated in one search: 2 to 4 s on one core for large problems, the same on every machine. Small problems have
/// fewer plans to look through.
constexpr std::int64_t kMostOps = 8'000'000;
constexpr std::int64_t kOpsPerLayer = 120'000;
constexpr int kSeeds = 6;  // starting points that are improved

/// SplitMix64: the same numbers everywhere, unlike the standard distributions.
class Random {
 public:
  [[nodiscard]] std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  [[nodiscard]] int below(int limit) { return static_cast<int>(next() % static_cast<std::uint64_t>(limit)); }
  [[nodiscard]] double fraction() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t state_ = 1;
};

/// What a plan costs and where its devices are idle.
struct Score {
  Seconds makespan;
  Seconds imbalance;      // busiest minus least busy device
  Seconds boundary_idle;  // before the first and after the last op of the devices
  Seconds residual_idle;  // between ops
};

struct Candidate {
  OctoPlan plan;
  Score score;
};

/// Which part of the plan to change. Source: the bubble rule of OctoPipe's Algorithm 1.
enum class Phase { Partition, Placement, Schedule };

class Tuner {
 public:
  explicit Tuner(const OctoProblem& problem) : problem_(problem) {
    const std::int64_t usual = std::min(kMostOps, kOpsPerLayer * layer_count());
    budget_ = static_cast<std::int64_t>(static_cast<double>(usual) * problem.effort);
    smallest_layer_ = Seconds{1e300};
    for (const LayerTime& layer : problem.layers) {
      smallest_layer_ = std::min(smallest_layer_, layer.forward + layer.backward + layer.weight_gradient);
    }
  }

  [[nodiscard]] OctoPlan run() {
    std::vector<Candidate> seeds = make_seeds();
    Candidate best = seeds.front();
    const std::int64_t share = (budget_ - ops_) / static_cast<std::int64_t>(seeds.size());
    for (const Candidate& seed : seeds) {
      if (is_stopped()) break;
      improve(seed, ops_ + share, best);
    }
    return best.plan;
  }

 private:
  [[nodiscard]] bool is_stopped() const { return problem_.stop && problem_.stop(); }
  [[nodiscard]] int layer_count() const { return static_cast<int>(problem_.layers.size()); }

  [[nodiscard]] Score evaluate(const OctoPlan& plan) {
    DispatchTimes times;
    const Schedule schedule = make_octopipe_schedule(problem_, plan, &times);
    Score score;
    Seconds busiest;
    Seconds laziest{1e300};
    score.makespan = *std::max_element(times.last_end.begin(), times.last_end.end());
    for (std::size_t d = 0; d < schedule.programs.size(); ++d) {
      Seconds busy;
      for (const Op& op : schedule.programs[d]) busy += op_time(op.kind, schedule.stage(op.stage).time);
      ops_ += static_cast<std::int64_t>(schedule.programs[d].size());
      busiest = std::max(busiest, busy);
      laziest = std::min(laziest, busy);
      score.boundary_idle += times.first_start[d] + (score.makespan - times.last_end[d]);
      score.residual_idle += times.last_end[d] - times.first_start[d] - busy;
    }
    score.imbalance = busiest - laziest;
    return score;
  }

  [[nodiscard]] std::vector<int> round_robin(std::size_t stages) const {
    std::vector<int> device;
    for (std::size_t s = 0; s < stages; ++s) device.push_back(static_cast<int>(s) % problem_.device_count);
    return device;
  }

  /// A plan for many stage counts, of which the best few are improved. A cap starts at the limit.
  [[nodiscard]] std::vector<Candidate> make_seeds() {
    std::vector<Candidate> seeds;
    const int devices = problem_.device_count;
    const int most = std::min(layer_count(), 12 * devices);
    for (int stages = devices; stages <= most; ++stages) {
      Candidate seed;
      seed.plan.first_layer = balanced_partition(problem_.layers, stages);
      seed.plan.device = round_robin(seed.plan.first_layer.size());
      if (problem_.memory_limit > 0.0) {
        seed.plan.cap.assign(static_cast<std::size_t>(devices), problem_.memory_limit);
        if (!within_limit(seed.plan)) continue;
      }
      seed.score = evaluate(seed.plan);
      seeds.push_back(std::move(seed));
      if (ops_ > budget_ / 3 || is_stopped()) break;
    }
    if (seeds.empty()) {
      refuse_schedule("memory-limit", "no plan holds so little",
                      "a device holds at least one micro-batch of its layers: allow 1 or more");
    }
    std::stable_sort(seeds.begin(), seeds.end(),
                     [](const Candidate& a, const Candidate& b) { return a.score.makespan < b.score.makespan; });
    if (seeds.size() > static_cast<std::size_t>(kSeeds)) seeds.resize(static_cast<std::size_t>(kSeeds));
    return seeds;
  }

  /// Whether each device can hold one micro-batch of all its stages: what the caps must leave room for.
  [[nodiscard]] bool within_limit(const OctoPlan& plan) const {
    if (plan.cap.empty()) return true;
    std::vector<double> least(plan.cap.size(), 0.0);
    for (std::size_t s = 0; s < plan.device.size(); ++s) {
      const int last = s + 1 < plan.first_layer.size() ? plan.first_layer[s + 1] : layer_count();
      least[static_cast<std::size_t>(plan.device[s])] += last - plan.first_layer[s];
    }
    for (std::size_t d = 0; d < least.size(); ++d) {
      if (least[d] > plan.cap[d] + 1e-9) return false;
    }
    return true;
  }

  [[nodiscard]] Phase phase_of(const Score& score) {
    if (random_.below(4) == 0) return static_cast<Phase>(random_.below(3));
    if (score.imbalance > smallest_layer_) return Phase::Partition;
    return score.boundary_idle > score.residual_idle ? Phase::Placement : Phase::Schedule;
  }

  /// A neighbour of `plan`, or nothing when the change drawn is not possible.
  [[nodiscard]] std::optional<OctoPlan> neighbour(const OctoPlan& plan, Phase phase) {
    OctoPlan next = plan;
    const int stages = static_cast<int>(plan.first_layer.size());
    bool changed = false;
    switch (phase) {
      case Phase::Partition: changed = shift_boundary(next, stages); break;
      case Phase::Placement: changed = move_stage(next, stages); break;
      case Phase::Schedule: changed = change_cap(next); break;
    }
    if (!changed || !within_limit(next)) return std::nullopt;
    return next;
  }

  bool shift_boundary(OctoPlan& plan, int stages) {
    if (stages < 2) return false;
    const std::size_t s = static_cast<std::size_t>(1 + random_.below(stages - 1));
    const int last = s + 1 < plan.first_layer.size() ? plan.first_layer[s + 1] : layer_count();
    const int moved = plan.first_layer[s] + (random_.below(2) == 0 ? 1 : -1);
    if (moved <= plan.first_layer[s - 1] || moved >= last) return false;
    plan.first_layer[s] = moved;
    // Half the time another boundary gives way in the same step: single shifts of a balanced plan all look worse.
    if (random_.below(2) == 0) shift_boundary(plan, stages);
    return true;
  }

  bool move_stage(OctoPlan& plan, int stages) {
    const std::size_t s = static_cast<std::size_t>(random_.below(stages));
    switch (random_.below(4)) {
      case 0:  // to another device
        plan.device[s] = random_.below(problem_.device_count);
        break;
      case 1: {  // swap with another stage
        const std::size_t t = static_cast<std::size_t>(random_.below(stages));
        if (plan.device[s] == plan.device[t]) return false;
        std::swap(plan.device[s], plan.device[t]);
        break;
      }
      case 2: {  // split in two, the second half on any device
        const int last = s + 1 < plan.first_layer.size() ? plan.first_layer[s + 1] : layer_count();
        const int size = last - plan.first_layer[s];
        if (size < 2) return false;
        const auto at = static_cast<std::ptrdiff_t>(s) + 1;
        plan.first_layer.insert(plan.first_layer.begin() + at, plan.first_layer[s] + 1 + random_.below(size - 1));
        plan.device.insert(plan.device.begin() + at, random_.below(problem_.device_count));
        break;
      }
      case 3:  // merge with the stage before
        if (s == 0 || stages <= problem_.device_count) return false;
        plan.first_layer.erase(plan.first_layer.begin() + static_cast<std::ptrdiff_t>(s));
        plan.device.erase(plan.device.begin() + static_cast<std::ptrdiff_t>(s));
        break;
    }
    return uses_all_devices(plan);
  }

  [[nodiscard]] bool uses_all_devices(const OctoPlan& plan) const {
    std::vector<bool> used(static_cast<std::size_t>(problem_.device_count), false);
    for (const int device : plan.device) used[static_cast<std::size_t>(device)] = true;
    return std::find(used.begin(), used.end(), false) == used.end();
  }

  /// Holds a device's forwards back, or lets them go again: the only thing the dispatch rule leaves open.
  bool change_cap(OctoPlan& plan) {
    const double most = problem_.memory_limit > 0.0 ? problem_.memory_limit
                                                    : static_cast<double>(problem_.micro_batches) * layer_count();
    if (plan.cap.empty()) plan.cap.assign(static_cast<std::size_t>(problem_.device_count), most);
    const std::size_t d = static_cast<std::size_t>(random_.below(problem_.device_count));
    const double share = static_cast<double>(layer_count()) / problem_.device_count;
    const double cap = random_.below(4) == 0 ? most : share * (1.0 + random_.fraction() * (problem_.micro_batches - 1));
    plan.cap[d] = std::min(most, cap);
    return true;
  }

  /// Annealing from `seed`: worse plans are accepted less and less often.
  void improve(const Candidate& seed, std::int64_t until, Candidate& best) {
    Candidate current = seed;
    if (current.score.makespan < best.score.makespan) best = current;
    const std::int64_t from = ops_;
    while (ops_ < until && !is_stopped()) {
      const double left = static_cast<double>(until - ops_) / static_cast<double>(until - from);
      const double temperature = 0.004 * left * left * current.score.makespan.value();
      ++ops_;  // a change that is not possible costs something too, so that the loop ends
      const std::optional<OctoPlan> next = neighbour(current.plan, phase_of(current.score));
      if (!next) continue;
      const Score score = evaluate(*next);
      const double worse = (score.makespan - current.score.makespan).value();
      if (worse > 0.0 && random_.fraction() >= std::exp(-worse / std::max(temperature, 1e-300))) continue;
      current = {*next, score};
      if (score.makespan < best.score.makespan) best = current;
    }
  }

  const OctoProblem& problem_;
  Random random_;
  Seconds smallest_layer_;
  std::int64_t ops_ = 0;
  std::int64_t budget_ = 0;
};

}  // namespace

OctoPlan tune_octopipe(const OctoProblem& problem) { return Tuner(problem).run(); }

}  // namespace hpplan
