#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "base/range.hpp"
#include "predict/problem.hpp"
#include "search/space.hpp"
#include "search/work_share.hpp"

namespace hpplan {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Layer ranges that no number can tell apart: same count of every layer kind, same ends of the model inside, the same
/// spans touched.
class RangeClasses {
 public:
  explicit RangeClasses(const ModelSpec& model, const std::vector<LayerRange>& spans = {});

  [[nodiscard]] int layers() const { return layers_; }
  [[nodiscard]] int count() const { return static_cast<int>(examples_.size()); }
  [[nodiscard]] int of(int first, int last) const {
    return classes_[static_cast<std::size_t>(first) * static_cast<std::size_t>(layers_ + 1) +
                    static_cast<std::size_t>(last)];
  }
  [[nodiscard]] LayerRange example(int range_class) const { return examples_[static_cast<std::size_t>(range_class)]; }

 private:
  int layers_ = 0;
  std::vector<int> classes_;
  std::vector<LayerRange> examples_;
};

/// One way to run a stage: a port and a split of its devices that divides the micro-batch.
struct Variant {
  int port = 0;
  Split split;
};

/// Results of one way to split a stage, for every range class and in-flight depth.
struct StageRow {
  std::vector<double> forward;    // [range class], seconds of one micro-batch; what fits nowhere may be 0
  std::vector<double> optimizer;  // [range class]
  std::vector<Bytes> held;        // [range class]: gradient bytes on one device, the sum of floor(layer bytes / TP)
  std::vector<double> backward;   // of the depths that fit, range class after range class
  std::vector<std::size_t> first_backward;  // [range class], and one past the last

  /// Seconds of one micro-batch; infinity where it does not fit.
  [[nodiscard]] double backward_of(int range_class, int in_flight) const {
    const std::size_t first = first_backward[static_cast<std::size_t>(range_class)];
    const std::size_t place = first + static_cast<std::size_t>(in_flight - 1);
    return place < first_backward[static_cast<std::size_t>(range_class) + 1] ? backward[place] : kInfinity;
  }
};

/// Everything that a StageRow depends on, beside the problem.
struct StageKey {
  int group = 0;
  int tensor_parallel = 1;
  int samples = 1;   // per DP replica
  int sharding = 1;  // DP degree that divides the optimizer states; 1 when they are not sharded

  friend auto operator<=>(const StageKey&, const StageKey&) = default;
};

/// Stage rows, computed on first use and shared by all micro-batch sizes, ports, pipelines and spaces (the stage level
/// of CPC).
class StageRows {
 public:
  StageRows(const Problem& problem, int max_in_flight, int threads);

  [[nodiscard]] const Problem& problem() const { return *problem_; }
  [[nodiscard]] const RangeClasses& ranges() const { return ranges_; }
  [[nodiscard]] int max_in_flight() const { return max_in_flight_; }
  [[nodiscard]] int threads() const { return threads_; }
  /// layer_gradient_bytes() of every layer.
  [[nodiscard]] const std::vector<Bytes>& layer_gradients() const { return layer_gradients_; }
  /// Of all work on these rows that several threads shared.
  [[nodiscard]] WorkShare& share() { return share_; }
  /// Rows of the keys, in their order.
  [[nodiscard]] std::vector<const StageRow*> rows(const std::vector<StageKey>& keys);

 private:
  [[nodiscard]] StageRow compute(const StageKey& key) const;

  const Problem* problem_;
  RangeClasses ranges_;
  int max_in_flight_;
  int threads_;
  std::vector<Bytes> layer_gradients_;
  WorkShare share_;
  std::map<StageKey, std::unique_ptr<StageRow>> rows_;
};

/// Stage results of one micro-batch size, for every variant of a space.
class StageTable {
 public:
  StageTable(StageRows& rows, const Space& space, int micro_batch);

  [[nodiscard]] int micro_batch() const { return micro_batch_; }
  [[nodiscard]] int max_in_flight() const { return max_in_flight_; }
  /// Micro-batches in flight on a stage with so many stages from it on, itself included (1F1B, problem.md 5).
  [[nodiscard]] int in_flight(std::size_t stages_left, int micro_batches) const {
    return std::min({micro_batches, static_cast<int>(stages_left), max_in_flight_});
  }
  [[nodiscard]] const std::vector<Variant>& variants() const { return variants_; }
  /// Variants of a port are consecutive: [first_variant(port), first_variant(port + 1)).
  [[nodiscard]] int first_variant(int port) const { return first_variant_[static_cast<std::size_t>(port)]; }
  /// The variant of a port with this split; it must exist.
  [[nodiscard]] int variant_of(int port, const Split& split) const;

  /// Forward plus backward of one micro-batch in seconds with the cheapest recomputation; infinity if it does not fit.
  [[nodiscard]] double time(int variant, int range_class, int in_flight) const {
    return forward(variant, range_class) + backward(variant, range_class, in_flight);
  }
  [[nodiscard]] double forward(int variant, int range_class) const {
    return row(variant).forward[static_cast<std::size_t>(range_class)];
  }
  [[nodiscard]] double backward(int variant, int range_class, int in_flight) const {
    return row(variant).backward_of(range_class, in_flight);
  }
  [[nodiscard]] double optimizer(int variant, int range_class) const {
    return row(variant).optimizer[static_cast<std::size_t>(range_class)];
  }
  [[nodiscard]] Bytes held(int variant, int range_class) const {
    return row(variant).held[static_cast<std::size_t>(range_class)];
  }

 private:
  [[nodiscard]] const StageRow& row(int variant) const { return *rows_[static_cast<std::size_t>(variant)]; }

  int micro_batch_ = 1;
  int max_in_flight_ = 1;
  std::vector<Variant> variants_;
  std::vector<int> first_variant_;
  std::vector<const StageRow*> rows_;
};

}  // namespace hpplan
