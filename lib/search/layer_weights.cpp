#include "search/layer_weights.hpp"

namespace hpplan {

std::vector<double> layer_weights(const Problem& problem, const StageTable& stages, const RangeClasses& ranges) {
  std::vector<double> weights;
  const ModelSpec& model = problem.model;
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    double weight = 0.0;
    for (int layer = 0; layer < model.layer_count() && weight == 0.0; ++layer) {
      if (model.layers[static_cast<std::size_t>(layer)] != static_cast<int>(kind)) continue;
      for (int v = 0; v < static_cast<int>(stages.variants().size()) && weight == 0.0; ++v) {
        const double time = stages.time(v, ranges.of(layer, layer + 1), 1);
        if (time < kInfinity) weight = time;
      }
    }
    weights.push_back(weight);
  }
  return weights;
}

double work_of(const ModelSpec& model, const std::vector<double>& weights, LayerRange layers) {
  double work = 0.0;
  for (int layer = layers.first; layer < layers.last; ++layer) {
    work += weights[static_cast<std::size_t>(model.layers[static_cast<std::size_t>(layer)])];
  }
  return work;
}

}  // namespace hpplan
