#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "base/range.hpp"
#include "predict/problem.hpp"
#include "search/space.hpp"

namespace hpplan {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Layer ranges that no number can tell apart: same count of every layer kind, same ends of the model inside.
class RangeClasses {
 public:
  explicit RangeClasses(const ModelSpec& model);

  [[nodiscard]] int layers() const { return layers_; }
  [[nodiscard]] int count() const { return static_cast<int>(examples_.size()); }
  [[nodiscard]] int of(int first, int last) const {
    return classes_[static_cast<std::size_t>(first * (layers_ + 1) + last)];
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

/// Stage results of one micro-batch size, for every variant, range class and in-flight depth: computed once and shared
/// by all pipelines and all global partitions (the stage level of CPC).
class StageTable {
 public:
  StageTable(const Problem& problem, const Space& space, const RangeClasses& ranges, int micro_batch, int max_in_flight,
             int threads);

  [[nodiscard]] int micro_batch() const { return micro_batch_; }
  [[nodiscard]] int max_in_flight() const { return max_in_flight_; }
  [[nodiscard]] const std::vector<Variant>& variants() const { return variants_; }
  /// Variants of a port are consecutive: [first_variant(port), first_variant(port + 1)).
  [[nodiscard]] int first_variant(int port) const { return first_variant_[static_cast<std::size_t>(port)]; }

  /// Forward plus backward of one micro-batch in seconds with the cheapest recomputation; infinity if it does not fit.
  [[nodiscard]] double time(int variant, int range_class, int in_flight) const {
    return forward_[base(variant, range_class)] + backward_[at(variant, range_class, in_flight)];
  }
  [[nodiscard]] double forward(int variant, int range_class) const { return forward_[base(variant, range_class)]; }
  [[nodiscard]] double backward(int variant, int range_class, int in_flight) const {
    return backward_[at(variant, range_class, in_flight)];
  }
  [[nodiscard]] double optimizer(int variant, int range_class) const { return optimizer_[base(variant, range_class)]; }
  /// Gradient bytes on one device: the sum of floor(layer bytes / TP).
  [[nodiscard]] Bytes held(int variant, int range_class) const { return held_[base(variant, range_class)]; }

 private:
  [[nodiscard]] std::size_t base(int variant, int range_class) const {
    return static_cast<std::size_t>(variant) * static_cast<std::size_t>(range_count_) +
           static_cast<std::size_t>(range_class);
  }
  [[nodiscard]] std::size_t at(int variant, int range_class, int in_flight) const {
    return base(variant, range_class) * static_cast<std::size_t>(max_in_flight_) +
           static_cast<std::size_t>(in_flight - 1);
  }
  void fill(const Problem& problem, const Space& space, const RangeClasses& ranges, int variant);

  int micro_batch_ = 1;
  int max_in_flight_ = 1;
  int range_count_ = 0;
  std::vector<Variant> variants_;
  std::vector<int> first_variant_;
  std::vector<double> forward_;
  std::vector<double> backward_;
  std::vector<double> optimizer_;
  std::vector<Bytes> held_;
};

}  // namespace hpplan
