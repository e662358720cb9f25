#include "search/stage_table.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "base/for_each_index.hpp"
#include "predict/gradient_sync.hpp"
#include "predict/stage.hpp"

namespace hpplan {

namespace {

/// The ranges of layers from one start on, longer and longer, as a path of nodes. Ranges that begin with the same
/// layers share their nodes: what is known of a node holds for all of them.
class RangePaths {
 public:
  /// The class of such a range that ends before the last layer, or with it; -1 as long as none is known.
  [[nodiscard]] int& class_of(std::size_t node, bool ends) { return ends ? nodes_[node].end : nodes_[node].inside; }
  /// The node of the range that is longer by a layer of this sort.
  [[nodiscard]] std::size_t next(std::size_t node, int sort) {
    Node& known = nodes_[node];
    if (known.sort == sort) return known.next;  // most have no other
    const auto [place, added] = others_.try_emplace({node, sort}, nodes_.size());
    const std::size_t found = place->second;
    if (added) {
      known.sort = sort;
      known.next = found;
      nodes_.emplace_back();
    }
    return found;
  }

 private:
  struct Node {
    int inside = -1;
    int end = -1;
    int sort = -1;  // of the layer that was added last
    std::size_t next = 0;
  };
  std::vector<Node> nodes_{2};  // of the empty ranges: at the model's start, and elsewhere
  std::map<std::pair<std::size_t, int>, std::size_t> others_;
};

/// [layer]: a number for its kind and the spans that it is in.
std::vector<int> sorts_of(const ModelSpec& model, const std::vector<LayerRange>& spans) {
  std::map<std::vector<int>, int> known;
  std::vector<int> sorts;
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    std::vector<int> sort{model.layers[static_cast<std::size_t>(layer)]};
    for (const LayerRange& span : spans) sort.push_back(span.contains(layer) ? 1 : 0);
    sorts.push_back(known.try_emplace(std::move(sort), static_cast<int>(known.size())).first->second);
  }
  return sorts;
}

}  // namespace

RangeClasses::RangeClasses(const ModelSpec& model, const std::vector<LayerRange>& spans)
    : layers_(model.layer_count()) {
  const std::size_t width = static_cast<std::size_t>(layers_) + 1;
  classes_.assign(width * width, -1);
  const std::vector<int> sorts = sorts_of(model, spans);
  RangePaths paths;
  std::map<std::vector<int>, int> known;
  for (int first = 0; first < layers_; ++first) {
    const std::size_t kinds_end = model.kinds.size() + 2;
    std::vector<int> key(kinds_end + spans.size(), 0);
    key[0] = first == 0 ? 1 : 0;
    std::size_t node = first == 0 ? 0 : 1;
    for (int last = first + 1; last <= layers_; ++last) {
      const auto added_layer = static_cast<std::size_t>(last) - 1;
      ++key[static_cast<std::size_t>(model.layers[added_layer]) + 2];
      node = paths.next(node, sorts[added_layer]);
      int& range_class = paths.class_of(node, last == layers_);
      if (range_class < 0) {
        key[1] = last == layers_ ? 1 : 0;
        for (std::size_t i = 0; i < spans.size(); ++i) {
          key[kinds_end + i] = first < spans[i].last && spans[i].first < last ? 1 : 0;
        }
        const auto [place, added] = known.try_emplace(key, count());
        if (added) examples_.push_back({first, last});
        range_class = place->second;
      }
      classes_[static_cast<std::size_t>(first) * width + static_cast<std::size_t>(last)] = range_class;
    }
  }
}

StageRows::StageRows(const Problem& problem, int max_in_flight, int threads)
    : problem_(&problem), ranges_(problem.model, problem.places.spans()), max_in_flight_(max_in_flight),
      threads_(threads), share_(threads) {
  for (int layer = 0; layer < problem.model.layer_count(); ++layer)
    layer_gradients_.push_back(layer_gradient_bytes(problem.model, layer));
}

std::vector<const StageRow*> StageRows::rows(const std::vector<StageKey>& keys) {
  std::vector<std::pair<const StageKey*, std::unique_ptr<StageRow>*>> missing;
  for (const StageKey& key : keys) {
    const auto [place, added] = rows_.try_emplace(key);
    if (added) missing.emplace_back(&place->first, &place->second);
  }
  for_each_index(missing.size(), threads_,
                 [&](std::size_t i) { *missing[i].second = std::make_unique<StageRow>(compute(*missing[i].first)); });
  std::vector<const StageRow*> found;
  found.reserve(keys.size());
  for (const StageKey& key : keys) found.push_back(rows_.at(key).get());
  return found;
}

StageRow StageRows::compute(const StageKey& key) const {
  const ModelSpec& model = problem_->model;
  const auto ranges = static_cast<std::size_t>(ranges_.count());
  StageRow row;
  row.forward.resize(ranges);
  row.optimizer.resize(ranges);
  row.held.resize(ranges);
  const Bytes capacity = problem_->capacity(key.group);
  const int layers = model.layer_count();
  std::vector<Bytes> held{Bytes{0}};  // by the layers before each; a tied head holds what the embedding does
  for (int layer = 0; layer < layers; ++layer) {
    const bool tied_head = model.tied_embeddings && layer == layers - 1;
    const Bytes whole = layer_gradients_[static_cast<std::size_t>(tied_head ? 0 : layer)];
    held.push_back(held.back() + Bytes{whole.count() / key.tensor_parallel});
  }
  std::vector<char> too_large(ranges, 0);  // for any device of the group, even without buffers
  std::optional<GrowingStage> growing;
  for (int c = 0; c < ranges_.count(); ++c) {
    const auto cell = static_cast<std::size_t>(c);
    const StageQuery query{key.group, key.tensor_parallel, key.sharding, key.samples * key.sharding, ranges_.example(c),
                           1};
    const auto [first, last] = std::pair(query.layers.first, query.layers.last);
    row.first_backward.push_back(row.backward.size());
    row.held[cell] = held[static_cast<std::size_t>(last)] - held[static_cast<std::size_t>(first)];
    if (model.tied_embeddings && first == 0 && last == layers) row.held[cell] -= held[1];
    if (last - first > 1 && too_large[static_cast<std::size_t>(ranges_.of(first, last - 1))] != 0) {
      too_large[cell] = 1;
      continue;
    }
    if (!growing || growing->first() != first) growing.emplace(*problem_, query);
    growing->grow(last);
    const StageBase stage = growing->base();
    row.forward[cell] = stage.forward.value();
    row.optimizer[cell] =
        optimizer_time(*problem_, key.group, key.tensor_parallel, key.sharding, stage.parameters).value();
    if (!problem_->places.may_hold(key.group, query.layers)) continue;  // as if it did not fit
    const std::vector<RecomputeItem> items = growing->items();
    const Bytes least = stage.memory.total() - communication_buffers(model, query) - largest_relief(items, 1);
    too_large[cell] = least > capacity ? 1 : 0;
    for (int w = 1; w <= max_in_flight_; ++w) {
      const Bytes excess = stage.memory.total() + stage.saved * (w - 1) - capacity;
      const auto selection = cheapest_recompute(items, w, excess);
      if (!selection) break;  // deeper pipelines hold more
      row.backward.push_back((stage.backward + selection->extra).value());
    }
  }
  row.first_backward.push_back(row.backward.size());
  return row;
}

StageTable::StageTable(StageRows& rows, const Space& space, int micro_batch)
    : micro_batch_(micro_batch), max_in_flight_(rows.max_in_flight()) {
  const bool sharded = rows.problem().job.optimizer_sharding == OptimizerSharding::StageDataParallel;
  std::vector<StageKey> keys;
  for (std::size_t p = 0; p < space.ports.size(); ++p) {
    first_variant_.push_back(static_cast<int>(variants_.size()));
    for (const Split& split : space.splits[p]) {
      if (micro_batch % split.data_parallel != 0) continue;
      variants_.push_back({static_cast<int>(p), split});
      keys.push_back({space.ports[p].group, split.tensor_parallel, micro_batch / split.data_parallel,
                      sharded ? split.data_parallel : 1});
    }
  }
  first_variant_.push_back(static_cast<int>(variants_.size()));
  rows_ = rows.rows(keys);
}

int StageTable::variant_of(int port, const Split& split) const {
  for (int v = first_variant(port); v < first_variant(port + 1); ++v) {
    if (variants_[static_cast<std::size_t>(v)].split == split) return v;
  }
  check_invariant(false, "a split of the stage table");
  return -1;
}

}  // namespace hpplan
