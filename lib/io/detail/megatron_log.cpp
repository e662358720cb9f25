#include "io/detail/megatron_log.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"
#include "domain/operators.hpp"
#include "io/detail/text_lines.hpp"
#include "io/digest.hpp"

namespace hpplan::detail {

namespace {

constexpr const char* kTimerTitle = "time across ranks (ms):";

struct Stated {
  std::string value;
  int line = 1;
  int column = 1;
};

struct Log {
  std::map<std::string, Stated> arguments;
  std::map<std::string, std::vector<double>> timers;  // ms, in the order of the steps
};

bool is_dots(const std::string& word) { return !word.empty() && word.find_first_not_of('.') == std::string::npos; }

/// "num_layers .......... 24", whatever a launcher puts before it.
void read_argument(const TextLine& line, Log& log) {
  const std::vector<TextWord> words = words_of(line.text);
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    if (!is_dots(words[i].text)) continue;
    log.arguments.emplace(words[i - 1].text, Stated{words[i + 1].text, line.number, words[i + 1].column});
    return;
  }
}

/// The value of "(12.3, 12.4)": the second; of "12.4": it.
std::optional<double> largest(std::string text) {
  if (text.size() > 1 && text.front() == '(' && text.back() == ')') {
    const std::size_t comma = text.find(',');
    if (comma == std::string::npos) return std::nullopt;
    const std::optional<double> least = decimal_number(std::string_view(text).substr(1, comma - 1));
    if (!least || *least < 0.0) return std::nullopt;
    text = text.substr(comma + 1, text.size() - comma - 2);
    text.erase(0, text.find_first_not_of(' '));
  }
  const std::optional<double> value = decimal_number(text);
  return value && *value >= 0.0 ? value : std::nullopt;
}

/// "forward-compute .....: (12.3, 12.4)". False for a line that is no timer: the list has ended.
bool read_timer(const TextLine& line, Log& log, TextFaults& faults) {
  const std::vector<TextWord> words = words_of(line.text);
  for (std::size_t i = 1; i < words.size(); ++i) {
    std::string dots = words[i].text;
    if (dots.back() != ':' || !is_dots(dots.substr(0, dots.size() - 1))) continue;
    const std::string& name = words[i - 1].text;
    const int column = i + 1 < words.size() ? words[i + 1].column : words[i].column;
    const std::string text = line.text.substr(static_cast<std::size_t>(column) - 1);
    const std::optional<double> value =
        i + 1 < words.size() ? largest(text.substr(0, text.find_last_not_of(' ') + 1)) : std::nullopt;
    if (value) {
      log.timers[name].push_back(*value);
    } else {
      faults.add(line.number, column, name, concat("found ", quoted_text(text), ", needed a time in ms"),
                 "timers are written as (min, max), or as one number: --timing-log-option minmax or max");
    }
    return true;
  }
  return false;
}

Log read_log(const ImportFile& file, TextFaults& faults) {
  Log log;
  enum class Part { Other, Arguments, Timers } part = Part::Other;
  const std::vector<TextLine> lines = lines_of(without_escapes(file.text));
  for (const TextLine& line : lines) {
    if (line.text.find("end of arguments") != std::string::npos) {
      part = Part::Other;
    } else if (line.text.find("- arguments -") != std::string::npos) {
      part = Part::Arguments;
    } else if (line.text.find(kTimerTitle) != std::string::npos) {
      part = Part::Timers;
    } else if (part == Part::Arguments) {
      read_argument(line, log);
    } else if (part == Part::Timers && !read_timer(line, log, faults)) {
      part = Part::Other;
    }
  }
  return log;
}

/// What a log says about its run.
struct Run {
  int layers = 0;
  int hidden = 0;
  int sequence = 0;
  int tensor_parallel = 0;
  int samples = 0;
  int micro_batches = 0;
  bool sharded_optimizer = false;
};

class RunReader {
 public:
  RunReader(const Log& log, TextFaults& faults) : log_(log), faults_(faults) {}

  [[nodiscard]] Run read() {
    Run run;
    run.layers = count("num_layers");
    run.hidden = count("hidden_size");
    run.sequence = count("seq_length");
    run.tensor_parallel = count("tensor_model_parallel_size");
    run.samples = count("micro_batch_size");
    const int batch = count("global_batch_size");
    const int replicas = count("data_parallel_size");
    only("pipeline_model_parallel_size", "1", "times of several stages are not told apart: measure with one stage");
    only("context_parallel_size", "1", "measure without context parallelism");
    only("expert_model_parallel_size", "1", "measure without expert parallelism");
    only("recompute_granularity", "None", "the backward would hold the forward again: measure without recomputation");
    const auto sharded = log_.arguments.find("use_distributed_optimizer");
    run.sharded_optimizer = replicas > 1 && sharded != log_.arguments.end() && sharded->second.value == "True";
    const int per_micro_batch = run.samples * replicas;
    if (per_micro_batch < 1) return run;
    run.micro_batches = batch / per_micro_batch;
    if (run.micro_batches < 1 || batch % per_micro_batch != 0) {
      const Stated& place = log_.arguments.at("global_batch_size");
      faults_.add(place.line, place.column, "global_batch_size",
                  concat(batch, " is not a multiple of ", run.samples, " samples x ", replicas, " replicas"), "");
    }
    return run;
  }

 private:
  int count(const char* name) {
    const auto found = log_.arguments.find(name);
    if (found == log_.arguments.end()) {
      faults_.add(1, 1, name, "the log does not state it", "keep the arguments that Megatron-LM prints when it starts");
      return 0;
    }
    const std::optional<int> value = whole_number(found->second.value);
    if (!value || *value < 1) {
      faults_.add(found->second.line, found->second.column, name,
                  concat("found ", quoted_text(found->second.value), ", needed a whole number from 1"), "");
    }
    return value.value_or(0);
  }

  void only(const char* name, const std::string& allowed, const std::string& hint) {
    const auto found = log_.arguments.find(name);
    if (found == log_.arguments.end() || found->second.value == allowed) return;
    faults_.add(found->second.line, found->second.column, name,
                concat("found ", quoted_text(found->second.value), ", needed ", allowed), hint);
  }

  const Log& log_;
  TextFaults& faults_;
};

/// Median over the steps; the first is left out where there are more: it starts everything up.
std::optional<double> usual(const Log& log, const std::string& timer) {
  const auto found = log.timers.find(timer);
  if (found == log.timers.end()) return std::nullopt;
  std::vector<double> values = found->second;
  if (values.size() > 1) values.erase(values.begin());
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double needed_time(const Log& log, const char* timer, TextFaults& faults) {
  const std::optional<double> value = usual(log, timer);
  if (!value) faults.add(1, 1, timer, "the log holds no such timer", "run Megatron-LM with --timing-log-level 2");
  if (value && !(*value > 0.0)) faults.add(1, 1, timer, "takes no time", "use a log of a longer run");
  return value.value_or(0.0) * kMilli;
}

Flop forward_work(const ModelSpec& model, const LayerKind& kind, const Run& run) {
  double work = 0.0;
  for (const OperatorCost& cost : layer_operators(model, kind, run.tensor_parallel, run.samples))
    work += cost.forward.value();
  return Flop{work};
}

void check_model(const Run& run, const ModelSpec& model, const Log& log, TextFaults& faults) {
  const auto check = [&](const char* name, int found, int wanted) {
    if (found == wanted || found == 0) return;
    const Stated& place = log.arguments.at(name);
    faults.add(place.line, place.column, name, concat(found, ", but ", model.name, " has ", wanted),
               "use the log of this model");
  };
  check("num_layers", run.layers, model.block_count());
  check("hidden_size", run.hidden, model.hidden);
  check("seq_length", run.sequence, model.sequence);
}

void add_note(DeviceProfile& profile, const std::string& note) {
  if (std::find(profile.notes.begin(), profile.notes.end(), note) == profile.notes.end()) profile.notes.push_back(note);
}

void add_run(const Log& log, const Run& run, const ModelSpec& model, DeviceProfile& profile, TextFaults& faults) {
  const double forward = needed_time(log, "forward-compute", faults);
  const double backward = needed_time(log, "backward-compute", faults);
  faults.finish();
  double all = 0.0;
  std::map<int, double> work;  // by kind
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    work[static_cast<int>(kind)] = forward_work(model, model.kinds[kind], run).value();
  }
  for (const int kind : model.layers) all += work[kind];
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    const double share = work[static_cast<int>(kind)] / all / run.micro_batches;
    if (!(share > 0.0)) continue;  // the embedding
    auto& points = profile.points[model.kinds[kind].name][run.tensor_parallel];
    ProfilePoint& point = points[run.samples];
    if (point.forward > Seconds{}) {
      faults.add(1, 1, "", concat("a second log with TP ", run.tensor_parallel, " and ", run.samples, " samples"),
                 "import one of them");
      return;
    }
    point.forward = Seconds{forward * share};
    point.backward = Seconds{backward * share};
  }
  const std::optional<double> optimizer = usual(log, "optimizer");
  if (optimizer && *optimizer > 0.0 && !run.sharded_optimizer) {
    const double parameters = total_parameters(model) / run.tensor_parallel;
    profile.optimizer_per_parameter.emplace(run.tensor_parallel, Seconds{*optimizer * kMilli / parameters});
  }
  if (run.sharded_optimizer) add_note(profile, "the optimizer was sharded over replicas: its time is not used");
}

}  // namespace

bool is_megatron_log(const std::string& text) { return text.find(kTimerTitle) != std::string::npos; }

DeviceProfile read_megatron_logs(const std::vector<ImportFile>& files, const ImportOptions& options) {
  std::vector<Diagnostic> faults;
  const std::string& first = files.front().path;
  if (options.device.empty())
    faults.push_back({first, 1, 1, "", "does not say on what device it was measured",
                      "hpplan profile import --device NAME states it"});
  if (options.model == nullptr) {
    faults.push_back({first, 1, 1, "", "does not tell the times of blocks and head apart",
                      "add --model MODEL: they are divided by its operations"});
  }
  DeviceProfile profile;
  profile.device_type = options.device;
  profile.origin = "imported from timers of Megatron-LM";
  profile.file = first;
  std::string text;
  for (const ImportFile& file : files) {
    text += file.text;
    TextFaults of_file(file.path);
    try {
      const Log log = read_log(file, of_file);
      const Run run = RunReader(log, of_file).read();
      if (options.model != nullptr) check_model(run, *options.model, log, of_file);
      of_file.finish();
      if (faults.empty()) add_run(log, run, *options.model, profile, of_file);
      of_file.finish();
    } catch (const InputError& error) {
      faults.insert(faults.end(), error.diagnostics().begin(), error.diagnostics().end());
    }
  }
  if (!faults.empty()) throw InputError(faults);
  profile.digest = fingerprint(text);
  profile.model = options.model->name;
  profile.shape.layers = options.model->layer_count();
  profile.shape.hidden = options.model->hidden;
  profile.shape.sequence = options.model->sequence;
  add_note(profile,
           "of each timer the largest value over ranks and the median over steps is taken, without the first step");
  add_note(profile,
           "the time of a micro-batch is divided among blocks and head by their operations; the embedding is modelled");
  return profile;
}

}  // namespace hpplan::detail
