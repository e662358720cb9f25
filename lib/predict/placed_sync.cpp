#include "predict/placed_sync.hpp"

#include <algorithm>
#include <limits>

#include "predict/link.hpp"

namespace hpplan {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Seconds per byte of a ring, without latencies.
double ring(int ranks, const Link& link) { return ring_time(1.0, ranks, {link.bandwidth, Seconds{0.0}}).value(); }

bool is_first(const SyncStage& stage) { return stage.layers.first == 0; }

/// Bytes are cut into blocks of whole bytes, and shares are sums of many changes.
constexpr double kRound = 1.0 - 1e-6;

}  // namespace

PlacedSync::PlacedSync(const Problem& problem, std::vector<SyncStage> stages, std::span<const Bytes> layer_bytes)
    : problem_(&problem), stages_(std::move(stages)), held_(stages_.size()), shares_(stages_.size(), 0.0) {
  const int layers = problem.model.layer_count();
  std::vector<int> cuts;
  cuts.reserve(stages_.size() + 3);
  cuts.assign({0, 1, layers});
  for (const SyncStage& stage : stages_) {
    cuts.push_back(stage.layers.first);
    const NodeGroup& group = problem.cluster.node_groups[static_cast<std::size_t>(stage.group)];
    bounded_ = bounded_ && std::min(stage.devices, group.devices_per_node) % stage.tensor_parallel == 0;
  }
  if (!bounded_) return;
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  spans_.reserve(cuts.size());
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) add_span({cuts[i], cuts[i + 1]}, layer_bytes);
}

void PlacedSync::add_span(LayerRange layers, std::span<const Bytes> layer_bytes) {
  const int count = problem_->model.layer_count();
  const bool tied = problem_->model.tied_embeddings;
  Span span;
  for (int layer = layers.first; layer < layers.last; ++layer) {
    // The gradient of a tied head is layer 0's.
    if (!tied || layer + 1 < count) span.bytes += layer_bytes[static_cast<std::size_t>(layer)].value();
  }
  std::vector<int> groups;
  int most_on_node = 1;
  int devices = 0;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const SyncStage& stage = stages_[s];
    const bool holds_head = tied && layers.first == 0 && stage.layers.last == count && !is_first(stage);
    if (!holds_head && !stage.layers.contains(layers.first)) continue;
    const NodeGroup& group = problem_->cluster.node_groups[static_cast<std::size_t>(stage.group)];
    if (std::find(groups.begin(), groups.end(), stage.group) == groups.end()) groups.push_back(stage.group);
    most_on_node = std::max(most_on_node, group.devices_per_node);
    devices += stage.devices;
    span.replicas += stage.data_parallel;
    span.holders.push_back(s);
    held_[s].push_back(spans_.size());
  }
  if (span.replicas < 2) return spans_.push_back(std::move(span));
  const auto [intra, inter] = slowest_links(*problem_, groups);
  span.near = groups.size() == 1 && devices <= most_on_node ? ring(span.replicas, intra) : kNever;
  span.flat = ring(span.replicas, inter);
  span.layered.assign(static_cast<std::size_t>(most_on_node) + 1, kNever);
  for (int k = 2; k <= std::min(most_on_node, span.replicas / 2); ++k) {
    if (span.replicas % k != 0) continue;
    span.layered[static_cast<std::size_t>(k)] = ring(k, intra) + ring(span.replicas / k, inter) / k;
  }
  span.spread = span.layered;
  double least = span.flat;
  for (std::size_t k = span.spread.size(); k-- > 0;) span.spread[k] = least = std::min(least, span.layered[k]);
  spans_.push_back(std::move(span));
  static_cast<void>(settle(spans_.size() - 1));
}

void PlacedSync::price(Span& span) const {
  int placed = 0;
  int most = 0;
  bool even = true;
  for (const auto& [node, ranks] : span.placed) {
    placed += ranks;
    most = std::max(most, ranks);
    even = even && ranks == span.placed.front().second;
  }
  const auto k = static_cast<std::size_t>(most);
  if (placed < span.replicas) {
    span.cost = span.spread[k];
    if (span.placed.size() <= 1) span.cost = std::min(span.cost, span.near);
  } else if (span.placed.size() == 1) {
    span.cost = span.near;
  } else {
    span.cost = even ? std::min(span.flat, span.layered[k]) : span.flat;
  }
}

double PlacedSync::settle(std::size_t index) {
  Span& span = spans_[index];
  const double before = span.cost;
  price(span);
  if (span.cost == before) return 0.0;
  const double more = span.bytes * (span.cost - before);
  double most = 0.0;
  for (const std::size_t s : span.holders) most = std::max(most, shares_[s] += more / stages_[s].tensor_parallel);
  return most;
}

Seconds PlacedSync::at_least() const {
  if (!bounded_ || shares_.empty()) return Seconds{0.0};
  return Seconds{*std::max_element(shares_.begin(), shares_.end()) * kRound};
}

void PlacedSync::change_ranks(Span& span, int node, int change) {
  const auto known =
      std::find_if(span.placed.begin(), span.placed.end(), [&](const auto& other) { return other.first == node; });
  if (known == span.placed.end()) {
    span.placed.emplace_back(node, change);
  } else {
    known->second += change;
    if (known->second == 0) span.placed.erase(known);
  }
}

Seconds PlacedSync::change_last(int sign) {
  const Place& place = places_.back();
  double most = 0.0;
  for (const std::size_t index : held_[place.stage]) {
    Span& span = spans_[index];
    if (span.replicas < 2) continue;
    for (auto node = nodes_.end() - static_cast<std::ptrdiff_t>(place.nodes); node != nodes_.end(); ++node)
      change_ranks(span, node->first, sign * node->second);
    most = std::max(most, settle(index));
    ++looks_;
  }
  return Seconds{most * kRound};
}

Seconds PlacedSync::place(std::size_t stage, std::span<const int> nodes) {
  if (!bounded_) return Seconds{0.0};
  const SyncStage& placed = stages_[stage];
  int first = 0;  // node of the cluster
  for (int g = 0; g < placed.group; ++g) first += problem_->cluster.node_groups[static_cast<std::size_t>(g)].nodes;
  const int ranks = placed.devices / static_cast<int>(nodes.size()) / placed.tensor_parallel;
  places_.push_back({stage, nodes.size()});
  for (const int node : nodes) nodes_.emplace_back(first + node, ranks);
  return change_last(1);
}

void PlacedSync::lift() {
  if (!bounded_) return;
  static_cast<void>(change_last(-1));
  nodes_.resize(nodes_.size() - places_.back().nodes);
  places_.pop_back();
}

}  // namespace hpplan
