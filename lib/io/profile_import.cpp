#include "io/profile_import.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"
#include "domain/operators.hpp"
#include "io/detail/galvatron_profile.hpp"
#include "io/detail/limits.hpp"
#include "io/detail/megatron_log.hpp"
#include "io/digest.hpp"
#include "io/document.hpp"
#include "io/file_kind.hpp"

namespace hpplan {

using detail::kLeastSeconds;
using detail::kMaxSeconds;

namespace {

/// One kind stands for all interior layers; measured sets of equal layers differ by up to 14 %.
constexpr double kInteriorTolerance = 0.2;
/// A last interior layer this much smaller than the others is the final norm.
constexpr double kNormShare = 0.1;
/// An embedding whose backward takes less than this share of its forward was not measured.
constexpr double kUnmeasuredShare = 0.05;

/// Times of one layer; Metis gives only the sum of both directions.
struct LayerTimes {
  double forward = 0.0;
  double backward = 0.0;

  [[nodiscard]] double sum() const { return forward + backward; }
};

/// What one file says about one TP degree and one number of samples.
struct RawPoint {
  std::vector<LayerTimes> layers;
  std::vector<double> parameter_bytes;  // per layer on one device; may be empty
  double memory = 0.0;                  // of all layers; 0: not stated
  double optimizer = 0.0;               // of all layers
  Diagnostic place;                     // where it starts, for messages that come later
};

struct RawProfile {
  std::map<std::pair<int, int>, RawPoint> points;  // by TP degree and samples
  std::string file;
  std::string digest_source;
  bool joint_times = false;  // forward and backward came as one number
};

/// Sailor's description of a model: per TP degree and layer.
struct LayerInfo {
  double parameters = 0.0;
  double parameter_bytes = 0.0;
  double saved_bytes = 0.0;  // one sample
};
using ModelInfo = std::map<int, std::vector<LayerInfo>>;

/// Everything read from all files, before it is turned into profiles.
struct Collected {
  std::map<std::pair<std::string, std::string>, RawProfile> profiles;  // by device and model
  std::map<std::string, ModelInfo> info;                               // by model
  std::vector<ImportFile> galvatron;                                   // read together
  std::vector<ImportFile> megatron_logs;
};

std::optional<int> number_in(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

/// "" when the path has fewer folders. Level 1 is the folder of the file.
std::string folder_above(const std::string& path, std::size_t level) {
  const std::vector<std::string> parts = split(path, '/');
  return parts.size() > level ? parts[parts.size() - 1 - level] : "";
}

/// What a Metis file name says: DeviceType.A100_tp2_bs4.json or mbs4_tmp2.json.
struct MetisName {
  std::string device;
  int tensor_parallel = 0;
  int samples = 0;
};

std::optional<int> tagged_number(const std::string& token, const char* short_tag, const char* long_tag) {
  for (const std::string& tag : {std::string(long_tag), std::string(short_tag)}) {
    if (token.rfind(tag, 0) == 0) return number_in(std::string_view(token).substr(tag.size()));
  }
  return std::nullopt;
}

MetisName metis_name(const std::string& path) {
  std::string stem = split(path, '/').back();
  stem = stem.substr(0, stem.rfind(".json"));
  MetisName name;
  std::vector<std::string> rest;
  for (const std::string& token : split(stem, '_')) {
    if (const auto degree = tagged_number(token, "tp", "tmp")) {
      name.tensor_parallel = *degree;
    } else if (const auto samples = tagged_number(token, "bs", "mbs")) {
      name.samples = *samples;
    } else {
      rest.push_back(token);
    }
  }
  name.device = join(rest, "_");
  constexpr std::string_view kPrefix = "DeviceType.";
  if (name.device.rfind(kPrefix, 0) == 0) name.device.erase(0, kPrefix.size());
  if (name.device.empty()) name.device = folder_above(path, 1);
  return name;
}

std::string text_of(const Diagnostic& place) { return concat(place.file, ":", place.line, ":", place.column); }

void add_point(Collected& collected, const Reader& place, const std::pair<std::string, std::string>& device_and_model,
               const std::pair<int, int>& degree_and_samples, RawPoint point) {
  RawProfile& profile = collected.profiles[device_and_model];
  point.place = place.placed("");
  const auto [known, fresh] = profile.points.emplace(degree_and_samples, std::move(point));
  if (!fresh) {
    place.fault(concat(device_and_model.first, " with TP ", degree_and_samples.first, " and ",
                       degree_and_samples.second, " samples was already read at ", text_of(known->second.place)),
                "import one source at a time");
  }
}

// ---- Metis

/// Values of a list that must have one element for each layer.
std::vector<Reader> per_layer(const Reader& list, std::size_t layer_count) {
  std::vector<Reader> values = list.items(1);
  if (!values.empty() && values.size() != layer_count) {
    list.fault(concat(values.size(), " values, but num_layers is ", layer_count), "give one value for each layer");
  }
  return values;
}

void read_metis(const Reader& root, const ImportFile& file, Collected& collected) {
  const MetisName name = metis_name(file.path);
  root.allow_other_keys();
  const Reader model = root.required("model");
  const Reader time = root.required("execution_time");
  const Reader memory = root.required("execution_memory");
  for (const Reader& map : {model, time, memory}) {
    if (map.exists()) map.allow_other_keys();
  }
  if (name.tensor_parallel < 1 || name.samples < 1) {
    root.fault("the file name does not tell TP degree and micro-batch",
               "name it DeviceType.X_tpT_bsB.json or X/mbsB_tmpT.json");
  }
  const auto layer_count = static_cast<std::size_t>(model.required("num_layers").count(3, 1 << 20));
  const Reader parameters = model.required("parameters");
  if (parameters.exists()) parameters.allow_other_keys();

  RawPoint point;
  for (const Reader& value : per_layer(time.required("layer_compute_total_ms"), layer_count)) {
    point.layers.push_back({value.number(kLeastSeconds, kMaxSeconds) * kMilli, 0.0});
  }
  for (const Reader& value : per_layer(memory.required("layer_memory_total_mb"), layer_count)) {
    point.memory += value.number(0.0, 1e9);
  }
  for (const Reader& value : per_layer(parameters.optional("parameters_per_layer_bytes"), layer_count)) {
    point.parameter_bytes.push_back(value.number(0.0, 1e15));
  }
  point.optimizer = time.optional("optimizer_time_ms").number_or(0.0, 0.0, kMaxSeconds) * kMilli;
  const std::string model_name = model.optional("model_name").text_or(folder_above(file.path, 2));
  if (name.device.empty()) root.fault("neither file name nor folder tells the device type");
  add_point(collected, root, {name.device, model_name}, {name.tensor_parallel, name.samples}, std::move(point));
  collected.profiles[{name.device, model_name}].joint_times = true;
}

// ---- Sailor

int count_key(const Reader& value, const std::string& key, const char* what) {
  const std::optional<int> number = number_in(key);
  if (!number || *number < 1) value.fault(concat('"', key, "\" is not a ", what), "a whole number from 1");
  return number.value_or(1);
}

/// The entries of a map with keys "0", "1", ...: one for each layer, in order.
std::vector<Reader> layer_entries(const Reader& map) {
  std::map<int, Reader> by_index;
  for (const auto& [key, value] : map.entries(3)) {
    const std::optional<int> index = number_in(key);
    if (!index) {
      value.fault(concat('"', key, "\" is not the number of a layer"));
      continue;
    }
    by_index.emplace(*index, value);
  }
  std::vector<Reader> layers;
  for (const auto& [index, value] : by_index) {
    if (index != static_cast<int>(layers.size())) {
      map.fault(concat("layer ", layers.size(), " is missing"), "layers are numbered from 0 without gaps");
      break;
    }
    layers.push_back(value);
  }
  return layers;
}

RawPoint read_sailor_point(const Reader& map) {
  RawPoint point;
  const std::vector<Reader> layers = layer_entries(map);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::vector<Reader> times = layers[i].items(3);
    if (times.size() != 3) {
      if (times.size() > 3) layers[i].fault(concat(times.size(), " times, expected forward, backward and update"));
      continue;
    }
    // The embedding's backward is often given as 0: that is told apart from a layer that takes no time.
    const double least_backward = i == 0 ? 0.0 : kLeastSeconds;
    point.layers.push_back({times[0].number(kLeastSeconds, kMaxSeconds), times[1].number(least_backward, kMaxSeconds)});
    point.optimizer += times[2].number(0.0, kMaxSeconds);
  }
  return point;
}

void read_sailor(const Reader& root, const std::string& device, const std::string& model, Collected& collected) {
  for (const auto& [samples_key, degrees] : root.entries(1)) {
    const int samples = count_key(degrees, samples_key, "micro-batch");
    for (const auto& [degree_key, layers] : degrees.entries(1)) {
      const int degree = count_key(layers, degree_key, "TP degree");
      add_point(collected, layers, {device, model}, {degree, samples}, read_sailor_point(layers));
    }
  }
}

void read_sailor_collection(const Reader& root, Collected& collected) {
  for (const auto& [model, devices] : root.entries(1)) {
    for (const auto& [device, points] : devices.entries(1)) read_sailor(points, device, model, collected);
  }
}

void read_sailor_info(const Reader& root, Collected& collected) {
  for (const auto& [model, degrees] : root.entries(1)) {
    for (const auto& [degree_key, map] : degrees.entries(1)) {
      std::vector<LayerInfo>& layers = collected.info[model][count_key(map, degree_key, "TP degree")];
      for (const Reader& entry : layer_entries(map)) {
        entry.allow_other_keys();
        layers.push_back({entry.required("params_floats").number(0.0, 1e15),
                          entry.required("params_bytes").number(0.0, 1e15),
                          entry.required("act_mem_bytes").number(0.0, 1e15)});
      }
    }
  }
}

// ---- recognition

enum class Layout { Metis, Sailor, SailorCollection, SailorInfo, Galvatron, Unknown };

/// Depth of maps below `reader` along the first entries, and whether the innermost is a map of figures.
struct Nesting {
  int depth = 0;
  bool numeric_keys = false;
  bool has_figures = false;
};

Nesting nesting_of(const Reader& reader) {
  Nesting nesting;
  std::optional<Reader> at = reader;
  while (at && at->kind() == ValueKind::Map) {
    const auto entries = at->entries();
    if (nesting.depth == 0) nesting.numeric_keys = !entries.empty() && number_in(entries.front().first).has_value();
    nesting.has_figures =
        std::any_of(entries.begin(), entries.end(), [](const auto& entry) { return entry.first == "params_floats"; });
    ++nesting.depth;
    at = entries.empty() ? std::nullopt : std::optional<Reader>(entries.front().second);
  }
  return nesting;
}

Layout layout_of(const Reader& root) {
  if (root.kind() != ValueKind::Map) return Layout::Unknown;
  for (const auto& [key, value] : root.entries()) {
    if (key == "execution_time" || key == "execution_memory") return Layout::Metis;
  }
  if (detail::is_galvatron_profile(root)) return Layout::Galvatron;
  const Nesting nesting = nesting_of(root);
  if (nesting.has_figures && nesting.depth == 4) return Layout::SailorInfo;
  if (nesting.numeric_keys && nesting.depth == 3) return Layout::Sailor;
  if (!nesting.numeric_keys && nesting.depth == 5) return Layout::SailorCollection;
  return Layout::Unknown;
}

void read_file(const ImportFile& file, const ImportOptions& options, Collected& collected) {
  if (detail::is_megatron_log(file.text)) {
    collected.megatron_logs.push_back(file);
    return;
  }
  // Layout is told by content; a second parse lets the reader of the layout see every key as unread.
  const Layout layout = layout_of(Document::parse(file.text, file.path).root());
  const Document document = Document::parse(file.text, file.path);
  const Reader root = document.root();
  switch (layout) {
    case Layout::Metis: read_metis(root, file, collected); break;
    case Layout::Sailor: {
      const std::string model = folder_above(file.path, 2);
      const std::string device = options.device.empty() ? folder_above(file.path, 1) : options.device;
      if (device.empty() || (model.empty() && options.model == nullptr)) {
        root.fault("the folders do not tell model and device type", "place the file as MODEL/DEVICE/profile.json");
      }
      read_sailor(root, device, model, collected);
      break;
    }
    case Layout::SailorCollection: read_sailor_collection(root, collected); break;
    case Layout::SailorInfo: read_sailor_info(root, collected); break;
    case Layout::Galvatron: collected.galvatron.push_back(file); return;
    case Layout::Unknown:
      check_kind(document, FileKind::Profile);
      throw InputError(
          Diagnostic{file.path, 1, 1, "", "none of the layouts of profiles that hpplan reads",
                     "known: its own (\"format\": \"hpplan-profile\"), Metis (one file per TP degree and "
                     "micro-batch), Sailor (profile.json), Galvatron (computation_profiling_*.json), training "
                     "logs of Megatron-LM with timers"});
  }
  document.finish();
}

// ---- conversion

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Notes said once each, in the order they came up.
class Notes {
 public:
  void add(const std::string& note) {
    if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(note);
  }
  [[nodiscard]] std::vector<std::string> take() { return std::move(notes_); }

 private:
  std::vector<std::string> notes_;
};

/// Embedding, block and head of one point.
struct ThreeKinds {
  LayerTimes embedding;
  LayerTimes block;
  LayerTimes head;
  std::size_t layer_count = 0;
};

class Converter {
 public:
  Converter(const std::pair<std::string, std::string>& device_and_model, const RawProfile& raw, const ModelInfo* info,
            const ImportOptions& options)
      : raw_(raw), info_(info), options_(options) {
    profile_.device_type = options.device.empty() ? device_and_model.first : options.device;
    profile_.model = options.model == nullptr ? device_and_model.second : options.model->name;
    profile_.file = raw.file;
    profile_.digest = fingerprint(raw.digest_source);
  }

  [[nodiscard]] DeviceProfile convert() {
    profile_.origin = raw_.joint_times ? "imported from Metis files" : "imported from Sailor planner profiles";
    if (raw_.joint_times) {
      notes_.add("the source gives forward and backward together: split as 1 to 2");
      notes_.add(concat("the source does not tell the size of a parameter: taken as ", element_bytes(), " bytes"));
    }
    for (const auto& [key, point] : raw_.points) {
      add(key.first, key.second, point);
      if (!faults_.empty()) break;  // what is wrong with one point is wrong with most
    }
    check_memory_growth();
    set_optimizer();
    set_shape();
    profile_.notes = notes_.take();
    return std::move(profile_);
  }

  [[nodiscard]] const std::vector<Diagnostic>& faults() const { return faults_; }

 private:
  void fault(const Diagnostic& place, const std::string& message, const std::string& hint = "") {
    faults_.push_back({place.file.empty() ? raw_.file : place.file, place.line, place.column, "", message, hint});
  }

  const std::vector<LayerInfo>* info_at(int degree) const {
    if (info_ == nullptr) return nullptr;
    const auto found = info_->find(degree);
    return found == info_->end() ? nullptr : &found->second;
  }

  void add(int degree, int samples, const RawPoint& point) {
    if (const auto* info = info_at(degree); info != nullptr && info->size() != point.layers.size()) {
      fault(point.place,
            concat(point.layers.size(), " layers, but llm_info.json describes the model with ", info->size()),
            "this is the profile of another model");
      return;
    }
    const std::optional<ThreeKinds> kinds = three_kinds(point);
    if (!kinds) return;
    layer_count_ = kinds->layer_count;
    profile_.points["embedding"][degree][samples] = profile_point(kinds->embedding, degree, samples, 0, point);
    profile_.points["block"][degree][samples] = profile_point(kinds->block, degree, samples, 1, point);
    profile_.points["head"][degree][samples] =
        profile_point(kinds->head, degree, samples, point.layers.size() - 1, point);
  }

  std::optional<ThreeKinds> three_kinds(const RawPoint& point) {
    ThreeKinds kinds;
    kinds.embedding = point.layers.front();
    kinds.head = point.layers.back();
    std::vector<LayerTimes> interior(point.layers.begin() + 1, point.layers.end() - 1);
    std::vector<double> sums;
    for (const LayerTimes& layer : interior) sums.push_back(layer.sum());
    if (interior.size() > 2 && interior.back().sum() < kNormShare * median(sums)) {
      notes_.add("the last interior layer is far smaller than the others: read as final norm, part of the head");
      kinds.head.forward += interior.back().forward;
      kinds.head.backward += interior.back().backward;
      interior.pop_back();
      sums.pop_back();
    }
    kinds.layer_count = interior.size() + 2;
    const double middle = median(sums);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (std::abs(sums[i] - middle) <= kInteriorTolerance * middle) continue;
      fault(point.place,
            concat("layer ", i + 1, " takes ", shortest(sums[i]), " s, but most interior layers take ",
                   shortest(middle), " s: one kind of block cannot stand for all"),
            "write a profile in hpplan's own format with one series for each kind");
      return std::nullopt;
    }
    if (interior.size() > 3 && std::equal(sums.begin() + 2, sums.end(), sums.begin() + 1)) {
      notes_.add("interior layers from the second on are one measurement repeated");
    }
    std::vector<double> forward;
    std::vector<double> backward;
    for (const LayerTimes& layer : interior) {
      forward.push_back(layer.forward);
      backward.push_back(layer.backward);
    }
    kinds.block = {median(forward), median(backward)};
    return kinds;
  }

  ProfilePoint profile_point(const LayerTimes& times, int degree, int samples, std::size_t layer, const RawPoint& raw) {
    const bool is_embedding = layer == 0;
    const bool is_head = layer + 1 == raw.layers.size();
    ProfilePoint point;
    point.forward = Seconds{times.forward};
    point.backward = Seconds{times.backward};
    if (raw_.joint_times) {
      point.forward = Seconds{times.forward / 3.0};
      point.backward = Seconds{times.forward} - point.forward;
    } else if (is_embedding && times.backward < kUnmeasuredShare * times.forward) {
      notes_.add("the backward of the embedding is given as about 0: taken as twice its forward");
      point.backward = point.forward * 2.0;
    }
    if (!raw.parameter_bytes.empty()) point.parameters = raw.parameter_bytes[layer] / element_bytes();
    if (const auto* info = info_at(degree)) {
      point.parameters = (*info)[layer].parameters;
      // The head's stored bytes contain the logits, which are workspace here.
      point.known_saved = !is_head;
      if (!is_head) point.saved = Bytes{static_cast<std::int64_t>((*info)[layer].saved_bytes * samples)};
    }
    return point;
  }

  void check_memory_growth() {
    const RawPoint* last = nullptr;
    int last_degree = 0;
    for (const auto& [key, point] : raw_.points) {
      if (last != nullptr && last_degree == key.first && point.memory > 0.0 && point.memory <= last->memory) {
        notes_.add(concat("memory at TP ", key.first, " does not grow with the number of samples"));
      }
      last = &point;
      last_degree = key.first;
    }
  }

  /// Parameters on one device, of all layers; 0 if nothing tells.
  double parameters_at(int degree, const RawPoint& point) const {
    double total = 0.0;
    if (const auto* info = info_at(degree)) {
      for (const LayerInfo& layer : *info) total += layer.parameters;
    } else if (!point.parameter_bytes.empty()) {
      for (const double bytes : point.parameter_bytes) total += bytes / element_bytes();
    } else if (options_.model != nullptr) {
      total = total_parameters(*options_.model) / degree;
    }
    return total;
  }

  void set_optimizer() {
    for (const auto& [key, point] : raw_.points) {
      const auto& [degree, samples] = key;
      if (point.optimizer <= 0.0) {
        notes_.add("the optimizer time is given as 0: treated as not measured");
        continue;
      }
      const double parameters = parameters_at(degree, point);
      if (parameters <= 0.0) {
        notes_.add("the optimizer time is left out: nothing tells the number of parameters");
        continue;
      }
      profile_.optimizer_per_parameter.emplace(degree, Seconds{point.optimizer / parameters});
    }
  }

  void set_shape() {
    profile_.shape.layers = static_cast<int>(layer_count_);
    const auto first = raw_.points.begin();
    if (first->first.first == 1) profile_.shape.parameters = parameters_at(1, first->second);
    if (options_.model == nullptr) return;
    const std::string mismatch = profile_fault(profile_, *options_.model);
    if (!mismatch.empty()) {
      fault({}, concat("does not describe ", options_.model->name, ": ", mismatch), "use the profile of this model");
    }
    if (profile_.shape.layers != options_.model->layer_count()) {
      notes_.add(concat("measured with ", layer_count_, " layers, the model has ", options_.model->layer_count(),
                        ": extended by repeating the interior layer"));
    }
  }

  /// Bytes of a parameter: what the model's count makes of the total, else 4.
  int element_bytes() const {
    if (options_.model == nullptr || raw_.points.empty()) return 4;
    const auto& [key, point] = *raw_.points.begin();
    double bytes = 0.0;
    for (const double each : point.parameter_bytes) bytes += each;
    return bytes * key.first < 3.0 * total_parameters(*options_.model) ? 2 : 4;
  }

  const RawProfile& raw_;
  const ModelInfo* info_;
  const ImportOptions& options_;
  DeviceProfile profile_;
  Notes notes_;
  std::vector<Diagnostic> faults_;
  std::size_t layer_count_ = 0;
};

template <typename Map, typename Key>
auto find_or_null(const Map& map, const Key& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

void append(std::vector<Diagnostic>& all, const std::vector<Diagnostic>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

std::vector<DeviceProfile> import_profiles(const std::vector<ImportFile>& files, const ImportOptions& options) {
  Collected collected;
  std::vector<Diagnostic> faults;
  for (const ImportFile& file : files) {
    try {
      read_file(file, options, collected);
    } catch (const InputError& error) {
      append(faults, error.diagnostics());
    }
    for (auto& [key, raw] : collected.profiles) {
      if (raw.digest_source.empty()) raw.file = file.path;
      if (raw.file == file.path || folder_above(raw.file, 1) == folder_above(file.path, 1))
        raw.digest_source += file.text;
    }
  }
  if (!faults.empty()) throw InputError(faults);
  std::vector<DeviceProfile> profiles;
  for (const auto& [device_and_model, raw] : collected.profiles) {
    Converter converter(device_and_model, raw, find_or_null(collected.info, device_and_model.second), options);
    profiles.push_back(converter.convert());
    append(faults, converter.faults());
  }
  const auto add = [&](const std::vector<ImportFile>& group, const auto& read) {
    if (group.empty()) return;
    try {
      profiles.push_back(read(group, options));
    } catch (const InputError& error) {
      append(faults, error.diagnostics());
    }
  };
  add(collected.galvatron, detail::read_galvatron_profile);
  add(collected.megatron_logs, detail::read_megatron_logs);
  if (!faults.empty()) throw InputError(faults);
  return profiles;
}

}  // namespace hpplan
