#include "io/cluster_reader.hpp"

#include <string>

#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "support/catch.hpp"

using namespace hpplan;
using namespace hpplan::literals;

namespace {

const std::string kTypes =
    "name: c\ndevice_types:\n  - {name: x, memory: 64 GB, peak: 376 TFLOPS, memory_bandwidth: 1.6 TB/s}\n";

std::string group(const std::string& name, const std::string& fields) {
  return "  - {name: " + name + ", device: x, " + fields +
         ", intra_node: {bandwidth: 200 GB/s, latency: 3 us}, inter_node: {bandwidth: 10 GB/s, latency: 5 us}}\n";
}

std::string error_of(const std::string& text) {
  try {
    (void)parse_cluster(text, "c.yaml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a cluster: types, groups, links, node names, ranks", "[io][cluster]") {
  const ClusterSpec cluster = parse_cluster(kTypes + "node_groups:\n" + group("a", "nodes: 2, devices_per_node: 4") +
                                                group("b", "nodes: 1, devices_per_node: 8"),
                                            "c.yaml");
  CHECK(cluster.name == "c");
  CHECK(cluster.device_count() == 16);
  CHECK(cluster.type_of(0).memory == 64_GB);
  CHECK(cluster.type_of(1).peak.value() == 376e12);
  CHECK(cluster.node_groups[0].node_names == std::vector<std::string>{"a-0", "a-1"});
  CHECK(cluster.node_groups[0].intra_node.bandwidth.value() == 200e9);
  CHECK(cluster.node_groups[0].inter_node.latency.value() == 5e-6);
  CHECK(cluster.group_links[0][1] == cluster.node_groups[0].inter_node);
}

TEST_CASE("inter-node and intra-node figures do not mix: A18", "[io][cluster]") {
  const auto transfer = [](const std::string& intra, const std::string& inter) {
    const ClusterSpec cluster = parse_cluster(
        kTypes + "node_groups:\n  - {name: a, device: x, nodes: 2, devices_per_node: 1, intra_node: {bandwidth: " +
            intra + ", latency: 0 s}, inter_node: {bandwidth: " + inter + ", latency: 0 s}}\n",
        "c");
    // 2 nodes, ring all-reduce of 1e9 B: 2 * 1/2 * 1e9 B cross the link.
    return (Bytes{1'000'000'000} / cluster.node_groups[0].inter_node.bandwidth).value();
  };
  CHECK(transfer("200 GB/s", "10 GB/s") == Approx(0.100));
  CHECK(transfer("200 GB/s", "5 GB/s") == Approx(0.200));
  CHECK(transfer("2000 GB/s", "10 GB/s") == Approx(0.100));
}

TEST_CASE("nodes of 4, 6, 7 and 0 devices: 17 devices in three groups, and a note: A19", "[io][cluster]") {
  const ClusterSpec cluster = parse_cluster(
      kTypes + "node_groups:\n" + group("n", "nodes: 4, devices_per_node: [4, 6, 7, 0], node_names: [p, q, r, s]") +
          group("none", "nodes: 0, devices_per_node: 8"),
      "c.yaml");
  CHECK(cluster.device_count() == 17);
  REQUIRE(cluster.group_count() == 3);
  CHECK(cluster.node_groups[2].name == "n-of-7");
  CHECK(cluster.node_groups[2].node_names == std::vector<std::string>{"r"});
  CHECK(cluster.notes == std::vector<std::string>{"node s has no devices and was skipped",
                                                  "node group none has no nodes and was skipped"});
  for (int rank = 0; rank < 17; ++rank) CHECK(rank_of(cluster, place_of_rank(cluster, rank)) == rank);
}

TEST_CASE("equal sizes in a list stay one group", "[io][cluster]") {
  const ClusterSpec cluster =
      parse_cluster(kTypes + "node_groups:\n" + group("n", "nodes: 3, devices_per_node: [4, 4, 0]"), "c");
  REQUIRE(cluster.group_count() == 1);
  CHECK(cluster.node_groups[0].name == "n");
  CHECK(cluster.node_groups[0].nodes == 2);
}

TEST_CASE("stated links between groups replace the slower side's figure", "[io][cluster]") {
  const std::string groups = kTypes + "node_groups:\n" + group("a", "nodes: 2, devices_per_node: [1, 2]") +
                             group("b", "nodes: 1, devices_per_node: 8");
  const ClusterSpec cluster =
      parse_cluster(groups + "links:\n  - {between: [b, a], bandwidth: 1 GB/s, latency: 9 us}\n", "c");
  REQUIRE(cluster.group_count() == 3);
  for (const std::size_t part : {std::size_t{0}, std::size_t{1}}) {
    CHECK(cluster.group_links[part][2].bandwidth.value() == 1e9);
    CHECK(cluster.group_links[2][part].bandwidth.value() == 1e9);
  }
  CHECK(cluster.group_links[0][1].bandwidth.value() == 10e9);
  CHECK(error_of(groups + "links:\n  - {between: [a, z], bandwidth: 1 GB/s, latency: 9 us}\n") ==
        "c.yaml:8:19: error: links[0].between[1]: no node group is called \"z\"\n  hint: groups: a, b");
  CHECK(error_of(groups + "links:\n  - {between: [a, a], bandwidth: 1 GB/s, latency: 9 us}\n")
            .find("a link of a node group to itself") != std::string::npos);
  CHECK(error_of(groups + "links:\n  - {between: [a], bandwidth: 1 GB/s, latency: 9 us}\n")
            .find("a link is between two node groups") != std::string::npos);
}

TEST_CASE("a lone device needs no links, and every other cluster states those it uses", "[io][cluster]") {
  const std::string one = kTypes + "node_groups:\n  - {name: a, device: x, nodes: 1, devices_per_node: ";
  CHECK(parse_cluster(one + "1}\n", "c").device_count() == 1);
  CHECK(error_of(one + "2}\n") == "c.yaml:5:5: error: node_groups[0].intra_node: missing key");
  CHECK(error_of(kTypes + "node_groups:\n  - {name: a, device: x, nodes: 2, devices_per_node: 1}\n") ==
        "c.yaml:5:5: error: node_groups[0].inter_node: missing key");
}

TEST_CASE("a bandwidth with a wrong unit names the place and the units", "[io][cluster]") {
  CHECK(error_of(kTypes + "node_groups:\n  - name: a\n    device: x\n    nodes: 2\n    devices_per_node: 1\n"
                          "    inter_node: {bandwidth: 25 Gb, latency: 5}\n") ==
        "c.yaml:9:29: error: node_groups[0].inter_node.bandwidth: unknown unit \"Gb\" in \"25 Gb\"\n"
        "  hint: use GB/s (10^9 bytes per second) or GBps (10^9 bytes per second) or Gbps (10^9 bits per second) or "
        "Gb/s (10^9 bits per second)\n"
        "c.yaml:9:45: error: node_groups[0].inter_node.latency: the number 5 has no unit\n"
        "  hint: known units: s, ms, us, ns");
}

TEST_CASE("names: unknown device, groups and nodes given twice", "[io][cluster]") {
  CHECK(error_of(kTypes + "node_groups:\n  - {name: a, device: y, nodes: 1, devices_per_node: 1}\n") ==
        "c.yaml:5:23: error: node_groups[0].device: no device type is called \"y\"\n  hint: known: x");
  CHECK(error_of(kTypes + "node_groups:\n" + group("a", "nodes: 1, devices_per_node: 1") +
                 group("a", "nodes: 1, devices_per_node: 1"))
            .find("a second group called \"a\", first at c.yaml:5:12") != std::string::npos);
  CHECK(error_of(kTypes + "node_groups:\n" + group("a", "nodes: 2, devices_per_node: 1, node_names: [n, n]"))
            .find("a second node called \"n\"") != std::string::npos);
  CHECK(error_of(kTypes + "node_groups:\n" + group("a", "nodes: 3, devices_per_node: [1, 2]"))
            .find("2 numbers of devices for 3 nodes (c.yaml:5:33)") != std::string::npos);
  CHECK(error_of(kTypes + "node_groups:\n" + group("a", "nodes: 2, devices_per_node: 0"))
            .find("no devices in the whole cluster") != std::string::npos);
}

TEST_CASE("a cluster may name known device types, and vary them", "[io][cluster]") {
  const std::vector<DeviceType> known = {{"k", 80_GB, 312_TFLOPS, 2000_GBps}};
  const std::string groups = "node_groups:\n  - {name: a, device: k, nodes: 1, devices_per_node: 1}\n";
  CHECK(parse_cluster("name: c\n" + groups, "c", known).type_of(0) == known[0]);
  const ClusterSpec varied =
      parse_cluster("name: c\ndevice_types: [{name: k, like: k, memory: 40 GB}]\n" + groups, "c", known);
  CHECK(varied.type_of(0) == DeviceType{"k", 40_GB, 312_TFLOPS, 2000_GBps});
  CHECK(error_of("name: c\ndevice_types: [{name: k, like: z}]\n" + groups).find("no device type is called \"z\"") !=
        std::string::npos);
}

TEST_CASE("the cluster's digest: values count, spelling and unused types do not", "[io][cluster]") {
  const std::string groups = "node_groups:\n" + group("a", "nodes: 2, devices_per_node: 4");
  const std::string digest = parse_cluster(kTypes + groups, "c").digest;
  CHECK(parse_cluster(kTypes + "  - {name: y, memory: 1 GB, peak: 1 TFLOPS, memory_bandwidth: 1 GB/s}\n" + groups, "d")
            .digest == digest);
  std::string spelled = kTypes + groups;
  spelled.replace(spelled.find("10 GB/s"), 7, "80 Gbps");
  CHECK(parse_cluster(spelled, "c").digest == digest);
  std::string slower = kTypes + groups;
  slower.replace(slower.find("10 GB/s"), 7, "11 GB/s");
  CHECK(parse_cluster(slower, "c").digest != digest);
}
