#include "search/layer_cut.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace hpplan {

namespace {

/// Halvings of the bottleneck's bracket.
constexpr int kHalvings = 14;

class LayerCutter {
 public:
  LayerCutter(SearchTables& tables, int micro_batch, std::span<const int> variants, int micro_batches)
      : stages_(tables.stages(micro_batch)), ranges_(tables.ranges()), variants_(variants),
        micro_batches_(micro_batches) {}

  std::optional<LayerCut> best() const {
    std::vector<int> cuts = within(std::numeric_limits<double>::max());
    if (cuts.empty()) return std::nullopt;
    double high = slowest(cuts);
    double low = 0.0;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = 0.5 * (low + high);
      std::vector<int> tighter = within(middle);
      if (tighter.empty()) {
        low = middle;
        continue;
      }
      high = slowest(tighter);
      cuts = std::move(tighter);
    }
    return LayerCut{candidate_of(cuts), high};
  }

 private:
  [[nodiscard]] int end_of(const std::vector<int>& cuts, std::size_t stage) const {
    return stage + 1 < cuts.size() ? cuts[stage + 1] : ranges_.layers();
  }
  [[nodiscard]] double time(std::size_t stage, int first, int last) const {
    const int in_flight = stages_.in_flight(variants_.size() - stage, micro_batches_);
    return stages_.time(variants_[stage], ranges_.of(first, last), in_flight);
  }

  [[nodiscard]] double slowest(const std::vector<int>& cuts) const {
    double most = 0.0;
    for (std::size_t s = 0; s < cuts.size(); ++s) most = std::max(most, time(s, cuts[s], end_of(cuts, s)));
    return most;
  }

  /// First layer of every stage, each as full as `bottleneck` allows; empty if the layers do not fit.
  [[nodiscard]] std::vector<int> within(double bottleneck) const {
    std::vector<int> cuts(variants_.size(), 0);
    int end = ranges_.layers();
    for (std::size_t s = variants_.size(); s-- > 0;) {
      const auto before = static_cast<int>(s);  // layers that the stages before need at least
      int first = s == 0 ? 0 : end - 1;
      if (first < before || first >= end || time(s, first, end) > bottleneck) return {};
      while (s > 0 && first > before && time(s, first - 1, end) <= bottleneck) --first;
      cuts[s] = first;
      end = first;
    }
    return cuts;
  }

  [[nodiscard]] Candidate candidate_of(const std::vector<int>& cuts) const {
    Candidate candidate{stages_.micro_batch(), {}};
    for (std::size_t s = 0; s < cuts.size(); ++s) {
      const Variant& variant = stages_.variants()[static_cast<std::size_t>(variants_[s])];
      candidate.stages.push_back({variant.port, variant.split, {cuts[s], end_of(cuts, s)}});
    }
    return candidate;
  }

  const StageTable& stages_;
  const RangeClasses& ranges_;
  std::span<const int> variants_;
  int micro_batches_;
};

}  // namespace

StageList stages_of(const Candidate& pipeline) {
  StageList stages;
  for (const CandidateStage& stage : pipeline.stages) stages.emplace_back(stage.port, stage.split);
  return stages;
}

std::optional<Candidate> cut_pipeline(SearchTables& tables, int micro_batch, const StageList& stages, int samples) {
  const auto count = static_cast<int>(stages.size());
  if (count < 1 || count > tables.space().max_stages) return std::nullopt;
  if (!tables.problem().job.constraints.stages.allows(count)) return std::nullopt;
  const StageTable& table = tables.stages(micro_batch);
  std::vector<int> variants;
  for (const auto& [port, split] : stages) {
    int variant = table.first_variant(port);
    while (variant < table.first_variant(port + 1) &&
           !(table.variants()[static_cast<std::size_t>(variant)].split == split)) {
      ++variant;
    }
    if (variant == table.first_variant(port + 1)) return std::nullopt;  // the size does not divide over the replicas
    variants.push_back(variant);
  }
  const std::optional<LayerCut> cut = cut_layers(tables, micro_batch, variants, std::max(1, samples / micro_batch));
  return cut ? std::optional(cut->pipeline) : std::nullopt;
}

std::optional<LayerCut> cut_layers(SearchTables& tables, int micro_batch, std::span<const int> variants,
                                   int micro_batches) {
  return LayerCutter(tables, micro_batch, variants, micro_batches).best();
}

}  // namespace hpplan
