#include <random>

#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "io/import_links.hpp"
#include "support/catch.hpp"

namespace hpplan {
namespace {

/// An nccl-tests run of `ranks` ranks over links of 100 GB/s and 5 us per hop.
std::string all_reduce_run(int ranks) {
  std::string text = "# nThread 1 nGpus 8 minBytes 1024 maxBytes 1073741824 step: 4(factor) warmup iters: 5\n#\n";
  text += "# Using devices\n";
  for (int rank = 0; rank < ranks; ++rank) {
    text += concat("#  Rank  ", rank, " Group  0 Pid  77 on    node1 device  ", rank, " [0x07] NVIDIA A100\n");
  }
  text +=
      "#\n#                                                              out-of-place                in-place\n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   "
      "busbw #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  "
      "(GB/s)\n";
  const double ratio = 2.0 * (ranks - 1) / ranks;
  for (double size = 1024.0; size <= 1073741824.0; size *= 4.0) {
    const double time_us = 2.0 * (ranks - 1) * 5.0 + ratio * size / 100e9 * 1e6;
    const double algorithm = size / time_us * 1e-3;
    text += concat("  ", fixed(size, 0), " ", fixed(size / 4.0, 0), " float sum -1 ", fixed(time_us, 2), " ",
                   fixed(algorithm, 4), " ", fixed(algorithm * ratio, 4), " 0 ", fixed(time_us, 2), " 1.0 1.0 N/A\n");
  }
  return text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 41.2\n#\n";
}

const char* const kTopology =
    "\t\033[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\033[0m\n"
    "GPU0\t X \tNV4\tSYS\tSYS\tPIX\t0-15\t0\t\tN/A\n"
    "GPU1\tNV4\t X \tSYS\tSYS\tPIX\t0-15\t0\t\tN/A\n"
    "GPU2\tSYS\tSYS\t X \tNV4\tSYS\t16-31\t1\t\tN/A\n"
    "GPU3\tSYS\tSYS\tNV4\t X \tSYS\t16-31\t1\t\tN/A\n"
    "NIC0\tPIX\tPIX\tSYS\tSYS\t X \t\t\t\t\n"
    "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n\nNIC Legend:\n\n  NIC0: mlx5_0\n";

TEST_CASE("an nccl-tests table gives back the link it was made from", "[import]") {
  const int ranks = GENERATE(3, 4, 8);
  const LinkFit fit = read_nccl_tests(all_reduce_run(ranks), "run.txt", "");
  CHECK(fit.ranks == ranks);
  CHECK(fit.link.bandwidth.value() == Approx(100e9).epsilon(0.01));
  CHECK(fit.link.latency.value() == Approx(5e-6).epsilon(0.01));
}

TEST_CASE("two ranks do not show which collective ran: it is asked for by name", "[import]") {
  try {
    (void)read_nccl_tests(all_reduce_run(2), "run.txt", "");
    FAIL("accepted");
  } catch (const InputError& error) {
    CHECK(to_text(error.diagnostics().front()).find("--nccl-collective: all_reduce") != std::string::npos);
  }
  CHECK(read_nccl_tests(all_reduce_run(2), "run.txt", "all_reduce").link.latency.value() == Approx(5e-6).epsilon(0.01));
}

TEST_CASE("time stamps and extra columns do not shift the table", "[import]") {
  std::string text = all_reduce_run(4);
  std::string stamped;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    const std::string line = text.substr(start, end - start);
    stamped += line.front() == '#' ? line + "\n" : "2026 07:31:00 " + line + "\n";
    start = end + 1;
  }
  CHECK(read_nccl_tests(stamped, "run.txt", "").link.bandwidth.value() == Approx(100e9).epsilon(0.01));
}

TEST_CASE("an nccl-tests JSON run is read", "[import]") {
  // sendrecv: bus = algorithm bandwidth; t = 10 us + x / 25 GB/s
  const std::string text =
      R"({"version": 1, "args": ["sendrecv_perf"], "ranks": 2, "results": [
        {"size": 1000000, "count": 1, "type": "float", "out_of_place": {"time": 50.0, "alg_bw": 20.0, "bus_bw": 20.0}},
        {"size": 100000000, "out_of_place": {"time": 4010.0, "alg_bw": 24.94, "bus_bw": 24.94, "nwrong": "0"}}]})";
  const LinkFit fit = read_nccl_tests(text, "run.json", "sendrecv");
  CHECK(fit.link.bandwidth.value() == Approx(25e9));
  CHECK(fit.link.latency.value() == Approx(10e-6));
}

TEST_CASE("a run without results or ranks is refused", "[import]") {
  CHECK_THROWS_AS(read_nccl_tests("", "run.txt", ""), InputError);
  CHECK_THROWS_AS(read_nccl_tests("{}", "run.json", ""), InputError);
  std::string text = all_reduce_run(4);
  while (text.find("Rank") != std::string::npos) text.replace(text.find("Rank"), 4, "rang");
  CHECK_THROWS_AS(read_nccl_tests(text, "run.txt", ""), InputError);
}

TEST_CASE("no broken run ends in anything but an answer or a diagnostic", "[import]") {
  const std::string whole = all_reduce_run(4);
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string text = whole.substr(0, random() % whole.size());
    for (int i = 0; i < 5 && !text.empty(); ++i) text[random() % text.size()] = static_cast<char>(random() % 256);
    try {
      (void)read_nccl_tests(text, "run.txt", "");
    } catch (const InputError&) {
    }
    try {
      (void)read_topology(text, "topo.txt");
    } catch (const InputError&) {
    }
  }
}

TEST_CASE("a topology matrix is split by tabs and cleaned of escapes", "[import]") {
  CHECK(looks_like_topology(kTopology));
  const NodeTopology topology = read_topology(kTopology, "topo.txt");
  CHECK(topology.devices == 4);
  CHECK(topology.nics == std::vector<std::string>{"NIC0"});
  CHECK(topology.paths[0] == std::vector<std::string>{"X", "NV4", "SYS", "SYS"});
  // The pairs are joined by SYS only, so a ring over all four is as fast as SYS.
  CHECK(limiting_path(topology) == "SYS");
  CHECK(path_bandwidth("NV12").value() == Approx(300e9));
  CHECK(path_bandwidth("PIX") > path_bandwidth("PHB"));
  CHECK(path_bandwidth("PHB") > path_bandwidth("NODE"));
  CHECK(path_bandwidth("NODE") > path_bandwidth("SYS"));
}

TEST_CASE("a topology that spaces took the place of tabs in is refused", "[import]") {
  std::string spaces = kTopology;
  for (char& c : spaces) c = c == '\t' ? ' ' : c;
  CHECK_FALSE(looks_like_topology(spaces));
  CHECK_THROWS_AS(read_topology(spaces, "topo.txt"), InputError);
  std::string unknown = kTopology;
  const std::size_t link = unknown.find("NV4");
  REQUIRE(link != std::string::npos);
  unknown.replace(link, 3, "ABC");
  CHECK_THROWS_AS(read_topology(unknown, "topo.txt"), InputError);
}

}  // namespace
}  // namespace hpplan
