#include "search/anneal.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>
#include <utility>

#include "search/layer_cut.hpp"

namespace hpplan {

namespace {

constexpr std::uint64_t kFirstSeed = 20261130;
/// A step may lead to a plan that is slower by up to this part at the start of a walk, and by nothing at its end.
constexpr double kHeat = 0.005;
/// Plans that one walk looks at; after one that found nothing there is no other.
constexpr int kSteps = 2000;
/// What is gained by less than this part is no reason to walk on.
constexpr double kGain = 1e-4;
/// Changes that come to nothing before one is given up: where hardly any is possible, the walk must end too.
constexpr int kMostDraws = 200;
constexpr int kPlacements = 4;

using Pipelines = std::vector<Candidate>;

class Annealer {
 public:
  Annealer(SearchTables& tables, Realised plan, std::int64_t most_work, AnnealMoves moves, std::uint64_t seed)
      : tables_(tables), space_(tables.space()), now_(plan), best_(std::move(plan)), trials_(tables, most_work),
        moves_(moves), dice_(kFirstSeed + seed) {}

  Improved run() {
    return trials_.run(best_, [this] {
      double before = kInfinity;
      while (best_.time < before * (1.0 - kGain) && !trials_.spent()) {
        before = best_.time;
        now_ = best_;
        walk();
      }
    });
  }

 private:
  void walk() {
    for (int step = 0; step < kSteps && !trials_.spent(); ++step) {
      std::optional<Change> changed = draw_change();
      if (!changed) return;
      const double left = 1.0 - static_cast<double>(step) / kSteps;
      const double limit = now_.time * (1.0 + kHeat * left * left * chance());
      Realised trial =
          trials_.realise(std::move(changed->pipelines), limit, kPlacements, std::move(changed->placement));
      if (!(trial.time <= limit)) continue;
      now_ = std::move(trial);
      if (now_.time < best_.time) best_ = now_;
    }
  }

  // ---- chance ----

  std::size_t below(std::size_t count) { return static_cast<std::size_t>(dice_() % count); }
  bool toss() { return below(2) == 0; }
  double chance() { return static_cast<double>(dice_() >> 11) * 0x1p-53; }

  // ---- changes ----

  /// Pipelines, and where they lie as long as each stage needs the same devices.
  struct Change {
    Pipelines pipelines;
    Placement placement;
  };

  /// A change that fits the cluster and the job's limits; nothing if that hardly ever comes out.
  std::optional<Change> draw_change() {
    for (int draw = 0; draw < kMostDraws; ++draw) {
      tables_.check_stop();
      std::optional<Pipelines> changed = change();
      if (!changed || *changed == now_.pipelines || !fits(*changed)) continue;
      Placement placement = same_ports(*changed) ? now_.placement : Placement{};
      return Change{std::move(*changed), std::move(placement)};
    }
    return std::nullopt;
  }

  /// Whether the pipelines need the same devices as those now, stage by stage.
  [[nodiscard]] bool same_ports(const Pipelines& pipelines) const {
    const auto same_stage = [](const CandidateStage& a, const CandidateStage& b) { return a.port == b.port; };
    return std::equal(pipelines.begin(), pipelines.end(), now_.pipelines.begin(), now_.pipelines.end(),
                      [&](const Candidate& a, const Candidate& b) {
                        return std::equal(a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end(),
                                          same_stage);
                      });
  }

  [[nodiscard]] bool fits(const Pipelines& pipelines) const {
    const Problem& problem = tables_.problem();
    const auto count = static_cast<int>(pipelines.size());
    if (count > space_.max_pipelines || !problem.job.constraints.pipelines.allows(count)) return false;
    std::vector<int> left;
    for (int g = 0; g < problem.cluster.group_count(); ++g) left.push_back(problem.places.device_count(g));
    for (const Candidate& pipeline : pipelines) {
      for (const CandidateStage& stage : pipeline.stages) {
        const Port& port = port_of(stage.port);
        left[static_cast<std::size_t>(port.group)] -= port.devices;
      }
    }
    return std::all_of(left.begin(), left.end(), [](int devices) { return devices >= 0; });
  }

  [[nodiscard]] const Port& port_of(int port) const { return space_.ports[static_cast<std::size_t>(port)]; }
  [[nodiscard]] int half_of(int port) const {
    const Port& whole = port_of(port);
    return whole.devices % 2 == 0 ? space_.find({whole.group, whole.devices / 2}) : -1;
  }
  [[nodiscard]] int twice(int port) const { return space_.find({port_of(port).group, 2 * port_of(port).devices}); }
  [[nodiscard]] int samples_of(std::size_t i) const { return now_.micro_batches[i] * now_.pipelines[i].micro_batch; }

  std::optional<Pipelines> change() {
    const std::size_t i = below(now_.pipelines.size());
    const Candidate& old = now_.pipelines[i];
    switch (below(10)) {
      case 0:
      case 1: return put(i, with_layer_moved(old));
      case 2: return put(i, with_split(old, samples_of(i)));
      case 3: return put(i, with_order(old, samples_of(i)));
      case 4: return put(i, with_stages_cut(old, samples_of(i)));
      case 5: return put(i, with_micro_batch(old, samples_of(i)));
      case 6: return put(i, with_sizes(old, samples_of(i)));
      case 7: return put(i, with_stage_count(old, samples_of(i)));
      case 8: return moves_ == AnnealMoves::KeepCount ? with_trade(i) : with_twins(i);
      default: return with_trade(i);
    }
  }

  /// The changed pipeline in the place of the old one, or of all that are equal to it.
  std::optional<Pipelines> put(std::size_t i, const std::optional<Candidate>& changed) {
    if (!changed) return std::nullopt;
    Pipelines next = now_.pipelines;
    if (toss()) {
      std::replace(next.begin(), next.end(), now_.pipelines[i], *changed);
    } else {
      next[i] = *changed;
    }
    return next;
  }

  /// A stage on `port` for micro-batches of b samples: mostly with the TP degree nearest to `like`'s.
  std::optional<std::pair<int, Split>> stage_on(int port, int micro_batch, const Split& like) {
    if (port < 0) return std::nullopt;
    std::vector<Split> possible;
    for (const Split& split : space_.splits[static_cast<std::size_t>(port)]) {
      if (micro_batch % split.data_parallel == 0) possible.push_back(split);
    }
    if (possible.empty()) return std::nullopt;
    if (below(4) == 0) return std::pair(port, possible[below(possible.size())]);
    const auto distance = [&](const Split& split) { return std::abs(split.tensor_parallel - like.tensor_parallel); };
    return std::pair(port, *std::min_element(possible.begin(), possible.end(), [&](const Split& a, const Split& b) {
                       return distance(a) < distance(b);
                     }));
  }

  std::optional<Candidate> with_layer_moved(const Candidate& old) {
    if (old.stages.size() < 2) return std::nullopt;
    std::size_t from = below(old.stages.size());
    std::size_t to = toss() ? below(old.stages.size()) : (from + 1 < old.stages.size() ? from + 1 : from - 1);
    if (toss()) std::swap(from, to);
    if (from == to || old.stages[from].layers.size() < 2) return std::nullopt;
    Candidate changed = old;
    const int shift = from < to ? -1 : 1;
    for (std::size_t s = std::min(from, to); s < std::max(from, to); ++s) {
      changed.stages[s].layers.last += shift;
      changed.stages[s + 1].layers.first += shift;
    }
    return changed;
  }

  std::optional<Candidate> with_split(const Candidate& old, int samples) {
    StageList stages = stages_of(old);
    const auto was = stages[below(stages.size())];
    const auto& splits = space_.splits[static_cast<std::size_t>(was.first)];
    const std::pair changed(was.first, splits[below(splits.size())]);
    if (toss()) {
      std::replace(stages.begin(), stages.end(), was, changed);
    } else {
      *std::find(stages.begin(), stages.end(), was) = changed;
    }
    return cut_pipeline(tables_, old.micro_batch, stages, samples);
  }

  std::optional<Candidate> with_order(const Candidate& old, int samples) {
    StageList stages = stages_of(old);
    const auto a = stages.begin() + static_cast<std::ptrdiff_t>(below(stages.size()));
    const auto b = stages.begin() + static_cast<std::ptrdiff_t>(below(stages.size()));
    if (toss()) {
      std::swap(*a, *b);
    } else if (a < b) {
      std::rotate(a, a + 1, b + 1);
    } else {
      std::rotate(b, a, a + 1);
    }
    return cut_pipeline(tables_, old.micro_batch, stages, samples);
  }

  /// One stage as two of half its devices, or two neighbours as one.
  std::optional<Candidate> with_stages_cut(const Candidate& old, int samples) {
    StageList stages = stages_of(old);
    const std::size_t s = below(stages.size());
    const auto at = stages.begin() + static_cast<std::ptrdiff_t>(s);
    if (toss()) {
      const auto half = stage_on(half_of(at->first), old.micro_batch, at->second);
      if (!half) return std::nullopt;
      *at = *half;
      stages.insert(at, *half);
    } else {
      if (s + 1 >= stages.size()) return std::nullopt;
      const Port& a = port_of(at->first);
      const Port& b = port_of(stages[s + 1].first);
      if (a.group != b.group) return std::nullopt;
      const auto both = stage_on(space_.find({a.group, a.devices + b.devices}), old.micro_batch, at->second);
      if (!both) return std::nullopt;
      *at = *both;
      stages.erase(at + 1);
    }
    return cut_pipeline(tables_, old.micro_batch, stages, samples);
  }

  std::optional<Candidate> with_micro_batch(const Candidate& old, int samples) {
    const std::vector<int>& sizes = tables_.problem().job.micro_batches;
    const int b = sizes[below(sizes.size())];
    if (b > tables_.problem().job.global_batch) return std::nullopt;
    StageList stages = stages_of(old);
    if (toss()) {
      for (auto& stage : stages) {
        const auto other = stage_on(stage.first, b, stage.second);
        if (!other) return std::nullopt;
        stage = *other;
      }
    }
    return cut_pipeline(tables_, b, stages, samples);
  }

  /// A stage with twice its devices; mostly another of its group pays for them with half of its own.
  std::optional<Candidate> with_sizes(const Candidate& old, int samples) {
    StageList stages = stages_of(old);
    const std::size_t s = below(stages.size());
    const auto grown = stage_on(twice(stages[s].first), old.micro_batch, stages[s].second);
    if (!grown) return std::nullopt;
    if (below(3) > 0) {
      const std::size_t other = below(stages.size());
      if (other == s || port_of(stages[other].first).group != port_of(stages[s].first).group) return std::nullopt;
      const auto shrunk = stage_on(half_of(stages[other].first), old.micro_batch, stages[other].second);
      if (!shrunk) return std::nullopt;
      stages[other] = *shrunk;
    }
    stages[s] = *grown;
    return cut_pipeline(tables_, old.micro_batch, stages, samples);
  }

  /// A stage less, or one more on any port.
  std::optional<Candidate> with_stage_count(const Candidate& old, int samples) {
    StageList stages = stages_of(old);
    const std::size_t s = below(stages.size());
    if (toss()) {
      stages.erase(stages.begin() + static_cast<std::ptrdiff_t>(s));
    } else {
      const auto more = stage_on(static_cast<int>(below(space_.ports.size())), old.micro_batch, stages[s].second);
      if (!more) return std::nullopt;
      stages.insert(stages.begin() + static_cast<std::ptrdiff_t>(below(stages.size() + 1)), *more);
    }
    return cut_pipeline(tables_, old.micro_batch, stages, samples);
  }

  /// Two pipelines of half the devices, with the same micro-batches or such of half the size.
  std::optional<Pipelines> with_twins(std::size_t i) {
    const Candidate& old = now_.pipelines[i];
    const std::vector<int>& sizes = tables_.problem().job.micro_batches;
    const int b = old.micro_batch % 2 == 0 && toss() ? old.micro_batch / 2 : old.micro_batch;
    if (std::find(sizes.begin(), sizes.end(), b) == sizes.end()) return std::nullopt;
    StageList stages = stages_of(old);
    for (auto& stage : stages) {
      const auto half = stage_on(half_of(stage.first), b, stage.second);
      if (!half) return std::nullopt;
      stage = *half;
    }
    const std::optional<Candidate> twin = cut_pipeline(tables_, b, stages, samples_of(i) / 2);
    if (!twin) return std::nullopt;
    Pipelines next = now_.pipelines;
    next[i] = *twin;
    next.push_back(*twin);
    return next;
  }

  /// A stage's devices given to another pipeline, or swapped with those of a stage there.
  std::optional<Pipelines> with_trade(std::size_t i) {
    const std::size_t j = below(now_.pipelines.size());
    if (i == j) return std::nullopt;
    const Candidate& giver = now_.pipelines[i];
    const Candidate& taker = now_.pipelines[j];
    StageList given = stages_of(giver);
    StageList taken = stages_of(taker);
    const auto from = given.begin() + static_cast<std::ptrdiff_t>(below(given.size()));
    const auto here = stage_on(from->first, taker.micro_batch, from->second);
    if (!here) return std::nullopt;
    if (toss()) {
      given.erase(from);
      taken.insert(taken.begin() + static_cast<std::ptrdiff_t>(below(taken.size() + 1)), *here);
    } else {
      const auto to = taken.begin() + static_cast<std::ptrdiff_t>(below(taken.size()));
      const auto there = stage_on(to->first, giver.micro_batch, to->second);
      if (!there || to->first == from->first) return std::nullopt;
      *to = *here;
      *from = *there;
    }
    const std::optional<Candidate> less = cut_pipeline(tables_, giver.micro_batch, given, samples_of(i));
    const std::optional<Candidate> more = cut_pipeline(tables_, taker.micro_batch, taken, samples_of(j));
    if (!less || !more) return std::nullopt;
    Pipelines next = now_.pipelines;
    next[i] = *less;
    next[j] = *more;
    return next;
  }

  SearchTables& tables_;
  const Space& space_;
  Realised now_;
  Realised best_;
  Trials trials_;
  AnnealMoves moves_;
  std::mt19937_64 dice_;
};

}  // namespace

Improved anneal(SearchTables& tables, Realised plan, std::int64_t most_work, AnnealMoves moves, std::uint64_t seed) {
  return Annealer(tables, std::move(plan), most_work, moves, seed).run();
}

}  // namespace hpplan
