#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "predict/problem.hpp"

namespace hpplan::testing {

/// The same numbers from the same seed with every standard library.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 0x1234567ULL) {}

  [[nodiscard]] std::uint64_t next();
  /// A whole number in [first, last].
  [[nodiscard]] int whole(int first, int last);
  /// A real number in [first, last).
  [[nodiscard]] double real(double first, double last);
  /// first .. last, each factor as likely as another.
  [[nodiscard]] double spread(double first, double last);
  [[nodiscard]] bool chance(double share) { return real(0.0, 1.0) < share; }
  template <typename T>
  [[nodiscard]] T one_of(std::initializer_list<T> values) {
    return values.begin()[whole(0, static_cast<int>(values.size()) - 1)];
  }

 private:
  std::uint64_t state_;
};

/// How large a random problem may be.
struct ProblemSize {
  int devices = 6;
  int groups = 2;
  int blocks = 6;
  int batch = 16;
};

/// The inputs of a problem, so that a test can change one of them.
struct Inputs {
  ModelSpec model;
  ClusterSpec cluster;
  std::vector<DeviceProfile> profiles;
  Job job;

  [[nodiscard]] Problem problem() const;
};

/// A small problem in which everything that a plan decides matters: devices of unlike speed and memory, links about as
/// slow as a stage, memory from too little to ample, tied or untied embeddings, unlike blocks, odd node sizes, measured
/// times that follow no formula or modelled ones, optimizer sharding or not. No constraints.
[[nodiscard]] Inputs random_inputs(std::uint64_t seed, const ProblemSize& size = {});

/// Random constraints that leave some plans.
void constrain(Inputs& inputs, std::uint64_t seed);

/// One or two random placement rules that leave every layer some device; none where no such rule was found.
void restrict_places(Inputs& inputs, std::uint64_t seed);

/// Every time twice as long: measured times, links and latencies. For problems with profiles of all device types.
[[nodiscard]] Inputs twice_as_slow(Inputs inputs);

/// One line that says what a failing problem is.
[[nodiscard]] std::string describe(const Inputs& inputs);

}  // namespace hpplan::testing
