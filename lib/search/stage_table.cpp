#include "search/stage_table.hpp"

#include <algorithm>

#include "base/for_each_index.hpp"
#include "predict/gradient_sync.hpp"
#include "predict/stage.hpp"

namespace hpplan {

RangeClasses::RangeClasses(const ModelSpec& model) : layers_(model.layer_count()) {
  classes_.assign(static_cast<std::size_t>((layers_ + 1) * (layers_ + 1)), -1);
  std::map<std::vector<int>, int> known;
  for (int first = 0; first < layers_; ++first) {
    std::vector<int> key(model.kinds.size() + 2, 0);
    key[0] = first == 0 ? 1 : 0;
    for (int last = first + 1; last <= layers_; ++last) {
      ++key[static_cast<std::size_t>(model.layers[static_cast<std::size_t>(last) - 1]) + 2];
      key[1] = last == layers_ ? 1 : 0;
      const auto [place, added] = known.try_emplace(key, count());
      if (added) examples_.push_back({first, last});
      classes_[static_cast<std::size_t>(first * (layers_ + 1) + last)] = place->second;
    }
  }
}

StageTable::StageTable(const Problem& problem, const Space& space, const RangeClasses& ranges, int micro_batch,
                       int max_in_flight, int threads)
    : micro_batch_(micro_batch), max_in_flight_(max_in_flight), range_count_(ranges.count()) {
  for (std::size_t p = 0; p < space.ports.size(); ++p) {
    first_variant_.push_back(static_cast<int>(variants_.size()));
    for (const Split& split : space.splits[p]) {
      if (micro_batch % split.data_parallel == 0) variants_.push_back({static_cast<int>(p), split});
    }
  }
  first_variant_.push_back(static_cast<int>(variants_.size()));
  const std::size_t cells = variants_.size() * static_cast<std::size_t>(range_count_);
  forward_.assign(cells, 0.0);
  optimizer_.assign(cells, 0.0);
  held_.assign(cells, Bytes{});
  backward_.assign(cells * static_cast<std::size_t>(max_in_flight_), kInfinity);
  for_each_index(variants_.size(), threads,
                 [&](std::size_t v) { fill(problem, space, ranges, static_cast<int>(v)); });
}

void StageTable::fill(const Problem& problem, const Space& space, const RangeClasses& ranges, int variant) {
  const Variant& v = variants_[static_cast<std::size_t>(variant)];
  const int group = space.ports[static_cast<std::size_t>(v.port)].group;
  const Bytes capacity = problem.capacity(group);
  const ModelSpec& model = problem.model;
  for (int c = 0; c < range_count_; ++c) {
    StageQuery query{group, v.split.tensor_parallel, v.split.data_parallel, micro_batch_, ranges.example(c), 1};
    const StageBase stage = stage_base(problem, query);
    const std::size_t cell = base(variant, c);
    forward_[cell] = stage.forward.value();
    optimizer_[cell] = hpplan::optimizer_time(problem, group, query.tensor_parallel, query.data_parallel,
                                              stage.parameters).value();
    for (int layer = query.layers.first; layer < query.layers.last; ++layer) {
      const bool tied_head = model.tied_embeddings && layer == model.layer_count() - 1;
      const int gradient_layer = tied_head ? 0 : layer;
      if (tied_head && query.layers.first == 0) continue;
      held_[cell] += Bytes{layer_gradient_bytes(model, gradient_layer).count() / query.tensor_parallel};
    }
    const std::vector<RecomputeItem> items = recompute_items(problem, query);
    for (int w = 1; w <= max_in_flight_; ++w) {
      const Bytes excess = stage.memory.total() + stage.saved * (w - 1) - capacity;
      const auto selection = cheapest_recompute(items, w, excess);
      if (!selection) break;   // deeper pipelines hold more
      backward_[at(variant, c, w)] = (stage.backward + selection->extra).value();
    }
  }
}

}  // namespace hpplan
