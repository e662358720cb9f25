#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/range.hpp"
#include "base/units.hpp"
#include "predict/problem.hpp"

namespace hpplan {

/// A stage as far as the gradient sync goes, before it has a place.
struct SyncStage {
  int group = 0;  // node group
  int devices = 1;
  int tensor_parallel = 1;
  int data_parallel = 1;
  LayerRange layers;
};

/// A lower bound of the gradient sync of a plan whose stages are put on nodes one by one. It never falls as stages are
/// placed, and ends a few latencies below the time that predict_gradient_sync() gives, or at 0 where a tensor-parallel
/// group spans nodes.
class PlacedSync {
 public:
  ///   stages        of the whole plan, each of one range of layers
  ///   layer_bytes   layer_gradient_bytes() of every layer
  PlacedSync(const Problem& problem, std::vector<SyncStage> stages, std::span<const Bytes> layer_bytes);

  /// The bound with the stages that are placed now.
  [[nodiscard]] Seconds at_least() const;

  /// Puts a stage on nodes of its group, as many devices on each. Returns the bound over the stages whose own share
  /// this has raised.
  Seconds place(std::size_t stage, std::span<const int> nodes);
  /// Takes the stage away that was placed last.
  void lift();
  /// Parts of stages that were placed or lifted so far: what all this costs.
  [[nodiscard]] std::int64_t looks() const { return looks_; }

 private:
  /// Layers that the same stages hold.
  struct Span {
    double bytes = 0.0;  // of their gradients, whole
    int replicas = 0;    // in the whole plan
    // Seconds per byte: on one node (infinity: it has no room for that), as a flat ring over several nodes, and by
    // [ranks on each node] of a hierarchical All-Reduce (infinity: that many do not divide the replicas).
    double near = 0.0;
    double flat = 0.0;
    std::vector<double> layered;
    std::vector<double> spread;  // [most ranks on one node so far]: the least of `flat` and what `layered` can still be
    std::vector<std::size_t> holders;
    std::vector<std::pair<int, int>> placed;  // node of the cluster, ranks on it
    double cost = 0.0;                        // seconds per byte of a whole layer, at least
  };
  struct Place {
    std::size_t stage;
    std::size_t nodes;  // how many of `nodes_`
  };

  void add_span(LayerRange layers, std::span<const Bytes> layer_bytes);
  void price(Span& span) const;
  static void change_ranks(Span& span, int node, int change);
  /// Counts the ranks of the last place in (1) or out (-1). Returns the bound over the stages whose share this changed.
  Seconds change_last(int sign);
  /// Corrects a span's cost and the shares of its holders. Returns the largest that it changed, in seconds, or 0.
  double settle(std::size_t span);

  const Problem* problem_;
  std::vector<SyncStage> stages_;
  std::vector<Span> spans_;
  std::vector<std::vector<std::size_t>> held_;  // spans of each stage
  std::vector<double> shares_;                  // of each stage, seconds
  std::vector<Place> places_;
  std::vector<std::pair<int, int>> nodes_;  // of all places: node of the cluster, ranks
  bool bounded_ = true;
  std::int64_t looks_ = 0;
};

}  // namespace hpplan
