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

/// Devices that a stage on the port leaves free on its node; 0 where it takes whole nodes.
[[nodiscard]] int room_beside(const ClusterSpec& cluster, const Port& port);

/// How a port splits its devices: devices = tensor_parallel * data_parallel.
struct Split {
  int tensor_parallel = 1;
  int data_parallel = 1;

  friend auto operator<=>(const Split&, const Split&) = default;
};

/// Device counts per node group as one index: the resource vectors of the pipeline table and the global DP.
/// Adding devices adds indices. Every digit but the first has room for twice the group, so that a sum that overflows
/// a group lands on an index that is not valid() instead of on another vector: inner loops then need no test.
class ResourceSpace {
 public:
  ResourceSpace() = default;
  /// limits[g]: devices of group g; units[g] divides every port of the group.
  ResourceSpace(const std::vector<int>& limits, const std::vector<int>& units);

  /// Number of indices, valid or not.
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] bool valid(int index) const { return valid_[static_cast<std::size_t>(index)] != 0; }
  /// All valid indices, ascending.
  [[nodiscard]] const std::vector<int>& vectors() const { return vectors_; }
  /// The vector of all devices.
  [[nodiscard]] int full() const { return vectors_.back(); }
  [[nodiscard]] int groups() const { return static_cast<int>(limits_.size()); }
  /// Index of the vector that has `devices` of `group` only.
  [[nodiscard]] int step(int group, int devices) const;
  [[nodiscard]] int count(int index, int group) const;      // devices of `group`
  [[nodiscard]] bool contains(int outer, int inner) const;  // inner <= outer in every group; both valid

 private:
  std::vector<int> limits_;  // in units
  std::vector<int> units_;
  std::vector<int> radices_;
  std::vector<int> strides_;
  std::vector<char> valid_;
  std::vector<int> vectors_;
  int size_ = 1;
};

/// The search space S of problem.md 3, cut by the job's constraints.
struct Space {
  std::vector<Port> ports;                 // ascending
  std::vector<std::vector<Split>> splits;  // per port, ascending in tensor_parallel
  ResourceSpace resources;
  int coarseness = 1;  // every port is a multiple of this
  int max_stages = 1;
  int max_pipelines = 1;

  /// The port of so many devices of a group; -1 if there is none.
  [[nodiscard]] int find(const Port& port) const;
  [[nodiscard]] int step(int port) const {
    const Port& p = ports[static_cast<std::size_t>(port)];
    return resources.step(p.group, p.devices);
  }
};

/// Device counts that a stage may take on a group, ascending: powers of two and divisors of the node size that fit a
/// node, and whole nodes.
[[nodiscard]] std::vector<int> port_sizes(const NodeGroup& group, const Constraints& constraints);
/// The same for a group of a problem, without the devices that its rules take away.
[[nodiscard]] std::vector<int> port_sizes(const Problem& problem, int group);

/// More resource vectors than this cannot be counted.
inline constexpr double kMostIndices = 1e8;
/// Whether the resource vectors of all groups together are no more than `most`: their number is the product of what the
/// groups may give.
[[nodiscard]] bool space_is_countable(const Problem& problem, double most = kMostIndices);

/// Whether some port has a split whose replicas share some micro-batch of the job evenly.
[[nodiscard]] bool has_stage_shapes(const Problem& problem);

/// `coarseness` > 1 keeps only ports that are multiples of it: a part of the space with fewer resource vectors.
[[nodiscard]] Space make_space(const Problem& problem, int coarseness = 1);

}  // namespace hpplan
