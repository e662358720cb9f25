#pragma once

#include <string>
#include <vector>

#include "domain/cluster.hpp"

namespace hpplan {

/// What a measured collective moved, per call.
enum class Collective { AllReduce, AllGather, ReduceScatter, AllToAll, SendReceive, Broadcast };

/// One measured call: bytes that crossed a device's link ("bus" bytes) and its time.
struct LinkSample {
  Bytes payload;
  Seconds time;
};

/// A link curve `time = latency + payload / bandwidth` through measured points.
struct LinkFit {
  Link link;  // latency is that of one hop
  int ranks = 0;
  int samples = 0;
  double worst_error = 0.0;  // largest |fit / measured - 1|
  std::vector<std::string> notes;
};

/// Fits latency and bandwidth by least squares of the relative error; at least two different payloads.
///   hops   steps of the collective one after another, by which the constant part is divided
[[nodiscard]] LinkFit fit_link(const std::vector<LinkSample>& samples, int hops);

/// Link curve of an nccl-tests run, text or JSON (`-J`). Uses the out-of-place columns.
///   collective   name such as "all_reduce"; "" to take it from the file or from the ratio of both bandwidths
/// Errors: no result rows, ranks or collective not stated (the message names the option that states them).
[[nodiscard]] LinkFit read_nccl_tests(const std::string& text, const std::string& file, const std::string& collective);

/// What `nvidia-smi topo -m` says about one node.
struct NodeTopology {
  int devices = 0;
  std::vector<std::vector<std::string>> paths;  // [a][b]: NV#, PIX, PXB, PHB, NODE, SYS; "X" on the diagonal
  std::vector<std::string> nics;

  friend bool operator==(const NodeTopology&, const NodeTopology&) = default;
};

/// True for a text that has the header of a `topo -m` matrix.
[[nodiscard]] bool looks_like_topology(const std::string& text);

/// Reads the matrix; cells are separated by tabs, and the text may carry terminal escapes.
[[nodiscard]] NodeTopology read_topology(const std::string& text, const std::string& file);

/// The path class that limits a ring over all devices: the best class whose links, with better ones, connect them all.
[[nodiscard]] std::string limiting_path(const NodeTopology& topology);

/// Bandwidth of one path of class `path`, one direction: links of NVLink at 25 GB/s each; PCIe classes by how far they
/// reach (PIX and PXB 25 GB/s, PHB 20, NODE 16, SYS 10).
[[nodiscard]] BytesPerSecond path_bandwidth(const std::string& path);

}  // namespace hpplan
