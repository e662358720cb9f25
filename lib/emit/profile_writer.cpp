#include "emit/profile_writer.hpp"

#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "base/text.hpp"

namespace hpplan {

namespace {

using Json = nlohmann::ordered_json;

double finite(double value) {
  check_invariant(std::isfinite(value), "finite numbers in a profile");
  return value;
}

template <typename Value, typename Get>
Json list_of(const std::map<int, ProfilePoint>& series, const Get& get) {
  Json list = Json::array();
  for (const auto& [samples, point] : series) list.push_back(Value{get(point)});
  return list;
}

/// Operators that every point of the series has, in the order of the first point.
Json operators_of(const std::map<int, ProfilePoint>& series) {
  Json list = Json::array();
  const std::vector<ProfilePoint::Operator>& first = series.begin()->second.operators;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto same = [&](const ProfilePoint& point) {
      check_invariant(i < point.operators.size() && point.operators[i].name == first[i].name,
                      "the same operators at every point of a series");
      return point.operators[i];
    };
    Json entry;
    entry["name"] = first[i].name;
    entry["forward_s"] = list_of<double>(series, [&](const auto& p) { return finite(same(p).forward.value()); });
    entry["freed_bytes"] = list_of<std::int64_t>(series, [&](const auto& p) { return same(p).saved.count(); });
    list.push_back(entry);
  }
  return list;
}

Json series_of(const std::string& kind, int tensor_parallel, const std::map<int, ProfilePoint>& series) {
  const ProfilePoint& first = series.begin()->second;
  Json json;
  json["kind"] = kind;
  json["tensor_parallel"] = tensor_parallel;
  json["samples"] = Json::array();
  for (const auto& [samples, point] : series) json["samples"].push_back(samples);
  json["forward_s"] = list_of<double>(series, [](const auto& p) { return finite(p.forward.value()); });
  json["backward_s"] = list_of<double>(series, [](const auto& p) { return finite(p.backward.value()); });
  if (first.known_split) {
    json["weight_gradient_s"] =
        list_of<double>(series, [](const auto& p) { return finite(p.weight_gradient.value()); });
  }
  if (first.known_saved) {
    json["saved_bytes"] = list_of<std::int64_t>(series, [](const auto& p) { return p.saved.count(); });
  }
  if (first.parameters > 0.0) json["parameters"] = finite(first.parameters);
  if (!first.operators.empty()) json["operators"] = operators_of(series);
  return json;
}

Json shape_of(const ProfileShape& shape) {
  Json json = Json::object();
  if (shape.layers > 0) json["layers"] = shape.layers;
  if (shape.hidden > 0) json["hidden"] = shape.hidden;
  if (shape.heads > 0) json["heads"] = shape.heads;
  if (shape.sequence > 0) json["sequence"] = shape.sequence;
  if (shape.vocabulary > 0) json["vocabulary"] = shape.vocabulary;
  if (shape.parameters > 0.0) json["parameters"] = finite(shape.parameters);
  if (!shape.precision.empty()) json["precision"] = shape.precision;
  return json;
}

Json basis_of(const ProfileBasis& basis) {
  Json json;
  json["memory_bytes"] = basis.device.memory.count();
  json["peak_flop_per_s"] = finite(basis.device.peak.value());
  json["memory_bandwidth_bytes_per_s"] = finite(basis.device.memory_bandwidth.value());
  json["intra_node_bandwidth_bytes_per_s"] = finite(basis.intra_node.bandwidth.value());
  json["intra_node_latency_s"] = finite(basis.intra_node.latency.value());
  return json;
}

Json optimizer_of(const std::map<int, Seconds>& times) {
  Json list = Json::array();
  for (const auto& [degree, time] : times) {
    list.push_back({{"tensor_parallel", degree}, {"seconds_per_parameter", finite(time.value())}});
  }
  return list;
}

Json links_of(const std::map<std::string, std::vector<LinkPoint>>& links) {
  Json json = Json::object();
  for (const auto& [name, curve] : links) {
    for (const LinkPoint& point : curve) {
      json[name].push_back(
          {{"size_bytes", point.size.count()}, {"bandwidth_bytes_per_s", finite(point.bandwidth.value())}});
    }
  }
  return json;
}

void append_field(std::string& text, const std::string& key, const Json& value) {
  text += concat(' ', Json(key).dump(), ": ", value.dump(), ",\n");
}

}  // namespace

std::string emit_profile(const DeviceProfile& profile) {
  std::string text = "{\n";
  append_field(text, "format", "hpplan-profile");
  append_field(text, "version", 1);
  append_field(text, "device", profile.device_type);
  append_field(text, "model", profile.model);
  if (!profile.origin.empty()) append_field(text, "origin", profile.origin);
  if (profile.synthesized) append_field(text, "synthesized", true);
  if (!(profile.shape == ProfileShape{})) append_field(text, "shape", shape_of(profile.shape));
  if (profile.basis) append_field(text, "basis", basis_of(*profile.basis));
  if (!profile.notes.empty()) append_field(text, "notes", profile.notes);
  if (!profile.optimizer_per_parameter.empty()) {
    append_field(text, "optimizer", optimizer_of(profile.optimizer_per_parameter));
  }
  if (!profile.links.empty()) append_field(text, "links", links_of(profile.links));
  text += " \"series\": [";
  const char* separator = "\n  ";
  for (const auto& [kind, degrees] : profile.points) {
    for (const auto& [degree, series] : degrees) {
      if (series.empty()) continue;
      text += concat(separator, series_of(kind, degree, series).dump());
      separator = ",\n  ";
    }
  }
  return text + "\n ]\n}\n";
}

}  // namespace hpplan
