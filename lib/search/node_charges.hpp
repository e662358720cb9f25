#pragma once

#include <vector>

#include "search/space.hpp"

namespace hpplan {

/// Neighbouring stages of a pipeline share a node as long as that has room for them: a chain. Where a chain ends, the
/// link leaves the node, and is slower by what both its stages lose. Spread over the stages of the chain, that is a
/// charge of every stage, whatever its neighbours are (amortised cost). All in seconds, both ways.
struct NodeCharges {
  std::vector<double> of_stage;  // [port]
  /// [port]: what a chain loses that begins or ends with such a stage. The first chain of a pipeline does not begin at
  /// a link, the last one does not end at one: the pipeline's sum of charges is too high by that of its first and last
  /// stage.
  std::vector<double> of_end;
  /// The sum of charges of the first few stages of a pipeline is too high by no more than this and that of the first
  /// stage, wherever their last chain ends.
  double of_cut = 0.0;
};

/// The largest charges, in proportion to those of chains of equal stages, whose sum over a chain is never more than the
/// chain loses at its two ends.
///   ends   [port]: seconds that a stage loses at the end of a chain; 0 where it never shares a node
[[nodiscard]] NodeCharges node_charges(const ClusterSpec& cluster, const std::vector<Port>& ports,
                                       std::vector<double> ends);

}  // namespace hpplan
