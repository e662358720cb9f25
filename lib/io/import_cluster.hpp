#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "domain/cluster.hpp"
#include "io/import_hosts.hpp"

namespace hpplan {

/// What the user adds to a host list, which knows names and counts only.
struct ClusterImportOptions {
  std::string name = "imported";
  /// Device type for each label of the list; a pair with an empty label holds for hosts without one.
  std::vector<std::pair<std::string, DeviceType>> devices;
  int devices_per_node = 0;  // for hosts without slots; 0: not given
  std::optional<BytesPerSecond> intra_bandwidth;
  std::optional<BytesPerSecond> inter_bandwidth;
  std::optional<Seconds> intra_latency;
  std::optional<Seconds> inter_latency;
};

/// A cluster and the defaults that were taken, each said once.
struct ImportedCluster {
  ClusterSpec cluster;
  std::vector<std::string> notes;
};

/// Hosts with the same type and number of devices form a group, in order of first appearance.
/// Errors: what neither list nor options say, with the option that says it. Latencies have stated defaults
/// (3 us inside a node, 5 us between nodes).
[[nodiscard]] ImportedCluster import_cluster(const std::vector<Host>& hosts, const std::string& file,
                                             const ClusterImportOptions& options);

}  // namespace hpplan
