#include "io/import_links.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "io/detail/text_lines.hpp"
#include "io/document.hpp"

namespace hpplan {

using detail::decimal_number;
using detail::quoted_text;
using detail::TextFaults;
using detail::TextLine;
using detail::TextWord;
using detail::whole_number;

namespace {

struct CollectiveName {
  const char* name;
  Collective collective;
};

constexpr std::array<CollectiveName, 7> kCollectives{{{"all_reduce", Collective::AllReduce},
                                                      {"all_gather", Collective::AllGather},
                                                      {"reduce_scatter", Collective::ReduceScatter},
                                                      {"alltoall", Collective::AllToAll},
                                                      {"sendrecv", Collective::SendReceive},
                                                      {"broadcast", Collective::Broadcast},
                                                      {"all_to_all", Collective::AllToAll}}};

/// Steps one after another of the ring form, each of which pays the latency of a hop once.
int hop_count(Collective collective, int ranks) {
  switch (collective) {
    case Collective::AllReduce: return 2 * (ranks - 1);
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::AllToAll:
    case Collective::Broadcast: return ranks - 1;
    case Collective::SendReceive: return 1;
  }
  return 1;
}

/// Result rows of a run, in whichever form it was written.
struct NcclRun {
  std::vector<LinkSample> samples;
  double bus_ratio = 0.0;  // bus over algorithm bandwidth of the largest call
  int ranks = 0;           // 0: not stated
  std::string collective;  // "": not stated
};

std::string names_of_collectives() {
  std::vector<std::string> names;
  for (const CollectiveName& known : kCollectives) names.emplace_back(known.name);
  names.pop_back();  // the last is a second spelling
  return join(names, ", ");
}

std::optional<Collective> collective_named(const std::string& text) {
  for (const CollectiveName& known : kCollectives) {
    if (text.find(known.name) != std::string::npos) return known.collective;
  }
  return std::nullopt;
}

/// From busbw/algbw, which is 2(n-1)/n for all_reduce, (n-1)/n for the halves of it, 1 for point to point. Two ranks
/// cannot be told apart: 2(n-1)/n is 1 there.
std::optional<Collective> collective_by_ratio(double ratio, int ranks) {
  if (ranks <= 2 || ratio <= 0.0) return std::nullopt;
  const double share = static_cast<double>(ranks - 1) / ranks;
  if (std::fabs(ratio - 2.0 * share) < 0.02) return Collective::AllReduce;
  if (std::fabs(ratio - share) < 0.5 / ranks) return Collective::AllGather;
  return std::nullopt;
}

Collective decide_collective(const NcclRun& run, const std::string& asked, const std::string& file) {
  const std::string& stated = asked.empty() ? run.collective : asked;
  const std::optional<Collective> found =
      stated.empty() ? collective_by_ratio(run.bus_ratio, run.ranks) : collective_named(stated);
  if (found) return *found;
  throw InputError(Diagnostic{file, 0, 0, "collective",
                              stated.empty() ? "the run does not say which collective it measured"
                                             : concat("unknown collective ", quoted_text(stated)),
                              concat("state it with --nccl-collective: ", names_of_collectives())});
}

void add_sample(NcclRun& run, double size, double time_us, double algorithm_bandwidth, double bus_bandwidth) {
  // Calls of no bytes show the latency alone, but with a bandwidth of 0 they say nothing about the payload.
  if (size <= 0.0 || time_us <= 0.0 || algorithm_bandwidth <= 0.0) return;
  run.bus_ratio = bus_bandwidth / algorithm_bandwidth;
  // Printed bandwidths have two digits: take the ratio from the row and the size exactly where it is large enough.
  run.samples.push_back({Bytes{static_cast<std::int64_t>(size)}, Seconds{time_us * 1e-6}});
}

/// The ratio of the largest call is the most exact one; all calls of a run share it.
void scale_to_bus(NcclRun& run) {
  for (LinkSample& sample : run.samples) {
    sample.payload = Bytes{static_cast<std::int64_t>(std::llround(sample.payload.value() * run.bus_ratio))};
  }
}

/// `# Rank 3 Group 0 Pid ...`: the highest rank of the run plus one.
void read_comment(const std::string& text, NcclRun& run) {
  const std::vector<TextWord> words = detail::words_of(text);
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i].text != "Rank") continue;
    if (const std::optional<int> rank = whole_number(words[i + 1].text)) run.ranks = std::max(run.ranks, *rank + 1);
    return;
  }
  const std::size_t at = text.find("_perf");
  if (at != std::string::npos && run.collective.empty()) {
    const std::size_t start = text.find_last_of(" \t/", at);
    run.collective = text.substr(start + 1, at - start - 1);
  }
}

NcclRun read_nccl_text(const std::string& text, const std::string& file) {
  detail::check_is_text(text, file);
  TextFaults faults(file);
  NcclRun run;
  std::vector<TextWord> header;
  for (const TextLine& line : detail::lines_of(detail::without_escapes(text))) {
    std::vector<TextWord> words = detail::words_of(line.text);
    if (words.empty()) continue;
    if (words.front().text.front() == '#') {
      const auto is_size = [](const TextWord& word) { return word.text == "size" || word.text == "#size"; };
      if (std::any_of(words.begin(), words.end(), is_size) && line.text.find("busbw") != std::string::npos) {
        if (words.front().text == "#") words.erase(words.begin());
        words.front().text.erase(0, words.front().text.front() == '#' ? 1 : 0);
        header = std::move(words);
      } else {
        read_comment(line.text, run);
      }
      continue;
    }
    if (header.empty() || !decimal_number(words.front().text)) continue;  // log lines around the table
    if (words.size() < header.size()) {
      faults.add(line.number, 1, "", concat(words.size(), " columns where the header has ", header.size()),
                 "give the whole output of the run");
      continue;
    }
    // Aligned at the right end: a time stamp in front may have several words.
    const std::size_t extra = words.size() - header.size();
    const auto column = [&](const char* name) -> std::optional<double> {
      const auto place = std::find_if(header.begin(), header.end(), [&](const TextWord& w) { return w.text == name; });
      if (place == header.end()) return std::nullopt;
      return decimal_number(words[static_cast<std::size_t>(place - header.begin()) + extra].text);
    };
    const std::optional<double> size = column("size");
    const std::optional<double> time = column("time");
    const std::optional<double> algorithm = column("algbw");
    const std::optional<double> bus = column("busbw");
    if (!size || !time || !algorithm || !bus) {
      faults.add(line.number, 1, "", concat("size, time, algbw or busbw is no number in ", quoted_text(line.text)),
                 "give the output as nccl-tests wrote it");
      continue;
    }
    add_sample(run, *size, *time, *algorithm, *bus);
  }
  faults.finish();
  return run;
}

NcclRun read_nccl_json(const std::string& text, const std::string& file) {
  const Document document = Document::parse(text, file);
  NcclRun run;
  const Reader root = document.root();
  root.allow_other_keys();
  const Reader ranks = root.optional("ranks");
  if (ranks.kind() == ValueKind::List) run.ranks = static_cast<int>(ranks.items().size());
  if (ranks.kind() == ValueKind::Integer) run.ranks = ranks.count(1, 1'000'000);
  for (const char* key : {"collective", "test", "name"}) {
    const Reader name = root.optional(key);
    if (name.kind() == ValueKind::Text && run.collective.empty()) run.collective = name.text();
  }
  for (const Reader& row : root.required("results").items(1)) {
    row.allow_other_keys();
    const double size = row.required("size").number(0.0);
    const Reader call = row.required("out_of_place");
    call.allow_other_keys();
    const double time = call.required("time").number(0.0);
    const double algorithm = call.required("alg_bw").number(0.0);
    const double bus = call.required("bus_bw").number(0.0);
    add_sample(run, size, time, algorithm, bus);
  }
  document.finish();
  return run;
}

struct TopologyRow {
  int line = 0;
  std::string name;
  std::vector<TextWord> cells;
};

bool is_device_name(const std::string& name) {
  return name.size() > 3 && name.compare(0, 3, "GPU") == 0 && whole_number(name.substr(3)).has_value();
}

bool is_nic_name(const std::string& name) {
  return (name.compare(0, 3, "NIC") == 0 && whole_number(name.substr(3)).has_value()) ||
         name.compare(0, 4, "mlx5") == 0;
}

int nvlink_count(const std::string& path) {
  return path.compare(0, 2, "NV") == 0 ? whole_number(path.substr(2)).value_or(0) : 0;
}

bool is_path(const std::string& path) {
  static const std::set<std::string> known{"PIX", "PXB", "PHB", "NODE", "SYS"};
  return known.contains(path) || nvlink_count(path) > 0;
}

/// Whether links of at least `bandwidth` connect all devices.
bool connects(const NodeTopology& topology, BytesPerSecond bandwidth) {
  std::vector<bool> reached(static_cast<std::size_t>(topology.devices), false);
  std::vector<std::size_t> open{0};
  reached[0] = true;
  std::size_t count = 1;
  while (!open.empty()) {
    const std::size_t from = open.back();
    open.pop_back();
    for (std::size_t to = 0; to < reached.size(); ++to) {
      if (reached[to] || to == from || path_bandwidth(topology.paths[from][to]) < bandwidth) continue;
      reached[to] = true;
      ++count;
      open.push_back(to);
    }
  }
  return count == reached.size();
}

}  // namespace

LinkFit fit_link(const std::vector<LinkSample>& samples, int hops) {
  // Weighted normal equations of t = a + x/w with weights 1/t^2, so that short and long calls count alike.
  double s0 = 0.0;
  double sx = 0.0;
  double sxx = 0.0;
  double st = 0.0;
  double sxt = 0.0;
  for (const LinkSample& sample : samples) {
    const double t = sample.time.value();
    const double x = sample.payload.value();
    const double weight = 1.0 / (t * t);
    s0 += weight;
    sx += weight * x;
    sxx += weight * x * x;
    st += weight * t;
    sxt += weight * x * t;
  }
  double slope = (s0 * sxt - sx * st) / (s0 * sxx - sx * sx);
  double start = (st - slope * sx) / s0;
  if (start < 0.0) {  // a latency cannot be negative: the best line through the origin
    start = 0.0;
    slope = sxt / sxx;
  }
  LinkFit fit;
  fit.samples = static_cast<int>(samples.size());
  fit.link = {BytesPerSecond{1.0 / slope}, Seconds{start / hops}};
  for (const LinkSample& sample : samples) {
    const double error = std::fabs((start + slope * sample.payload.value()) / sample.time.value() - 1.0);
    fit.worst_error = std::max(fit.worst_error, error);
  }
  return fit;
}

LinkFit read_nccl_tests(const std::string& text, const std::string& file, const std::string& collective) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && text[first] == '{';
  NcclRun run = is_json ? read_nccl_json(text, file) : read_nccl_text(text, file);
  std::set<Bytes> sizes;
  for (const LinkSample& sample : run.samples) sizes.insert(sample.payload);
  if (sizes.size() < 2) {
    throw InputError(Diagnostic{file, 0, 0, "", concat(sizes.size(), " usable sizes measured, a curve needs 2"),
                                "measure a range of sizes, such as -b 8 -e 1G -f 2"});
  }
  if (run.ranks < 2) {
    throw InputError(Diagnostic{file, 0, 0, "ranks", concat(run.ranks, " ranks named, a link needs 2"),
                                "keep the lines \"# Rank ...\" of the output"});
  }
  const Collective kind = decide_collective(run, collective, file);
  scale_to_bus(run);
  LinkFit fit = fit_link(run.samples, hop_count(kind, run.ranks));
  if (!(fit.link.bandwidth.value() > 0.0) || !std::isfinite(fit.link.bandwidth.value())) {
    throw InputError(Diagnostic{file, 0, 0, "", "times do not grow with the size, so no bandwidth can be fitted",
                                "measure up to larger sizes, such as -e 1G"});
  }
  fit.ranks = run.ranks;
  fit.notes.push_back(
      concat("fitted to ", fit.samples, " sizes over ", fit.ranks, " ranks, largest error ", percent(fit.worst_error)));
  return fit;
}

bool looks_like_topology(const std::string& text) {
  const std::string plain = detail::without_escapes(text);
  return plain.find("\tGPU0") != std::string::npos && plain.find("GPU0\t") != std::string::npos;
}

NodeTopology read_topology(const std::string& text, const std::string& file) {
  detail::check_is_text(text, file);
  TextFaults faults(file);
  std::vector<TextWord> header;
  std::vector<TopologyRow> rows;
  NodeTopology topology;
  for (const TextLine& line : detail::lines_of(detail::without_escapes(text))) {
    std::vector<TextWord> cells = detail::cells_of(line.text, '\t');
    if (header.empty()) {
      if (cells.size() > 1 && cells[1].text == "GPU0") header = std::move(cells);
      continue;
    }
    if (is_device_name(cells.front().text)) rows.push_back({line.number, cells.front().text, std::move(cells)});
  }
  std::vector<std::size_t> columns;
  for (std::size_t i = 1; i < header.size(); ++i) {
    if (is_device_name(header[i].text)) columns.push_back(i);
    if (is_nic_name(header[i].text)) topology.nics.push_back(header[i].text);
  }
  topology.devices = static_cast<int>(columns.size());
  if (columns.empty() || columns.size() != rows.size()) {
    faults.add(0, 0, "", concat(columns.size(), " device columns and ", rows.size(), " device rows"),
               "give the whole output of nvidia-smi topo -m, with its tabs");
    faults.finish();
  }
  for (std::size_t a = 0; a < rows.size(); ++a) {
    std::vector<std::string>& paths = topology.paths.emplace_back();
    for (std::size_t b = 0; b < columns.size(); ++b) {
      const TextWord cell = columns[b] < rows[a].cells.size() ? rows[a].cells[columns[b]] : TextWord{};
      if (a == b ? cell.text != "X" : !is_path(cell.text)) {
        faults.add(rows[a].line, cell.column, concat(rows[a].name, ",", header[columns[b]].text),
                   concat("unknown path ", quoted_text(cell.text)),
                   "paths are NV#, PIX, PXB, PHB, NODE, SYS, and X for the device itself");
      }
      paths.push_back(cell.text);
    }
  }
  faults.finish();
  return topology;
}

std::string limiting_path(const NodeTopology& topology) {
  std::string best;
  for (const auto& row : topology.paths) {
    for (const std::string& path : row) {
      if (path == "X" || (!best.empty() && path_bandwidth(path) <= path_bandwidth(best))) continue;
      if (connects(topology, path_bandwidth(path))) best = path;
    }
  }
  return best;
}

BytesPerSecond path_bandwidth(const std::string& path) {
  if (const int links = nvlink_count(path); links > 0) return BytesPerSecond{25e9 * links};
  if (path == "PIX" || path == "PXB") return BytesPerSecond{25e9};
  if (path == "PHB") return BytesPerSecond{20e9};
  if (path == "NODE") return BytesPerSecond{16e9};
  if (path == "SYS") return BytesPerSecond{10e9};
  return BytesPerSecond{};
}

}  // namespace hpplan
