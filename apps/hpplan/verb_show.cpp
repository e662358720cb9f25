#include <algorithm>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "app.hpp"
#include "base/text.hpp"
#include "domain/operators.hpp"
#include "emit/report_json.hpp"
#include "load.hpp"
#include "verbs.hpp"

namespace hpplan {

namespace {

struct ShowOptions {
  std::string model;
  std::string cluster;
  bool json = false;
};

std::string pretty_count(double count) {
  if (count >= 1e9) return fixed(count / 1e9, 2) + " billion";
  return fixed(count / 1e6, 1) + " million";
}

/// "1 embedding, 40 block, 1 head": how many layers there are of each kind.
std::string layer_counts(const ModelSpec& model) {
  std::vector<std::string> counts;
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    const auto count = std::count(model.layers.begin(), model.layers.end(), static_cast<int>(kind));
    counts.push_back(concat(count, " ", model.kinds[kind].name));
  }
  return join(counts, ", ");
}

std::string shown(const ModelSpec& model) {
  std::vector<std::string> degrees;
  for (const int degree : allowed_tensor_parallel(model, 64)) degrees.push_back(std::to_string(degree));
  return concat("model ", model.name, " (", model.family, ", ", model.precision, ")\n", "  layers           ",
                layer_counts(model), "\n", "  parameters       ", pretty_count(total_parameters(model)), ", of these ",
                pretty_count(active_parameters(model)), " per token\n", "  hidden           ", model.hidden, "\n",
                "  sequence         ", model.sequence, " tokens\n", "  vocabulary       ", model.vocabulary,
                ", padded to ", padded_vocabulary(model, 1), "\n", "  state            ", model.state.parameter, " + ",
                model.state.gradient, " + ", model.state.optimizer,
                " bytes per parameter (weights, gradients, optimizer)\n", "  tensor parallel  ", join(degrees, ", "),
                "\n", "  digest           ", model.digest, "\n");
}

std::string shown(const Link& link) { return concat(pretty(link.bandwidth), ", ", pretty(link.latency)); }

std::string shown(const ClusterSpec& cluster) {
  std::string text = concat("cluster ", cluster.name, ": ", cluster.device_count(), " devices\n");
  for (int index = 0; index < cluster.group_count(); ++index) {
    const NodeGroup& group = cluster.node_groups[static_cast<std::size_t>(index)];
    const DeviceType& type = cluster.type_of(index);
    text += concat("  ", group.name, ": ", group.nodes, " x ", group.devices_per_node, " ", type.name, " (",
                   pretty(type.memory), ", ", significant(type.peak.value() * 1e-12, 4), " TFLOPS, ",
                   significant(type.memory_bandwidth.value() * 1e-9, 4), " GB/s)\n", "    intra-node ",
                   shown(group.intra_node), "; inter-node ", shown(group.inter_node), "\n");
  }
  for (const std::string& note : cluster.notes) text += concat("  note: ", note, "\n");
  return text + concat("  digest ", cluster.digest, "\n");
}

Report report_of(const ModelSpec& model) {
  Report layers;
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    const auto count = std::count(model.layers.begin(), model.layers.end(), static_cast<int>(kind));
    layers.add(model.kinds[kind].name, static_cast<std::size_t>(count));
  }
  return Report()
      .add("name", model.name)
      .add("family", model.family)
      .add("precision", model.precision)
      .add("layers", layers)
      .add("parameters", total_parameters(model))
      .add("active_parameters", active_parameters(model))
      .add("hidden", model.hidden)
      .add("sequence", model.sequence)
      .add("vocabulary", model.vocabulary)
      .add("padded_vocabulary", padded_vocabulary(model, 1))
      .add("state_bytes", Report()
                              .add("parameter", model.state.parameter)
                              .add("gradient", model.state.gradient)
                              .add("optimizer", model.state.optimizer))
      .add("tensor_parallel", allowed_tensor_parallel(model, 64))
      .add("digest", model.digest);
}

Report report_of(const Link& link) {
  return Report().add("bandwidth_bytes_per_s", link.bandwidth.value()).add("latency_s", link.latency.value());
}

Report report_of(const ClusterSpec& cluster) {
  std::vector<Report> groups;
  for (int index = 0; index < cluster.group_count(); ++index) {
    const NodeGroup& group = cluster.node_groups[static_cast<std::size_t>(index)];
    const DeviceType& type = cluster.type_of(index);
    groups.push_back(Report()
                         .add("name", group.name)
                         .add("device", type.name)
                         .add("nodes", group.nodes)
                         .add("devices_per_node", group.devices_per_node)
                         .add("memory_bytes", static_cast<std::size_t>(type.memory.count()))
                         .add("peak_flops", type.peak.value())
                         .add("memory_bandwidth_bytes_per_s", type.memory_bandwidth.value())
                         .add("intra_node", report_of(group.intra_node))
                         .add("inter_node", report_of(group.inter_node)));
  }
  return Report()
      .add("name", cluster.name)
      .add("devices", cluster.device_count())
      .add("node_groups", groups)
      .add("notes", cluster.notes)
      .add("digest", cluster.digest);
}

ExitCode show(const ShowOptions& options) {
  if (options.model.empty() && options.cluster.empty()) {
    throw InputError(Diagnostic{"", 0, 0, "", "nothing to show", "give --model, --cluster or both"});
  }
  if (options.json) {
    Report report;
    if (!options.model.empty()) report.add("model", report_of(load_model(options.model)));
    if (!options.cluster.empty()) report.add("cluster", report_of(load_cluster(options.cluster)));
    std::cout << report_json(report);
    return ExitCode::Done;
  }
  std::string text;
  if (!options.model.empty()) text += shown(load_model(options.model));
  if (!options.cluster.empty()) text += shown(load_cluster(options.cluster));
  std::cout << text;
  return ExitCode::Done;
}

}  // namespace

void add_show_verb(CLI::App& app, AppContext& context) {
  const auto options = std::make_shared<ShowOptions>();
  CLI::App& verb = add_verb(
      app, context,
      {"show", "Shows a model or a cluster as hpplan reads it.", "hpplan show --model gpt3-13b --cluster b2-b4-64"},
      [options] { return show(*options); });
  verb.add_option("--model", options->model, "model file, \"-\" for standard input, or the name of a shipped model")
      ->type_name("MODEL");
  verb.add_option("--cluster", options->cluster, "cluster file, \"-\", or the name of a shipped cluster")
      ->type_name("CLUSTER");
  verb.add_flag("--json", options->json, "the figures as JSON");
}

}  // namespace hpplan
