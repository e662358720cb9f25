#include "search/node_charges.hpp"

#include <algorithm>
#include <utility>

namespace hpplan {

namespace {

/// The most that stages on one node can be charged.
class FullestNode {
 public:
  /// ports: of one group, and their charges
  FullestNode(int devices, const std::vector<Port>& ports, const std::vector<double>& charges)
      : most_(static_cast<std::size_t>(devices) + 1, 0.0) {
    for (int room = 1; room <= devices; ++room) {
      for (std::size_t p = 0; p < ports.size(); ++p) {
        if (ports[p].devices <= room) {
          most_[static_cast<std::size_t>(room)] =
              std::max(most_[static_cast<std::size_t>(room)], charges[p] + within(room - ports[p].devices));
        }
      }
    }
  }
  [[nodiscard]] double within(int devices) const { return most_[static_cast<std::size_t>(devices)]; }

 private:
  std::vector<double> most_;  // [devices]
};

}  // namespace

NodeCharges node_charges(const ClusterSpec& cluster, const std::vector<Port>& ports, std::vector<double> ends) {
  NodeCharges charges;
  charges.of_stage.assign(ports.size(), 0.0);
  charges.of_end = std::move(ends);
  for (int g = 0; g < cluster.group_count(); ++g) {
    const int node = cluster.node_groups[static_cast<std::size_t>(g)].devices_per_node;
    std::vector<std::size_t> places;
    std::vector<Port> sharing;
    std::vector<double> alike;  // charges in chains of equal stages
    for (std::size_t p = 0; p < ports.size(); ++p) {
      if (ports[p].group != g || ports[p].devices >= node) continue;
      places.push_back(p);
      sharing.push_back(ports[p]);
      alike.push_back(2.0 * charges.of_end[p] * ports[p].devices / node);
    }
    const FullestNode fullest(node, sharing, alike);
    double part = 1.0;
    for (std::size_t a = 0; a < places.size(); ++a) {
      for (std::size_t b = 0; b < places.size(); ++b) {
        const int between = node - sharing[a].devices - sharing[b].devices;
        if (between < 0) continue;
        const double most = alike[a] + alike[b] + fullest.within(between);
        if (most > 0.0) part = std::min(part, (charges.of_end[places[a]] + charges.of_end[places[b]]) / most);
      }
    }
    for (std::size_t a = 0; a < places.size(); ++a) {
      charges.of_stage[places[a]] = part * alike[a];
      // One device at least holds what follows.
      const double first = part * (alike[a] + fullest.within(node - 1 - sharing[a].devices));
      charges.of_cut = std::max(charges.of_cut, first - charges.of_end[places[a]]);
    }
  }
  return charges;
}

}  // namespace hpplan
