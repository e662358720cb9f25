#include "io/detail/galvatron_profile.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"
#include "io/detail/text_lines.hpp"
#include "io/digest.hpp"

namespace hpplan::detail {

namespace {

constexpr double kMaxMilliseconds = 1e9;
constexpr double kMebi = 1048576.0;
/// Bytes that the size of a layer counts for a parameter: a fourth of weights, gradients and Adam's states (16 bytes).
constexpr double kBytesPerParameter = 4.0;

/// Times of one number of samples at one sequence length, in ms.
struct Measured {
  std::map<int, double> totals;  // by number of layers: forward of the whole model
  std::optional<double> layer;   // one layer, one sample
  std::optional<double> other;   // embedding and head, one sample
};

struct Computation {
  std::string file;
  std::string model;
  std::string precision;
  std::map<std::pair<int, int>, Measured> points;  // by sequence and samples
};

struct Memory {
  std::map<int, double> saved;  // MiB for one sample, by TP degree
  double parameters = 0.0;      // MiB of one layer at TP 1
};

/// The number after `tag` at the start of `text`, which it is cut off; nothing if there is none.
std::optional<int> take_number(std::string& text, const std::string& tag) {
  if (text.rfind(tag, 0) != 0) return std::nullopt;
  std::size_t end = tag.size();
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  const std::optional<int> number = whole_number(std::string_view(text).substr(tag.size(), end - tag.size()));
  if (number) text.erase(0, end);
  return number;
}

bool take(std::string& text, const std::string& tag) {
  if (text.rfind(tag, 0) != 0) return false;
  text.erase(0, tag.size());
  return true;
}

std::string file_stem(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.substr(0, name.rfind(".json"));
}

/// "computation_profiling_bf16_llama-7b_all": precision and model.
void read_name(const std::string& path, Computation& computation) {
  std::string stem = file_stem(path);
  if (!take(stem, "computation_profiling_")) return;
  const std::size_t end = stem.find('_');
  computation.precision = stem.substr(0, end);
  if (end == std::string::npos) return;
  computation.model = stem.substr(end + 1);
  constexpr std::string_view kAll = "_all";
  if (computation.model.size() > kAll.size() && computation.model.ends_with(kAll)) {
    computation.model.erase(computation.model.size() - kAll.size());
  }
}

/// Samples and sequence from "_bsz8_seq4096"; nothing for anything else.
std::optional<std::pair<int, int>> batch_and_sequence(std::string text) {
  const std::optional<int> samples = take_number(text, "_bsz");
  const std::optional<int> sequence = take_number(text, "_seq");
  if (!samples || !sequence || *samples < 1 || *sequence < 1 || !text.empty()) return std::nullopt;
  return std::pair{*sequence, *samples};
}

void read_time(const std::string& key, const Reader& value, Computation& computation) {
  const auto milliseconds = [&](double least) { return value.number(least, kMaxMilliseconds); };
  std::string rest = key;
  if (take(rest, "layernum[")) {
    const std::optional<int> layers = take_number(rest, "");
    const auto place = layers && take(rest, "]") ? batch_and_sequence(rest) : std::nullopt;
    if (place && *layers > 0) {
      computation.points[*place].totals[*layers] = milliseconds(1e-9);
      return;
    }
    if (rest.find(',') != std::string::npos) {
      value.fault("a model with several kinds of layers", "hpplan imports profiles of one kind of layer");
      return;
    }
  } else if (take(rest, "layertype_other")) {
    if (const auto place = batch_and_sequence(rest)) {
      computation.points[*place].other = milliseconds(0.0);
      return;
    }
  } else if (const std::optional<int> kind = take_number(rest, "layertype_")) {
    const auto place = batch_and_sequence(rest);
    if (place && *kind == 0) {
      computation.points[*place].layer = milliseconds(1e-9);
      return;
    }
    if (place) {
      value.fault("a model with several kinds of layers", "hpplan imports profiles of one kind of layer");
      return;
    }
  }
  value.fault("not a key of Galvatron's computation profile",
              "known: layernum[N]_bszB_seqS, layertype_0_bszB_seqS, layertype_other_bszB_seqS");
}

void read_computation(const Reader& root, const std::string& file, Computation& computation) {
  if (!computation.file.empty()) {
    root.fault(concat("a second computation profile beside ", computation.file), "import one at a time");
    return;
  }
  computation.file = file;
  read_name(file, computation);
  for (const auto& [key, value] : root.entries(1)) read_time(key, value, computation);
}

/// {"parameter_size": MiB, "tp_activation_per_bsz_dict": {"checkpoint": MiB, "1": MiB, ...}}
Memory read_layer_memory(const Reader& layer) {
  Memory memory;
  layer.allow_other_keys();
  memory.parameters = layer.required("parameter_size").number(0.0, 1e9);
  for (const auto& [key, value] : layer.required("tp_activation_per_bsz_dict").entries(1)) {
    const double size = value.number(0.0, 1e9);
    if (key == "checkpoint") continue;  // with full recomputation
    const std::optional<int> degree = whole_number(key);
    if (!degree || *degree < 1) {
      value.fault(concat("\"", key, "\" is not a TP degree"), "a whole number from 1, or \"checkpoint\"");
    } else {
      memory.saved[*degree] = size;
    }
  }
  return memory;
}

/// By sequence; 0: the file does not tell it.
void read_memory(const Reader& root, std::map<int, Memory>& memories) {
  root.allow_other_keys();  // raw measurements, and memory outside the layers
  const Reader layer = root.required("layertype_0");
  if (!layer.exists()) return;
  const auto entries = layer.entries(1);
  const bool by_sequence =
      std::all_of(entries.begin(), entries.end(), [](const auto& e) { return whole_number(e.first).has_value(); });
  if (!by_sequence) {
    memories[0] = read_layer_memory(layer);
    return;
  }
  for (const auto& [key, value] : entries) memories[*whole_number(key)] = read_layer_memory(value);
}

bool is_memory(const Reader& root) {
  for (const auto& [key, value] : root.entries()) {
    if (value.kind() == ValueKind::Map) return true;
  }
  return false;
}

/// The sequence to take: that of the model, else the only one measured.
int chosen_sequence(const Computation& computation, const ImportOptions& options) {
  std::set<int> measured;
  for (const auto& entry : computation.points) measured.insert(entry.first.first);
  std::vector<std::string> names;
  for (const int sequence : measured) names.push_back(std::to_string(sequence));
  const auto refuse = [&](const std::string& message, const std::string& hint) {
    throw InputError(Diagnostic{computation.file, 1, 1, "", message, hint});
  };
  if (options.model != nullptr && measured.count(options.model->sequence) == 0) {
    refuse(concat("measured at sequence ", join(names, ", "), ", but ", options.model->name, " has ",
                  options.model->sequence),
           "use the profile of this model");
  }
  if (options.model == nullptr && measured.size() > 1) {
    refuse(concat("measured at sequences ", join(names, ", ")), "add --model MODEL: its sequence is taken");
  }
  return options.model != nullptr ? options.model->sequence : *measured.begin();
}

/// ms of one layer and of everything else, for all samples of the point.
std::pair<double, double> layer_and_other(const Measured& measured, int samples) {
  if (measured.totals.size() > 1) {
    const auto& [few, short_time] = *measured.totals.begin();
    const auto& [many, long_time] = *measured.totals.rbegin();
    const double layer = (long_time - short_time) / (many - few);
    return {layer, short_time - few * layer};
  }
  const double layer = measured.layer.value_or(0.0) * samples;
  if (measured.other) return {layer, *measured.other * samples};
  if (measured.totals.empty()) return {layer, 0.0};
  return {layer, measured.totals.begin()->second - measured.totals.begin()->first * layer};
}

ProfilePoint forward_point(double milliseconds) {
  ProfilePoint point;
  point.forward = Seconds{milliseconds * kMilli};
  point.backward = point.forward * 2.0;
  return point;
}

void add_times(const Computation& computation, int sequence, DeviceProfile& profile) {
  bool head_is_missing = false;
  for (const auto& [place, measured] : computation.points) {
    const auto& [at, samples] = place;
    if (at != sequence) continue;
    const auto [layer, other] = layer_and_other(measured, samples);
    const std::string name = concat("bsz", samples, "_seq", sequence);
    if (!(layer > 0.0)) {
      throw InputError(Diagnostic{computation.file, 1, 1, "", concat(name, " gives a layer ", shortest(layer), " ms"),
                                  "more layers must take longer, or layertype_0 must be given: measure again"});
    }
    profile.points["block"][1][samples] = forward_point(layer);
    if (other > 0.0) {
      profile.points["head"][1][samples] = forward_point(other);
    } else {
      head_is_missing = true;
    }
  }
  profile.notes.emplace_back("Galvatron measures the forward alone: the backward is taken as twice the forward");
  profile.notes.emplace_back(
      "what Galvatron measures outside the layers is taken as the head; the embedding is modelled");
  profile.notes.emplace_back("Galvatron measures times at TP 1 alone; other degrees are modelled and scaled to it");
  if (head_is_missing)
    profile.notes.emplace_back("the layers take all of the time of some points: their head is modelled");
}

void add_memory(const std::map<int, Memory>& memories, int sequence, DeviceProfile& profile) {
  auto found = memories.find(sequence);
  if (found == memories.end()) found = memories.find(0);
  if (found == memories.end()) {
    if (!memories.empty())
      profile.notes.push_back(concat("the memory profile lacks sequence ", sequence, " and is not used"));
    return;
  }
  const Memory& memory = found->second;
  const auto saved = memory.saved.find(1);
  for (auto& [samples, point] : profile.points["block"][1]) {
    point.parameters = memory.parameters * kMebi / kBytesPerParameter;
    if (saved == memory.saved.end()) continue;
    point.saved = Bytes{static_cast<std::int64_t>(saved->second * kMebi * samples)};
    point.known_saved = true;
  }
  profile.notes.emplace_back("Galvatron's MB are taken as MiB, and its size of a layer as 4 bytes per parameter");
}

}  // namespace

bool is_galvatron_profile(const Reader& root) {
  if (root.kind() != ValueKind::Map) return false;
  for (const auto& [key, value] : root.entries()) {
    if (key.rfind("layernum[", 0) == 0 || key.rfind("layertype_", 0) == 0) return true;
  }
  return false;
}

DeviceProfile read_galvatron_profile(const std::vector<ImportFile>& files, const ImportOptions& options) {
  Computation computation;
  std::map<int, Memory> memories;
  std::string text;
  std::vector<Diagnostic> faults;
  for (const ImportFile& file : files) {
    text += file.text;
    try {
      const Document document = Document::parse(file.text, file.path);
      if (is_memory(document.root())) {
        read_memory(document.root(), memories);
      } else {
        read_computation(document.root(), file.path, computation);
      }
      document.finish();
    } catch (const InputError& error) {
      faults.insert(faults.end(), error.diagnostics().begin(), error.diagnostics().end());
    }
  }
  const std::string first = files.front().path;
  if (faults.empty() && computation.file.empty()) {
    faults.push_back({first, 1, 1, "", "a memory profile of Galvatron alone holds no times",
                      "give the folder that also holds computation_profiling_*.json"});
  }
  if (options.device.empty())
    faults.push_back({first, 1, 1, "", "does not say on what device it was measured",
                      "hpplan profile import --device NAME states it"});
  if (options.model == nullptr && computation.model.empty() && !computation.file.empty()) {
    faults.push_back({computation.file, 1, 1, "", "does not say what model was measured",
                      "add --model MODEL, or call the file computation_profiling_PRECISION_MODEL.json"});
  }
  if (!faults.empty()) throw InputError(faults);

  DeviceProfile profile;
  profile.device_type = options.device;
  profile.model = options.model != nullptr ? options.model->name : computation.model;
  profile.origin = "imported from Galvatron profiles";
  profile.file = first;
  profile.digest = fingerprint(text);
  profile.shape.sequence = chosen_sequence(computation, options);
  profile.shape.precision = computation.precision;
  add_times(computation, profile.shape.sequence, profile);
  add_memory(memories, profile.shape.sequence, profile);
  if (options.model != nullptr) {
    const std::string mismatch = profile_fault(profile, *options.model);
    if (!mismatch.empty()) {
      throw InputError(Diagnostic{first, 1, 1, "", concat("does not describe ", options.model->name, ": ", mismatch),
                                  "use the profile of this model"});
    }
  }
  return profile;
}

}  // namespace hpplan::detail
