#pragma once

#include <vector>

#include "search/candidate.hpp"

namespace hpplan {

/// What a node must spend on the gradient sync because of the layers that a stage there holds.
///
/// A layer whose replicas all lie on one node runs the whole batch there, and all devices of the node together have but
/// so much time. The gradients of the other layers leave the node: whatever their groups look like, the devices of the
/// node together send at least each of these layers once over their shares of its outer link, so one of them spends the
/// mean of that.
///
/// Why. In a call with k ranks on the node, on two nodes at least, a flat ring takes each of them bytes / share or
/// more, and a hierarchical one bytes / (k share): together bytes / share or more. Device-wise buffers are as long as
/// the longest, so no shorter than the mean over the node's devices.
class NodeLoad {
 public:
  ///   limit   seconds in which the pipelines end
  NodeLoad(const SearchTables& tables, double limit);

  /// Seconds of gradient sync of any plan with a stage on a node of the group, or on a part of one, that holds the
  /// layers of this range class.
  [[nodiscard]] double share(int group, int range_class) const {
    return shares_[static_cast<std::size_t>(group)][static_cast<std::size_t>(range_class)];
  }

 private:
  std::vector<std::vector<double>> shares_;  // [group][range class]
};

}  // namespace hpplan
