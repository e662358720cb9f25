#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "app.hpp"
#include "base/text.hpp"
#include "emit/schedule_report.hpp"
#include "emit/timeline_svg.hpp"
#include "emit/trace.hpp"
#include "io/document.hpp"
#include "option_checks.hpp"
#include "schedule/table.hpp"
#include "verbs.hpp"

namespace hpplan {

namespace {

/// Of one op, in any unit: sums of millions of them stay finite.
constexpr double kMaxTime = 1e12;

struct ScheduleOptions {
  std::string family;
  int stages = 0;
  int micro_batches = 0;
  std::vector<double> forward;
  std::vector<double> backward;
  std::vector<double> weight_gradient;
  std::vector<double> communication;
  int chunks = 0;
  std::optional<double> memory_limit;
  std::vector<int> in_flight;
  std::optional<int> max_drift;
  int accumulation = 0;
  std::optional<double> weight_gradient_memory;
  double overlap = 1.0;
  std::string links = "asynchronous";
  std::string layers;
  bool json = false;
  std::string trace;
  std::string svg;
};

/// Value k of a list in which one value stands for all, and none for 0.
Seconds value_at(const std::vector<double>& list, std::size_t k) {
  if (list.empty()) return {};
  return Seconds{list.size() == 1 ? list.front() : list[k]};
}

/// The number of times given: that of the longest list, and one per stage if all are single values.
std::size_t time_count(const ScheduleOptions& options) {
  std::size_t count = static_cast<std::size_t>(std::max(options.stages, 0));
  for (const std::vector<double>* list : {&options.forward, &options.backward, &options.weight_gradient}) {
    if (list->size() > 1) count = list->size();
  }
  const std::pair<const char*, const std::vector<double>*> lists[] = {{"--forward", &options.forward},
                                                                      {"--backward", &options.backward},
                                                                      {"--weight-gradient", &options.weight_gradient},
                                                                      {"--communication", &options.communication}};
  for (const auto& [name, list] : lists) {
    const auto too_long = std::find_if(list->begin(), list->end(), [](double time) { return time > kMaxTime; });
    if (too_long != list->end()) {
      refuse_schedule(name, concat("found ", shortest(*too_long)), concat("times of at most ", shortest(kMaxTime)));
    }
    const bool last_link_left_out = list == &options.communication && list->size() + 1 == count;
    if (list->size() > 1 && list->size() != count && !last_link_left_out) {
      refuse_schedule(name, concat(list->size(), " values where other lists or --stages say ", count),
                      "give one value for all stages, or one for each");
    }
  }
  return count;
}

/// Layers with their times: the name of a kind listed under `kinds`, or a map with the times itself, and how often.
///   kinds: {mamba: {forward: 268, backward: 430, weight_gradient: 176}, ...}
///   layers: [embedding, {kind: mamba, count: 2}, {forward: 1, backward: 1}, ...]
std::vector<LayerTime> load_layers(const std::string& path) {
  const InputText input = read_input(path);
  const Document document = Document::parse(input.text, input.name);
  const Reader root = document.root();
  const auto times = [](const Reader& reader, const std::string& name) {
    LayerTime layer;
    layer.name = name;
    layer.forward = Seconds{reader.required("forward").number(0.0, kMaxTime)};
    layer.backward = Seconds{reader.required("backward").number(0.0, kMaxTime)};
    layer.weight_gradient = Seconds{reader.optional("weight_gradient").number_or(0.0, 0.0, kMaxTime)};
    return layer;
  };
  std::vector<LayerTime> kinds;
  const Reader kinds_reader = root.optional("kinds");
  if (kinds_reader.exists()) {
    for (const auto& [name, reader] : kinds_reader.entries()) kinds.push_back(times(reader, name));
  }
  std::vector<LayerTime> layers;
  const auto add_kind = [&](const Reader& reader, const std::string& name, int count) {
    for (const LayerTime& kind : kinds) {
      if (kind.name == name) return layers.insert(layers.end(), static_cast<std::size_t>(count), kind), void();
    }
    reader.fault(concat("unknown layer kind \"", name, "\""), "list its times under kinds");
  };
  for (const Reader& item : root.required("layers").items(1)) {
    if (item.kind() != ValueKind::Map) {
      add_kind(item, item.text(), 1);
      continue;
    }
    const int count = item.optional("count").count_or(1, 1, 100000);
    const Reader kind = item.optional("kind");
    if (kind.exists()) {
      add_kind(kind, kind.text(), count);
    } else {
      const LayerTime layer = times(item, item.optional("name").text_or("layer"));
      layers.insert(layers.end(), static_cast<std::size_t>(count), layer);
    }
  }
  document.finish();
  return layers;
}

ScheduleRequest make_request(const ScheduleOptions& options) {
  ScheduleRequest request;
  request.stage_count = options.stages;
  request.micro_batches = options.micro_batches;
  request.chunks = options.chunks;
  request.memory_limit = options.memory_limit;
  request.in_flight = options.in_flight;
  request.max_drift = options.max_drift;
  request.accumulation = options.accumulation;
  request.weight_gradient_memory = options.weight_gradient_memory;
  request.joined_time = options.overlap;
  if (!options.layers.empty()) {
    request.layers = load_layers(options.layers);
    const Seconds link = value_at(options.communication, 0);
    request.times.assign(static_cast<std::size_t>(std::max(options.stages, 0)),
                         {Seconds{}, Seconds{}, Seconds{}, link});
    return request;
  }
  if (options.forward.empty() || options.backward.empty()) {
    refuse_schedule(options.forward.empty() ? "--forward" : "--backward", "is missing",
                    "give the time of one micro-batch on each stage, or on all: --forward 1 --backward 2");
  }
  const std::size_t count = time_count(options);
  for (std::size_t k = 0; k < count; ++k) {
    const bool has_link = options.communication.size() <= 1 || k < options.communication.size();
    request.times.push_back({value_at(options.forward, k), value_at(options.backward, k),
                             value_at(options.weight_gradient, k),
                             has_link ? value_at(options.communication, k) : Seconds{}});
  }
  return request;
}

/// Operations of all stages are held in memory: about 80 B for each micro-batch on each stage.
void check_size(const ScheduleOptions& options) {
  constexpr double kMax = 1 << 24;
  const double size = static_cast<double>(options.stages) * options.micro_batches * std::max(1, options.chunks);
  if (size <= kMax) return;
  refuse_schedule(
      "micro-batches",
      concat("stages x micro-batches x chunks = ", significant(size, 3), ", allowed are ", significant(kMax, 8)),
      "simulate fewer micro-batches: the steady state repeats");
}

/// Options that the family does not look at are refused: whoever gives one expects it to matter.
void check_options_matter(const ScheduleOptions& options) {
  const ScheduleFamily& family = schedule_family(options.family);
  const auto takes = [&](const char* option) {
    return std::find(family.options.begin(), family.options.end(), option) != family.options.end();
  };
  const struct {
    const char* name;
    bool given;
    bool matters;
  } known[] = {
      {"--chunks", options.chunks > 0, takes("--chunks")},
      {"--memory-limit", options.memory_limit.has_value(), takes("--memory-limit")},
      {"--in-flight", !options.in_flight.empty(), takes("--in-flight")},
      {"--max-drift", options.max_drift.has_value(), takes("--max-drift")},
      {"--accumulation", options.accumulation > 0, family.stepping == Stepping::Asynchronous},
      {"--weight-gradient-memory", options.weight_gradient_memory.has_value(), family.backward == BackwardOps::Split},
      {"--overlap", options.overlap < 1.0, takes("--overlap")},
      {"--layers", !options.layers.empty(), takes("--layers")},
  };
  for (const auto& option : known) {
    if (!option.given || option.matters) continue;
    refuse_schedule(option.name, concat(options.family, " does not take it"), "leave it out, or give another --family");
  }
  if (options.layers.empty()) return;
  const std::pair<const char*, bool> beside_layers[] = {{"--forward", !options.forward.empty()},
                                                        {"--backward", !options.backward.empty()},
                                                        {"--weight-gradient", !options.weight_gradient.empty()},
                                                        {"--communication", options.communication.size() > 1}};
  for (const auto& [name, given] : beside_layers) {
    if (given)
      refuse_schedule(name, "the times come from --layers", "leave it out; one --communication stands for all links");
  }
}

ExitCode run_schedule(const AppContext& context, const ScheduleOptions& options) {
  for (const std::string& path : {options.trace, options.svg}) {
    if (!path.empty()) check_output(path);
  }
  check_options_matter(options);
  check_size(options);
  const Schedule schedule = make_schedule_of(options.family, make_request(options));
  const LinkSemantics links = options.links == "blocking" ? LinkSemantics::Blocking : LinkSemantics::Asynchronous;
  const Simulation simulation = simulate(schedule, links);
  if (!options.trace.empty()) {
    const TracedPipeline pipeline{schedule.family, &schedule, &simulation};
    write_output(options.trace, trace_json({&pipeline, 1}, 1.0));
  }
  if (!options.svg.empty()) {
    const bool one_each = schedule.model_stage_count == schedule.device_count;
    const std::string parts = one_each ? "" : concat(schedule.model_stage_count, " parts of the model on ");
    const std::string title = concat(schedule.family, ", ", parts, schedule.device_count,
                                     one_each ? " stages, " : " devices, ", schedule.micro_batches, " micro-batches");
    write_output(options.svg, timeline_svg(schedule, simulation, title, "time units"));
  }
  if (options.trace == "-" || options.svg == "-") return ExitCode::Done;  // the picture is the result
  if (options.micro_batches < options.stages) {
    print_note(context, concat("note: ", options.micro_batches, " micro-batches for ", options.stages,
                               " stages: the stages are idle for ", percent(simulation.idle_share), " of the time"));
  }
  std::cout << (options.json ? schedule_json(schedule, simulation) : schedule_text(schedule, simulation));
  return ExitCode::Done;
}

/// "gpipe        all forwards, then all backwards [limits]", a line per family.
std::string family_list() {
  std::string text = "Families:";
  for (const ScheduleFamily& family : schedule_families()) {
    const std::string name = family.name;
    text += concat("\n  ", name, std::string(15 - std::min<std::size_t>(14, name.size()), ' '), family.summary);
    if (*family.restrictions != '\0') text += concat(" [", family.restrictions, "]");
  }
  return text;
}

void add_time_options(CLI::App& verb, ScheduleOptions& options) {
  const auto list = [&](const char* name, std::vector<double>& values, const char* help) {
    verb.add_option(name, values, help)->delimiter(',')->type_name("LIST")->check(number_from(0.0))->group("Times");
  };
  list("--forward", options.forward, "time of one micro-batch's forward: one value for all stages, or one per stage");
  list("--backward", options.backward, "its backward; with --weight-gradient the input gradient alone");
  list("--weight-gradient", options.weight_gradient, "its weight gradient");
  list("--communication", options.communication, "time of a transfer to the next stage, one way (default 0)");
  verb.add_option("--layers", options.layers,
                  "times per layer, for octopipe: a YAML or JSON file with kinds and layers")
      ->type_name("FILE")
      ->group("Times");
}

void add_shape_options(CLI::App& verb, ScheduleOptions& options) {
  verb.add_option("--family", options.family, "schedule family, see below")->required()->type_name("FAMILY");
  verb.add_option("--stages", options.stages, "pipeline stages")->required()->type_name("P")->check(whole_number(1));
  verb.add_option("--micro-batches", options.micro_batches, "micro-batches per step")
      ->required()
      ->type_name("M")
      ->check(whole_number(1));
  verb.add_option("--chunks", options.chunks, "chunks per device, for interleaved (default 2)")
      ->type_name("V")
      ->check(whole_number(1));
  verb.add_option("--memory-limit", options.memory_limit,
                  "activations a device may hold, in whole stages; for zb-auto and octopipe")
      ->type_name("X")
      ->check(number_from(0.0));
  verb.add_option("--in-flight", options.in_flight,
                  "micro-batches that each stage may hold, for 1f1b-adaptive (default: as 1f1b)")
      ->delimiter(',')
      ->type_name("LIST")
      ->check(whole_number(1));
  verb.add_option("--max-drift", options.max_drift,
                  "updates allowed between a micro-batch's forward and backward; for paci and amdp")
      ->type_name("N")
      ->check(whole_number(0));
  verb.add_option("--accumulation", options.accumulation, "micro-batches per update; for asynchronous families")
      ->type_name("A")
      ->check(whole_number(1));
  verb.add_option("--weight-gradient-memory", options.weight_gradient_memory,
                  "share of an activation kept until the weight gradient (default 1; zb-auto 0.43, as without fused "
                  "attention)")
      ->check(number_from(0.0, 1.0))
      ->type_name("SHARE");
  verb.add_option("--overlap", options.overlap,
                  "time of an overlapped forward and backward over their sum, for dualpipe (default 1)")
      ->check(number_from(0.01, 1.0))
      ->type_name("SHARE");
  verb.add_option("--links", options.links, "asynchronous (the default): transfers delay the receiver; blocking: both")
      ->check(one_of({"asynchronous", "blocking"}))
      ->type_name("asynchronous|blocking");
}

}  // namespace

void add_schedule_verb(CLI::App& app, AppContext& context) {
  const auto options = std::make_shared<ScheduleOptions>();
  CLI::App& verb = add_verb(app, context,
                            {"schedule", "Simulates a pipeline schedule from stage times.",
                             "hpplan schedule --family 1f1b --stages 4 --micro-batches 8 --forward 1 --backward 2"},
                            [&context, options] { return run_schedule(context, *options); });
  verb.footer(concat(verb.get_footer(), "\n\n", family_list()));
  add_shape_options(verb, *options);
  add_time_options(verb, *options);
  verb.add_flag("--json", options->json, "the result as JSON")->group("Output");
  verb.add_option("--trace", options->trace, "write Chrome trace events, one time unit as 1 us")
      ->type_name("FILE")
      ->group("Output");
  verb.add_option("--svg", options->svg, "write a picture of the timeline")->type_name("FILE")->group("Output");
}

}  // namespace hpplan
