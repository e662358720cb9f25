#pragma once

#include <vector>

#include "predict/problem.hpp"

namespace hpplan {

/// The devices that a stage may take: a part of one node, a whole node, or several whole nodes of one group.
struct Port {
  int group = 0;
  int devices = 0;

  friend auto operator<=>(const Port&, const Port&) = default;
};

/// How a port splits its devices: devices = tensor_parallel * data_parallel.
struct Split {
  int tensor_parallel = 1;
  int data_parallel = 1;

  friend auto operator<=>(const Split&, const Split&) = default;
};

/// Device counts per node group in mixed radix: the resource vectors of the pipeline table and the global DP.
class ResourceSpace {
 public:
  ResourceSpace() = default;
  /// limits[g]: devices of group g; units[g] divides every port of the group.
  ResourceSpace(std::vector<int> limits, std::vector<int> units);

  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] int groups() const { return static_cast<int>(limits_.size()); }
  /// Index of the vector that has `devices` of `group` only: adding ports adds their indices.
  [[nodiscard]] int step(int group, int devices) const;
  [[nodiscard]] int count(int index, int group) const;           // devices of `group`
  [[nodiscard]] int limit(int group) const;                      // in devices, rounded down to units
  [[nodiscard]] bool fits(int index, int group, int devices) const;  // index + devices stays inside the limits
  [[nodiscard]] bool contains(int outer, int inner) const;       // inner <= outer in every group
  /// Vectors that leave room for `devices` of `group` form runs of run() indices, one at the start of every block().
  [[nodiscard]] int block(int group) const;
  [[nodiscard]] int run(int group, int devices) const;

 private:
  std::vector<int> limits_;    // in units
  std::vector<int> units_;
  std::vector<int> strides_;
  int size_ = 1;
};

/// The search space S of problem.md 3, cut by the job's constraints.
struct Space {
  std::vector<Port> ports;                    // ascending
  std::vector<std::vector<Split>> splits;     // per port, ascending in tensor_parallel
  ResourceSpace resources;
  int max_stages = 1;
  int max_pipelines = 1;

  [[nodiscard]] int step(int port) const {
    const Port& p = ports[static_cast<std::size_t>(port)];
    return resources.step(p.group, p.devices);
  }
};

/// Device counts that a stage may take on a group, ascending: powers of two and divisors of the node size that fit a
/// node, and whole nodes.
[[nodiscard]] std::vector<int> port_sizes(const NodeGroup& group, const Constraints& constraints);

/// `min_devices` > 1 keeps only ports that are multiples of it: a coarser space with fewer resource vectors.
[[nodiscard]] Space make_space(const Problem& problem, int min_devices = 1);

}  // namespace hpplan
