#include "search/climb.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "search/layer_cut.hpp"

namespace hpplan {

namespace {

constexpr int kPlacements = 16;
/// What is gained by less than this part is not worth another round.
constexpr double kGain = 1e-6;

class Climber {
 public:
  Climber(SearchTables& tables, Realised plan, std::int64_t most_work)
      : tables_(tables), space_(tables.space()), best_(std::move(plan)), trials_(tables, most_work) {}

  Improved run() {
    return trials_.run(best_, [this] {
      while (!trials_.spent() && improve()) {
      }
    });
  }

 private:
  /// The first change of any pipeline that helps.
  bool improve() {
    const std::vector<Candidate> pipelines = best_.pipelines;  // equal ones are neighbours
    for (std::size_t i = 0; i < pipelines.size(); ++i) {
      if (i > 0 && pipelines[i] == pipelines[i - 1]) continue;
      original_ = pipelines[i];
      micro_batches_ = best_.micro_batches[i];
      if (change_layers() || change_splits() || change_order() || change_sizes() || change_micro_batch()) return true;
    }
    return false;
  }

  /// Puts `changed` in the place of all equal pipelines; keeps what is faster.
  bool try_pipeline(const Candidate& changed) {
    tables_.check_stop();
    if (trials_.spent() || changed == original_) return false;
    std::vector<Candidate> pipelines = best_.pipelines;
    std::replace(pipelines.begin(), pipelines.end(), original_, changed);
    if (!seen_.insert(pipelines).second) return false;
    const double limit = best_.time * (1.0 - kGain);
    Realised trial = trials_.realise(std::move(pipelines), limit, kPlacements);
    if (!(trial.time < limit)) return false;
    best_ = std::move(trial);
    return true;
  }

  bool try_shape(int micro_batch, const StageList& shape) {
    tables_.check_stop();
    if (trials_.spent()) return false;
    const std::optional<Candidate> changed =
        cut_pipeline(tables_, micro_batch, shape, micro_batches_ * original_.micro_batch);
    return changed && try_pipeline(*changed);
  }

  [[nodiscard]] const std::vector<Split>& splits(int port) const {
    return space_.splits[static_cast<std::size_t>(port)];
  }

  bool change_layers() {
    for (std::size_t s = 0; s + 1 < original_.stages.size(); ++s) {
      for (const int shift : {-1, 1}) {
        Candidate changed = original_;
        changed.stages[s].layers.last += shift;
        changed.stages[s + 1].layers.first += shift;
        if (changed.stages[s].layers.size() < 1 || changed.stages[s + 1].layers.size() < 1) continue;
        if (try_pipeline(changed)) return true;
      }
    }
    return false;
  }

  bool change_splits() {
    const StageList shape = stages_of(original_);
    for (std::size_t s = 0; s < shape.size(); ++s) {
      for (const Split& split : splits(shape[s].first)) {
        StageList one = shape;
        one[s].second = split;
        if (try_shape(original_.micro_batch, one)) return true;
        if (s > 0 && shape[s] == shape[s - 1]) continue;
        StageList all = shape;
        std::replace(all.begin(), all.end(), shape[s], std::pair(shape[s].first, split));
        if (try_shape(original_.micro_batch, all)) return true;
      }
    }
    return false;
  }

  bool change_order() {
    const StageList shape = stages_of(original_);
    for (std::size_t a = 0; a < shape.size(); ++a) {
      for (std::size_t b = a + 1; b < shape.size(); ++b) {
        if (shape[a] == shape[b]) continue;
        StageList swapped = shape;
        std::swap(swapped[a], swapped[b]);
        if (try_shape(original_.micro_batch, swapped)) return true;
      }
    }
    return false;
  }

  /// A stage as two of half its devices, two neighbours as one, and devices moved from one stage to another.
  bool change_sizes() {
    const StageList shape = stages_of(original_);
    for (std::size_t s = 0; s < shape.size(); ++s) {
      const Port& port = space_.ports[static_cast<std::size_t>(shape[s].first)];
      const int half = port.devices % 2 == 0 ? space_.find({port.group, port.devices / 2}) : -1;
      if (half >= 0 && replace_stages(shape, s, 1, half, 2)) return true;
      if (s + 1 < shape.size() && shape[s + 1].first == shape[s].first) {
        const int twice = space_.find({port.group, 2 * port.devices});
        if (twice >= 0 && replace_stages(shape, s, 2, twice, 1)) return true;
      }
      if (half >= 0 && trade(shape, s, half)) return true;
    }
    return false;
  }

  /// `count` stages from s on become `into` stages on `port`, with each split that the port has.
  bool replace_stages(const StageList& shape, std::size_t s, std::size_t count, int port, std::size_t into) {
    for (const Split& split : splits(port)) {
      StageList changed = shape;
      const auto at = changed.begin() + static_cast<std::ptrdiff_t>(s);
      changed.erase(at, at + static_cast<std::ptrdiff_t>(count));
      changed.insert(changed.begin() + static_cast<std::ptrdiff_t>(s), into, {port, split});
      if (try_shape(original_.micro_batch, changed)) return true;
    }
    return false;
  }

  /// Half of stage s's devices go to another stage of half its size.
  bool trade(const StageList& shape, std::size_t s, int half) {
    for (std::size_t other = 0; other < shape.size(); ++other) {
      if (shape[other].first != half) continue;
      for (const Split& less : splits(half)) {
        for (const Split& more : splits(shape[s].first)) {
          StageList changed = shape;
          changed[s] = {half, less};
          changed[other] = {shape[s].first, more};
          if (try_shape(original_.micro_batch, changed)) return true;
        }
      }
    }
    return false;
  }

  bool change_micro_batch() {
    const StageList shape = stages_of(original_);
    const auto& sizes = tables_.problem().job.micro_batches;
    return std::any_of(sizes.begin(), sizes.end(), [&](int b) {
      return b != original_.micro_batch && b <= tables_.problem().job.global_batch && try_shape(b, shape);
    });
  }

  SearchTables& tables_;
  const Space& space_;
  Realised best_;
  Trials trials_;
  Candidate original_;     // the pipeline that is being changed
  int micro_batches_ = 1;  // that it runs in the best plan
  std::set<std::vector<Candidate>> seen_;
};

}  // namespace

Improved climb(SearchTables& tables, Realised plan, std::int64_t most_work) {
  return Climber(tables, std::move(plan), most_work).run();
}

}  // namespace hpplan
