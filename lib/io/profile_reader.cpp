#include "io/profile_reader.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

#include "base/text.hpp"
#include "io/detail/limits.hpp"
#include "io/digest.hpp"
#include "io/document.hpp"

namespace hpplan {

using detail::kLeastSeconds;
using detail::kMaxCount;
using detail::kMaxSeconds;

namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 60;

Seconds layer_time(const Reader& value) { return Seconds{value.number(kLeastSeconds, kMaxSeconds)}; }
Seconds overhead_time(const Reader& value) { return Seconds{value.number(0.0, kMaxSeconds)}; }
Bytes byte_count(const Reader& value) { return Bytes{value.integer(0, kMaxBytes)}; }

/// The elements of `list`, which must have one for each element of "samples".
std::vector<Reader> one_per_sample(const Reader& list, std::size_t sample_count) {
  std::vector<Reader> values = list.items(1);
  if (list.exists() && !values.empty() && values.size() != sample_count) {
    list.fault(concat(values.size(), " values, but \"samples\" has ", sample_count),
               "give one value for each number of samples");
  }
  if (values.size() > sample_count)
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(sample_count), values.end());
  return values;
}

using Points = std::vector<ProfilePoint>;

/// Calls `set(point, value)` for each value of the list `key` of `series`.
void read_list(const Reader& list, Points& points, const std::function<void(ProfilePoint&, const Reader&)>& set) {
  const std::vector<Reader> values = one_per_sample(list, points.size());
  for (std::size_t i = 0; i < values.size(); ++i) set(points[i], values[i]);
}

std::vector<int> read_samples(const Reader& list) {
  std::vector<int> samples;
  for (const Reader& value : list.items(1)) {
    const int count = value.count(1, kMaxCount);
    if (!samples.empty() && count <= samples.back()) value.fault(concat(count, " after ", samples.back()), "sort them");
    samples.push_back(count);
  }
  return samples;
}

void read_operators(const Reader& list, Points& points) {
  std::vector<std::string> names;
  for (const Reader& entry : list.items()) {
    const std::string name = entry.required("name").name();
    if (std::count(names.begin(), names.end(), name) > 0) entry.fault(concat("operator ", name, " is given twice"));
    names.push_back(name);
    for (ProfilePoint& point : points) point.operators.push_back({name, Seconds{}, Bytes{}});
    read_list(entry.required("forward_s"), points,
              [](ProfilePoint& point, const Reader& value) { point.operators.back().forward = layer_time(value); });
    read_list(entry.required("freed_bytes"), points,
              [](ProfilePoint& point, const Reader& value) { point.operators.back().saved = byte_count(value); });
  }
}

bool grows(const Points& points) {
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (points[i].saved <= points[i - 1].saved) return false;
  }
  return true;
}

/// One entry of "series": a layer kind at one TP degree, over numbers of samples.
void read_series(const Reader& series, DeviceProfile& profile) {
  const std::string kind = series.required("kind").name();
  const int degree = series.required("tensor_parallel").count(1, kMaxCount);
  const std::vector<int> samples = read_samples(series.required("samples"));
  Points points(samples.size());
  const auto list = [&](const Reader& values, const std::function<void(ProfilePoint&, const Reader&)>& set) {
    if (!samples.empty()) read_list(values, points, set);
  };
  list(series.required("forward_s"), [](ProfilePoint& p, const Reader& value) { p.forward = layer_time(value); });
  list(series.required("backward_s"), [](ProfilePoint& p, const Reader& value) { p.backward = layer_time(value); });
  list(series.optional("weight_gradient_s"), [](ProfilePoint& p, const Reader& value) {
    p.weight_gradient = overhead_time(value);
    p.known_split = true;
    if (p.weight_gradient > p.backward) {
      value.fault(concat(shortest(p.weight_gradient.value()), " s, but the whole backward takes ",
                         shortest(p.backward.value()), " s"),
                  "backward_s holds both gradients");
    }
  });
  list(series.optional("saved_bytes"), [](ProfilePoint& p, const Reader& value) {
    p.saved = byte_count(value);
    p.known_saved = true;
  });
  const double parameters = series.optional("parameters").number_or(0.0, 0.0, 1e15);
  for (ProfilePoint& point : points) point.parameters = parameters;
  read_operators(series.optional("operators"), points);

  auto& target = profile.points[kind][degree];
  if (!target.empty()) series.fault(concat("a second series of ", kind, " with TP degree ", degree), "join the two");
  for (std::size_t i = 0; i < samples.size(); ++i) target[samples[i]] = points[i];
  if (points.size() > 1 && points.front().known_saved && !grows(points)) {
    profile.notes.push_back(concat("saved bytes of ", kind, " at TP ", degree,
                                   " do not grow with the number of samples: memory checks mean little"));
  }
}

void read_shape(const Reader& shape, DeviceProfile& profile) {
  profile.shape.layers = shape.optional("layers").count_or(0, 3, kMaxCount);
  profile.shape.hidden = shape.optional("hidden").count_or(0, 1);
  profile.shape.heads = shape.optional("heads").count_or(0, 1, kMaxCount);
  profile.shape.sequence = shape.optional("sequence").count_or(0, 1);
  profile.shape.vocabulary = shape.optional("vocabulary").count_or(0, 1);
  profile.shape.parameters = shape.optional("parameters").number_or(0.0, 0.0, 1e15);
  profile.shape.precision = shape.optional("precision").text_or("");
}

void read_basis(const Reader& basis, DeviceProfile& profile) {
  if (!basis.exists()) return;
  ProfileBasis found;
  found.device.name = profile.device_type;
  found.device.memory = byte_count(basis.required("memory_bytes"));
  found.device.peak = FlopPerSecond{basis.required("peak_flop_per_s").number(1.0)};
  found.device.memory_bandwidth = BytesPerSecond{basis.required("memory_bandwidth_bytes_per_s").number(1.0)};
  found.intra_node.bandwidth = BytesPerSecond{basis.required("intra_node_bandwidth_bytes_per_s").number(1.0)};
  found.intra_node.latency = overhead_time(basis.required("intra_node_latency_s"));
  profile.basis = found;
}

void read_optimizer(const Reader& list, DeviceProfile& profile) {
  for (const Reader& entry : list.items()) {
    const int degree = entry.required("tensor_parallel").count(1, kMaxCount);
    const Seconds time = overhead_time(entry.required("seconds_per_parameter"));
    if (!profile.optimizer_per_parameter.emplace(degree, time).second) {
      entry.fault(concat("TP degree ", degree, " is given twice"));
    }
  }
}

void read_links(const Reader& links, DeviceProfile& profile) {
  for (const auto& [name, list] : links.entries()) {
    std::vector<LinkPoint>& curve = profile.links[name];
    for (const Reader& entry : list.items(1)) {
      const Bytes size = byte_count(entry.required("size_bytes"));
      if (!curve.empty() && size <= curve.back().size) entry.fault("sizes do not ascend", "sort them");
      curve.push_back({size, BytesPerSecond{entry.required("bandwidth_bytes_per_s").number(1.0)}});
    }
  }
}

void read_profile(const Reader& root, DeviceProfile& profile) {
  const Reader format = root.required("format");
  if (format.exists() && format.text() != "hpplan-profile") {
    format.fault("not \"hpplan-profile\"", "hpplan profile import reads the formats of other tools");
  }
  (void)root.required("version").count(1, 1);
  profile.device_type = root.required("device").name();
  profile.model = root.required("model").name();
  profile.origin = root.optional("origin").text_or("");
  profile.synthesized = root.optional("synthesized").boolean_or(false);
  read_shape(root.optional("shape"), profile);
  read_basis(root.optional("basis"), profile);
  for (const Reader& note : root.optional("notes").items()) profile.notes.push_back(note.text());
  for (const Reader& series : root.required("series").items(1)) read_series(series, profile);
  read_optimizer(root.optional("optimizer"), profile);
  read_links(root.optional("links"), profile);
}

}  // namespace

bool is_native_profile(const std::string& text) {
  // The writer puts the format first, people might not: any place near the beginning will do.
  return text.substr(0, 2000).find("hpplan-profile") != std::string::npos;
}

DeviceProfile parse_profile(std::string text, const std::string& file) {
  DeviceProfile profile;
  profile.file = file;
  profile.digest = fingerprint(text);
  const Document document = Document::parse(std::move(text), file);
  read_profile(document.root(), profile);
  document.finish();
  return profile;
}

}  // namespace hpplan
