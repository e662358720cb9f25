#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>

#include "app.hpp"
#include "base/text.hpp"
#include "emit/model_yaml.hpp"
#include "io/cluster_reader.hpp"
#include "io/document_json.hpp"
#include "io/import_cluster.hpp"
#include "io/import_links.hpp"
#include "io/quantity.hpp"
#include "load.hpp"
#include "option_checks.hpp"
#include "verbs.hpp"

namespace hpplan {

namespace {

struct ClusterOptions {
  std::string path;
  std::string out = "-";
  std::string name = "imported";
  std::vector<std::string> devices;
  int devices_per_node = 0;
  std::string slurm;
  std::string slurm_tasks;
  std::string topology;
  std::string intra_nccl;
  std::string inter_nccl;
  std::string collective;
  std::string intra_bandwidth;
  std::string inter_bandwidth;
  std::string intra_latency;
  std::string inter_latency;
  bool json = false;
};

template <typename Quantity>
std::optional<Quantity> quantity(const char* option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto parsed = parse_quantity<Quantity>(text);
  if (const auto* fault = std::get_if<QuantityFault>(&parsed)) {
    throw InputError(Diagnostic{"", 0, 0, option, fault->message, fault->hint});
  }
  return std::get<Quantity>(parsed);
}

/// `NAME` or `LABEL=NAME`, by the known device types.
std::pair<std::string, DeviceType> device_of(const std::string& text, const std::vector<DeviceType>& known) {
  const std::size_t equals = text.find('=');
  const std::string label = equals == std::string::npos ? "" : text.substr(0, equals);
  const std::string name = equals == std::string::npos ? text : text.substr(equals + 1);
  std::vector<std::string> names;
  for (const DeviceType& type : known) {
    if (type.name == name) return {label, type};
    names.push_back(type.name);
  }
  const std::string nearest = nearest_name(name, names);
  throw InputError(
      Diagnostic{"", 0, 0, "--device", concat("no device type is called \"", name, "\""),
                 nearest.empty() ? concat("known: ", join(names, ", ")) : concat("did you mean \"", nearest, "\"?")});
}

/// A node of its own, when only its topology is given.
std::vector<Host> host_of_topology(const NodeTopology& topology) { return {{"localhost", topology.devices, "", 0}}; }

/// Link figures: what is stated wins over what is measured, and that over what the topology suggests.
void add_links(const ClusterOptions& options, const std::optional<NodeTopology>& topology, ClusterImportOptions& import,
               std::vector<std::string>& notes) {
  if (topology && topology->devices > 1) {
    const std::string path = limiting_path(*topology);
    import.intra_bandwidth = path_bandwidth(path);
    notes.push_back(concat("intra_node.bandwidth: ", path, " limits a ring over ", topology->devices,
                           " devices, taken as ", pretty(*import.intra_bandwidth), "; measure it with --intra-nccl"));
  }
  const auto measured = [&](const std::string& path, const char* key, auto& bandwidth, auto& latency) {
    if (path.empty()) return;
    const InputText input = read_input(path);
    const LinkFit fit = read_nccl_tests(input.text, input.name, options.collective);
    bandwidth = fit.link.bandwidth;
    latency = fit.link.latency;
    for (const std::string& note : fit.notes) notes.push_back(concat(key, ": ", note));
  };
  measured(options.intra_nccl, "intra_node", import.intra_bandwidth, import.intra_latency);
  measured(options.inter_nccl, "inter_node", import.inter_bandwidth, import.inter_latency);
  const auto stated = [](auto& target, const auto& value) {
    if (value) target = value;
  };
  stated(import.intra_bandwidth, quantity<BytesPerSecond>("--intra-bandwidth", options.intra_bandwidth));
  stated(import.inter_bandwidth, quantity<BytesPerSecond>("--inter-bandwidth", options.inter_bandwidth));
  stated(import.intra_latency, quantity<Seconds>("--intra-latency", options.intra_latency));
  stated(import.inter_latency, quantity<Seconds>("--inter-latency", options.inter_latency));
}

/// Hosts from the file, the Slurm list or the topology alone.
std::vector<Host> read_hosts(const ClusterOptions& options, std::optional<NodeTopology>& topology,
                             std::string& source) {
  if (!options.topology.empty()) {
    const InputText input = read_input(options.topology);
    topology = read_topology(input.text, input.name);
  }
  if (options.path.empty() == options.slurm.empty()) {
    throw InputError(Diagnostic{"", 0, 0, "", options.path.empty() ? "no hosts given" : "hosts given twice",
                                "give a hostfile or nvidia-smi topo -m output, or --slurm LIST"});
  }
  if (!options.slurm.empty()) {
    source = "--slurm";
    return read_slurm_hosts(options.slurm, options.slurm_tasks);
  }
  const InputText input = read_input(options.path);
  source = input.name;
  if (!looks_like_topology(input.text)) return read_hostfile(input.text, input.name);
  topology = read_topology(input.text, input.name);
  return host_of_topology(*topology);
}

ExitCode import(const AppContext& context, const ClusterOptions& options) {
  std::optional<NodeTopology> topology;
  std::string source;
  const std::vector<Host> hosts = read_hosts(options, topology, source);
  const std::vector<DeviceType> known = load_device_types();
  ClusterImportOptions import;
  import.name = options.name;
  import.devices_per_node = topology ? topology->devices : options.devices_per_node;
  if (options.devices_per_node > 0) import.devices_per_node = options.devices_per_node;
  for (const std::string& device : options.devices) import.devices.push_back(device_of(device, known));
  std::vector<std::string> notes;
  add_links(options, topology, import, notes);
  ImportedCluster imported = import_cluster(hosts, source, import);
  notes.insert(notes.end(), imported.notes.begin(), imported.notes.end());

  std::vector<std::string> names;
  for (const DeviceType& type : known) names.push_back(type.name);
  const std::string text = cluster_yaml(imported.cluster, names, notes);
  (void)parse_cluster(text, "imported cluster", known);
  write_output(options.out, options.json ? document_json(text, "cluster") : text);
  if (options.out != "-" || options.json) {  // JSON has no comments
    for (const std::string& note : notes) print_note(context, "note: " + note);
  }
  return ExitCode::Done;
}

ExitCode show(const ClusterOptions& options) {
  const ClusterSpec cluster = load_cluster(options.path);
  const std::string text = cluster_yaml(cluster, {}, cluster.notes);
  write_output(options.out, options.json ? document_json(text, "cluster") : text);
  return ExitCode::Done;
}

void add_import_options(CLI::App& verb, ClusterOptions& options) {
  verb.add_option("path", options.path, "hostfile, or output of nvidia-smi topo -m; \"-\": standard input")
      ->type_name("FILE");
  verb.add_option("--out", options.out, "file to write; \"-\" (the default): standard output")->type_name("FILE");
  verb.add_option("--name", options.name, "name of the cluster")->type_name("NAME");
  verb.add_option("--device", options.devices, "device type of all hosts, or LABEL=NAME for hosts with type=LABEL")
      ->type_name("DEVICE");
  verb.add_option("--devices-per-node", options.devices_per_node, "devices of hosts without slots")
      ->type_name("N")
      ->check(whole_number(1, 1024));
  verb.add_option("--slurm", options.slurm, "Slurm node list instead of a file, such as node[01-04]")
      ->type_name("NODES");
  verb.add_option("--slurm-tasks", options.slurm_tasks, "devices per node as Slurm counts tasks, such as 8(x4),4")
      ->type_name("LIST");
  verb.add_option("--topology", options.topology, "output of nvidia-smi topo -m of one node")->type_name("FILE");
  verb.add_option("--intra-nccl", options.intra_nccl, "nccl-tests output of a run inside a node")->type_name("FILE");
  verb.add_option("--inter-nccl", options.inter_nccl, "nccl-tests output of a run between nodes")->type_name("FILE");
  verb.add_option("--nccl-collective", options.collective, "what the runs measured, such as all_reduce")
      ->type_name("NAME");
  verb.add_option("--intra-bandwidth", options.intra_bandwidth, "of one device inside a node, such as \"1536 Gbps\"")
      ->type_name("RATE");
  verb.add_option("--inter-bandwidth", options.inter_bandwidth, "of one node to the others, such as \"200 Gbps\"")
      ->type_name("RATE");
  verb.add_option("--intra-latency", options.intra_latency, "default \"3 us\"")->type_name("TIME");
  verb.add_option("--inter-latency", options.inter_latency, "default \"5 us\"")->type_name("TIME");
  verb.add_flag("--json", options.json, "the cluster file as JSON");
}

}  // namespace

void add_cluster_verb(CLI::App& app, AppContext& context) {
  CLI::App& group =
      add_verb(app, context, {"cluster", "Imports and shows clusters.", "hpplan cluster show b2-b4-64"}, {});
  const auto options = std::make_shared<ClusterOptions>();
  CLI::App& import_verb = add_verb(
      group, context,
      {"import", "Writes the cluster file of a host list, with links as stated or measured.",
       "hpplan cluster import hosts.txt --device a100-80gb --intra-nccl run.txt --inter-bandwidth \"200 Gbps\""},
      [&context, options] { return import(context, *options); });
  add_import_options(import_verb, *options);

  const auto show_options = std::make_shared<ClusterOptions>();
  CLI::App& show_verb = add_verb(
      group, context, {"show", "Prints a cluster with every field, as it was read.", "hpplan cluster show b2-b4-64"},
      [show_options] { return show(*show_options); });
  show_verb.add_option("cluster", show_options->path, "cluster file, \"-\", or the name of a shipped cluster")
      ->required()
      ->type_name("CLUSTER");
  show_verb.add_option("--out", show_options->out, "file to write; \"-\" (the default): standard output")
      ->type_name("FILE");
  show_verb.add_flag("--json", show_options->json, "the cluster file as JSON");
}

}  // namespace hpplan
