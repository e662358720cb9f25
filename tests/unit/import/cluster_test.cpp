#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "emit/model_yaml.hpp"
#include "io/cluster_reader.hpp"
#include "io/import_cluster.hpp"
#include "support/catch.hpp"
#include "support/models.hpp"

namespace hpplan {
namespace {

ClusterImportOptions options_with_links() {
  ClusterImportOptions options;
  options.devices = {{"", testing::a100()}};
  options.intra_bandwidth = BytesPerSecond{192e9};
  options.inter_bandwidth = BytesPerSecond{25e9};
  return options;
}

std::string refusal(const std::vector<Host>& hosts, const ClusterImportOptions& options) {
  try {
    (void)import_cluster(hosts, "hosts", options);
  } catch (const InputError& error) {
    std::string shown;
    for (const Diagnostic& diagnostic : error.diagnostics()) shown += to_text(diagnostic) + "\n";
    return shown;
  }
  return "accepted";
}

TEST_CASE("hosts of the same type and size form a group", "[import]") {
  const auto hosts = read_hostfile("a slots=8\nb slots=4\nc slots=8\n", "hosts");
  const ClusterSpec cluster = import_cluster(hosts, "hosts", options_with_links()).cluster;
  REQUIRE(cluster.group_count() == 2);
  CHECK(cluster.node_groups[0].node_names == std::vector<std::string>{"a", "c"});
  CHECK(cluster.device_count() == 20);
}

TEST_CASE("an imported cluster reads back from the file that import writes", "[import]") {
  ClusterImportOptions options = options_with_links();
  DeviceType other = testing::a100();
  other.name = "odd: \"device\"";
  other.memory = Bytes{24'000'000'001LL};
  options.devices.emplace_back("B", other);
  const auto hosts =
      read_hostfile("a slots=8 type=A\nb slots=4 type=B\nc slots=8 type=B\nnode[01-03] slots=2 type=A\n", "hosts");
  const ImportedCluster imported = import_cluster(hosts, "hosts", options);
  const std::string text = cluster_yaml(imported.cluster, {}, imported.notes);
  CHECK(text.find("# intra_node.latency: default 3 us") != std::string::npos);
  CHECK(parse_cluster(text, "cluster.yaml").digest == imported.cluster.digest);
  const std::string named = cluster_yaml(imported.cluster, {testing::a100().name}, {});
  CHECK(parse_cluster(named, "cluster.yaml", {testing::a100()}).digest == imported.cluster.digest);
}

TEST_CASE("what a host list does not say is asked for by the option that says it", "[import]") {
  const auto hosts = read_hostfile("a\nb\n", "hosts");
  const std::string text = refusal(hosts, {});
  CHECK(text.find("hosts:1:1: error: device: the list does not say which device a has") != std::string::npos);
  CHECK(text.find("--device NAME") != std::string::npos);
  CHECK(text.find("--devices-per-node N") != std::string::npos);
  ClusterImportOptions options = options_with_links();
  options.devices_per_node = 8;
  options.inter_bandwidth.reset();
  CHECK(refusal(hosts, options).find("--inter-bandwidth") != std::string::npos);
  options.intra_bandwidth.reset();
  CHECK(refusal(hosts, options).find("--intra-bandwidth") != std::string::npos);
}

TEST_CASE("a Slurm job becomes a cluster", "[import]") {
  const ClusterSpec cluster =
      import_cluster(read_slurm_hosts("node[01-04,07]", "8(x4),4"), "--slurm", options_with_links()).cluster;
  CHECK(cluster.device_count() == 36);
  CHECK(cluster.node_groups[0].node_names.front() == "node01");
}

}  // namespace
}  // namespace hpplan
