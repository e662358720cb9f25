#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <variant>

#include <CLI/CLI.hpp>

#include "app.hpp"
#include "base/text.hpp"
#include "emit/profile_writer.hpp"
#include "emit/report_json.hpp"
#include "io/quantity.hpp"
#include "load.hpp"
#include "option_checks.hpp"
#include "profile/synthesize.hpp"
#include "verbs.hpp"

namespace hpplan {

namespace {

struct ImportArguments {
  std::string path;
  std::string out;
  std::string model;
  std::string device;
  bool json = false;
};

/// Latency of a link that --intra-node states by its bandwidth alone: that of the reference clusters.
constexpr Seconds kLinkLatency{3e-6};

struct SynthesizeArguments {
  std::string device;
  std::string model;
  std::string cluster;
  std::string intra_node = "1536 Gbps";
  std::string out = "-";
  std::vector<int> tensor_parallel = {1, 2, 4, 8};
  std::vector<int> samples = {1, 2, 4, 8, 16, 32, 64};
  bool json = false;  // changes nothing
};

struct ShowArguments {
  std::string profile;
  bool json = false;
};

[[noreturn]] void refuse_profile(const std::string& message, const std::string& hint) {
  throw InputError(Diagnostic{"", 0, 0, "", message, hint});
}

std::string profile_name(const DeviceProfile& profile) { return concat(profile.model, ".", profile.device_type); }

ExitCode run_import(const AppContext& context, const ImportArguments& arguments) {
  std::optional<ModelSpec> model;
  if (!arguments.model.empty()) model = load_model(arguments.model);
  const std::vector<DeviceProfile> profiles =
      import_profiles(read_import_files(arguments.path), {arguments.device, model ? &*model : nullptr});
  std::error_code error;
  const bool into_folder = std::filesystem::is_directory(arguments.out, error);
  if (profiles.empty()) refuse_profile("no profile found in " + arguments.path, "llm_info.json alone holds no times");
  if (profiles.size() > 1 && !into_folder) {
    std::vector<std::string> names;
    for (const DeviceProfile& profile : profiles) names.push_back(profile_name(profile));
    refuse_profile(concat(profiles.size(), " profiles found: ", join(names, ", ")),
                   "give a smaller PATH, or an existing folder as --out to write one file for each");
  }
  std::vector<Report> written;
  for (const DeviceProfile& profile : profiles) {
    const std::string path = into_folder
                                 ? (std::filesystem::path(arguments.out) / (profile_name(profile) + ".json")).string()
                                 : arguments.out;
    write_output(path, emit_profile(profile));
    print_note(context, concat(path, ": ", profile.model, " on ", profile.device_type, ", ", profile.origin));
    for (const std::string& note : profile.notes) print_note(context, "  note: " + note);
    written.push_back(Report()
                          .add("file", path)
                          .add("model", profile.model)
                          .add("device", profile.device_type)
                          .add("origin", profile.origin)
                          .add("notes", profile.notes));
  }
  // With "-" the profile itself is the result, and is JSON.
  if (arguments.json && arguments.out != "-") std::cout << report_json(Report().add("profiles", written));
  return ExitCode::Done;
}

/// A device type and the link between devices of its nodes.
struct DeviceFigures {
  DeviceType type;
  Link intra_node;
};

[[noreturn]] void refuse_device(const std::string& device, const std::vector<DeviceType>& known) {
  std::vector<std::string> names;
  for (const DeviceType& type : known) names.push_back(type.name);
  const std::string nearest = nearest_name(device, names);
  refuse_profile(concat("unknown device type \"", device, "\""),
                 nearest.empty() ? "known: " + join(names, ", ") : concat("did you mean \"", nearest, "\"?"));
}

DeviceFigures figures_in_cluster(const std::string& cluster_name, const std::string& device) {
  const ClusterSpec cluster = load_cluster(cluster_name);
  for (int group = 0; group < cluster.group_count(); ++group) {
    const Link& link = cluster.node_groups[static_cast<std::size_t>(group)].intra_node;
    if (cluster.type_of(group).name == device) return {cluster.type_of(group), link};
  }
  refuse_device(device, cluster.device_types);
}

DeviceFigures shipped_figures(const SynthesizeArguments& arguments) {
  const auto bandwidth = parse_quantity<BytesPerSecond>(arguments.intra_node);
  if (const auto* found = std::get_if<QuantityFault>(&bandwidth))
    refuse_profile("--intra-node: " + found->message, found->hint);
  if (!(std::get<BytesPerSecond>(bandwidth) > BytesPerSecond{0.0})) {
    refuse_profile(concat("--intra-node: found \"", arguments.intra_node, "\""),
                   "a bandwidth above 0, as in \"50 GB/s\"");
  }
  const std::vector<DeviceType> known = load_device_types();
  for (const DeviceType& type : known) {
    if (type.name == arguments.device) return {type, {std::get<BytesPerSecond>(bandwidth), kLinkLatency}};
  }
  refuse_device(arguments.device, known);
}

ExitCode run_synthesize(const SynthesizeArguments& arguments) {
  const DeviceFigures figures =
      arguments.cluster.empty() ? shipped_figures(arguments) : figures_in_cluster(arguments.cluster, arguments.device);
  const ModelSpec model = load_model(arguments.model);
  const DeviceProfile profile =
      synthesize_profile({model, figures.type, figures.intra_node, arguments.tensor_parallel, arguments.samples});
  if (profile.points.empty()) {
    refuse_profile(
        "the model allows none of the TP degrees",
        tensor_parallel_fault(model, arguments.tensor_parallel.empty() ? 1 : arguments.tensor_parallel.front()));
  }
  write_output(arguments.out, emit_profile(profile));
  return ExitCode::Done;
}

// ---- show

using Row = std::vector<std::string>;

/// Columns as wide as their widest cell, numbers to the right.
std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - row[i].size(), ' ');
      text += "  ";
      text += i == 0 ? row[i] + gap : gap + row[i];
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

Row point_row(const std::string& kind, int degree, int samples, const ProfilePoint& point) {
  return {kind,
          std::to_string(degree),
          std::to_string(samples),
          pretty(point.forward),
          pretty(point.backward),
          point.known_split ? pretty(point.weight_gradient) : "-",
          point.known_saved ? pretty(point.saved) : "-",
          pretty(point.forward / static_cast<double>(samples))};
}

std::string shown(const DeviceProfile& profile) {
  std::vector<Row> rows{{"layer", "TP", "samples", "forward", "backward", "of it weights", "saved", "forward/sample"}};
  for (const auto& [kind, degrees] : profile.points) {
    for (const auto& [degree, series] : degrees) {
      for (const auto& [samples, point] : series) rows.push_back(point_row(kind, degree, samples, point));
    }
  }
  std::string text = concat("profile of ", profile.model, " on ", profile.device_type, ": ",
                            profile.origin.empty() ? "origin not stated" : profile.origin, "\n");
  if (profile.shape.layers > 0) text += concat("  layers ", profile.shape.layers);
  if (profile.shape.hidden > 0) text += concat(", hidden ", profile.shape.hidden);
  if (profile.shape.sequence > 0) text += concat(", sequence ", profile.shape.sequence);
  if (profile.shape.parameters > 0)
    text += concat(", ", significant(profile.shape.parameters * 1e-9, 3), " billion parameters");
  text += "\n" + table(rows);
  for (const auto& [degree, time] : profile.optimizer_per_parameter) {
    text += concat("  optimizer at TP ", degree, ": ", significant(time.value() * 1e12, 3), " ps per parameter\n");
  }
  for (const std::string& note : profile.notes) text += concat("  note: ", note, "\n");
  return text;
}

ExitCode run_show(const ShowArguments& arguments) {
  const std::vector<DeviceProfile> profiles = load_profiles(arguments.profile, nullptr);
  if (arguments.json && profiles.size() != 1) {
    refuse_profile(concat(profiles.size(), " profiles found"), "--json shows one: name its file");
  }
  for (const DeviceProfile& profile : profiles) std::cout << (arguments.json ? emit_profile(profile) : shown(profile));
  return ExitCode::Done;
}

void add_import(CLI::App& parent, AppContext& context) {
  const auto arguments = std::make_shared<ImportArguments>();
  CLI::App& verb = add_verb(
      parent, context,
      {"import", "Turns profiles of Metis, Sailor or Galvatron, or timers of Megatron-LM, into hpplan's own format.",
       "hpplan profile import metis_profiles --model opt-350m --out opt-350m.json"},
      [&context, arguments] { return run_import(context, *arguments); });
  verb.add_option("path", arguments->path, "file or folder; the layout is recognised")->required()->type_name("PATH");
  verb.add_option("--out", arguments->out, "file to write, or an existing folder when PATH holds several profiles")
      ->required()
      ->type_name("PATH");
  verb.add_option("--model", arguments->model, "the model that was measured: checked against the profile")
      ->type_name("MODEL");
  verb.add_option("--device", arguments->device, "name of the device type; default: as the source calls it")
      ->type_name("NAME");
  verb.add_flag("--json", arguments->json, "what was written and what was assumed, as JSON on standard output");
}

void add_synthesize(CLI::App& parent, AppContext& context) {
  const auto arguments = std::make_shared<SynthesizeArguments>();
  CLI::App& verb = add_verb(parent, context,
                            {"synthesize", "Writes the profile a device would have if it were as fast as modelled.",
                             "hpplan profile synthesize --device ascend-910b2 --model gpt3-13b --out profile.json"},
                            [arguments] { return run_synthesize(*arguments); });
  verb.add_option("--device", arguments->device, "a device type of the cluster, else of profiles/devices.yaml")
      ->required()
      ->type_name("DEVICE");
  CLI::Option* const cluster =
      verb.add_option("--cluster", arguments->cluster, "take figures and node link of the device from this cluster")
          ->type_name("CLUSTER");
  verb.add_option("--intra-node", arguments->intra_node,
                  "bandwidth between devices of a node, for TP above 1; default: \"1536 Gbps\", latency 3 us")
      ->excludes(cluster)
      ->type_name("RATE");
  verb.add_option("--model", arguments->model, "model file or the name of a shipped model")
      ->required()
      ->type_name("MODEL");
  verb.add_option("--out", arguments->out, "file to write; default: standard output")->type_name("FILE");
  verb.add_flag("--json", arguments->json, "a profile is JSON anyway; every verb has this option");
  verb.add_option("--tensor-parallel", arguments->tensor_parallel, "TP degrees; default: 1,2,4,8")
      ->delimiter(',')
      ->type_name("LIST")
      ->check(whole_number(1, 1 << 20));
  verb.add_option("--samples", arguments->samples, "samples per replica; default: 1,2,4,8,16,32,64")
      ->delimiter(',')
      ->type_name("LIST")
      ->check(whole_number(1, 1 << 20));
}

void add_show(CLI::App& parent, AppContext& context) {
  const auto arguments = std::make_shared<ShowArguments>();
  CLI::App& verb =
      add_verb(parent, context, {"show", "Prints a profile as a table.", "hpplan profile show gpt3-13b.ascend-910b2"},
               [arguments] { return run_show(*arguments); });
  verb.add_option("profile", arguments->profile, "file, folder or the name of a shipped profile")
      ->required()
      ->type_name("PROFILE");
  verb.add_flag("--json", arguments->json, "print hpplan's own format instead");
}

}  // namespace

void add_profile_verb(CLI::App& app, AppContext& context) {
  CLI::App& verb = add_verb(app, context,
                            {"profile", "Imports, synthesizes and shows measured times of layers.",
                             "hpplan profile show gpt3-13b.ascend-910b2"},
                            nullptr);
  verb.require_subcommand(1);
  add_import(verb, context);
  add_synthesize(verb, context);
  add_show(verb, context);
}

}  // namespace hpplan
