#include "io/sweep_reader.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "io/document.hpp"
#include "io/file_kind.hpp"
#include "io/placement_rule_reader.hpp"

namespace hpplan {

namespace {

constexpr std::size_t kMaxPoints = 1'000'000;

/// A value on its way into a point; the later of two settings of one key wins.
struct Setting {
  std::string key;
  Reader value;
};
using Settings = std::vector<Setting>;

std::string value_text(const Reader& value) {
  switch (value.kind()) {
    case ValueKind::Null: return "null";
    case ValueKind::Boolean: return value.boolean() ? "true" : "false";
    case ValueKind::Integer:
      return concat(value.integer(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()));
    case ValueKind::Real: return shortest(value.number());
    case ValueKind::Text: return value.text();
    case ValueKind::List: {
      std::vector<std::string> items;
      for (const Reader& item : value.items()) items.push_back(value_text(item));
      return concat("[", join(items, ", "), "]");
    }
    case ValueKind::Map: break;
  }
  value.fault("a map where a value is wanted", "");
  return "";
}

std::vector<int> counts_of(const Reader& value) {
  std::vector<int> counts;
  if (value.kind() == ValueKind::List) {
    for (const Reader& item : value.items(1)) counts.push_back(item.count(1));
  } else {
    counts.push_back(value.count(1));
  }
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

std::vector<std::string> texts_of(const Reader& value) {
  std::vector<std::string> texts;
  if (value.kind() != ValueKind::List) return {value.name()};
  for (const Reader& item : value.items(1)) texts.push_back(item.name());
  return texts;
}

/// A number, or a list of the least and the greatest allowed.
CountLimit limit_of(const Reader& value) {
  const std::vector<int> counts = counts_of(value);
  if (counts.empty()) return {};
  if (counts.size() > 2) value.fault("a limit is one number, or the least and the greatest", "");
  if (value.kind() == ValueKind::List && value.items().front().count(1) > counts.front()) {
    value.fault(concat("from ", counts.back(), " to ", counts.front()), "the smaller number comes first");
  }
  return {counts.front(), counts.back()};
}

/// One rule, or a list of them, in place of those of this kind that were set before.
void set_rules(RuleKind kind, const Reader& value, SweepPoint& point) {
  std::vector<PlacementRule>& rules = point.job.constraints.placement;
  std::erase_if(rules, [&](const PlacementRule& rule) { return rule.kind == kind; });
  const std::vector<Reader> texts = value.kind() == ValueKind::List ? value.items() : std::vector<Reader>{value};
  for (const Reader& text : texts) {
    const auto parsed = parse_placement_rule(kind, text.text());
    if (const auto* fault = std::get_if<RuleFault>(&parsed)) {
      text.fault(fault->message, fault->hint);
    } else {
      rules.push_back(std::get<PlacementRule>(parsed));
    }
  }
}

using Apply = void (*)(const Reader&, SweepPoint&);

const std::vector<std::pair<std::string, Apply>>& known_settings() {
  static const std::vector<std::pair<std::string, Apply>> settings = {
      {"model", [](const Reader& v, SweepPoint& p) { p.model = v.name(); }},
      {"cluster", [](const Reader& v, SweepPoint& p) { p.cluster = v.name(); }},
      {"profile", [](const Reader& v, SweepPoint& p) { p.profiles = texts_of(v); }},
      {"global_batch", [](const Reader& v, SweepPoint& p) { p.job.global_batch = v.count(1); }},
      {"micro_batch", [](const Reader& v, SweepPoint& p) { p.job.micro_batches = counts_of(v); }},
      {"sequence", [](const Reader& v, SweepPoint& p) { p.sequence = v.count(1, 1 << 24); }},
      {"schedule", [](const Reader& v, SweepPoint& p) { p.job.schedules = texts_of(v); }},
      {"max_drift", [](const Reader& v, SweepPoint& p) { p.job.max_drift = v.count(0); }},
      {"tolerance", [](const Reader& v, SweepPoint& p) { p.job.tolerance = v.number(0.0, 10.0); }},
      {"pipelines", [](const Reader& v, SweepPoint& p) { p.job.constraints.pipelines = limit_of(v); }},
      {"stages", [](const Reader& v, SweepPoint& p) { p.job.constraints.stages = limit_of(v); }},
      {"tensor_parallel", [](const Reader& v, SweepPoint& p) { p.job.constraints.tensor_parallel = counts_of(v); }},
      {"whole_nodes", [](const Reader& v, SweepPoint& p) { p.job.constraints.whole_nodes = v.boolean(); }},
      {"type_pure", [](const Reader& v, SweepPoint& p) { p.job.constraints.type_pure = v.boolean(); }},
      {"forbid", [](const Reader& v, SweepPoint& p) { set_rules(RuleKind::Forbid, v, p); }},
      {"force", [](const Reader& v, SweepPoint& p) { set_rules(RuleKind::Force, v, p); }},
  };
  return settings;
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const auto& known : known_settings()) names.push_back(known.first);
  return names;
}

void check_name(const std::string& key, const Reader& value) {
  const std::vector<std::string> names = setting_names();
  if (std::find(names.begin(), names.end(), key) != names.end()) return;
  const std::string nearest = nearest_name(key.substr(0, 64), names);
  value.fault("unknown setting",
              nearest.empty() ? concat("settings: ", join(names, ", ")) : concat("did you mean \"", nearest, "\"?"));
}

Settings read_settings(const Reader& map) {
  Settings settings;
  if (!map.exists()) return settings;
  for (const auto& [key, value] : map.entries()) {
    check_name(key, value);
    settings.push_back({key, value});
  }
  return settings;
}

/// The product of all lists, the last key varying fastest.
std::vector<Settings> read_grid(const Reader& map) {
  std::vector<Settings> product{{}};
  if (!map.exists()) return product;
  for (const auto& [key, list] : map.entries(1)) {
    check_name(key, list);
    const std::vector<Reader> values = list.items(1);
    if (product.size() * values.size() > kMaxPoints) {
      list.fault(concat("more than ", kMaxPoints, " points"), "");
      return product;
    }
    std::vector<Settings> longer;
    for (const Settings& settings : product) {
      for (const Reader& value : values) {
        longer.push_back(settings);
        longer.back().push_back({key, value});
      }
    }
    product = std::move(longer);
  }
  return product;
}

void merge(Settings& settings, const Settings& more) {
  for (const Setting& setting : more) {
    const auto same =
        std::find_if(settings.begin(), settings.end(), [&](const Setting& s) { return s.key == setting.key; });
    if (same == settings.end()) {
      settings.push_back(setting);
    } else {
      same->value = setting.value;
    }
  }
}

SweepPoint point_of(const Settings& settings, const Reader& root, int index) {
  SweepPoint point;
  point.index = index;
  for (const Setting& setting : settings) {
    for (const auto& [name, apply] : known_settings()) {
      if (name == setting.key) apply(setting.value, point);
    }
    point.settings.emplace_back(setting.key, value_text(setting.value));
  }
  const auto need = [&](const char* key, bool given) {
    if (!given) root.fault(concat("point ", index, " has no ", key), concat("set ", key, " in base, grid or points"));
  };
  if (root.document_ok()) {
    need("model", !point.model.empty());
    need("cluster", !point.cluster.empty());
    need("global_batch", point.job.global_batch > 0);
  }
  return point;
}

using nlohmann::ordered_json;

SweepStatus status_of(const std::string& text) {
  for (const SweepStatus status : {SweepStatus::Planned, SweepStatus::Infeasible, SweepStatus::Broken}) {
    if (text == to_text(status)) return status;
  }
  throw nlohmann::json::other_error::create(501, "status", nullptr);
}

}  // namespace

std::vector<SweepPoint> parse_sweep(std::string text, std::string file) {
  const Document document = Document::parse(std::move(text), std::move(file));
  check_kind(document, FileKind::Sweep);
  const Reader root = document.root();
  if (const Reader name = root.optional("name"); name.exists()) (void)name.name();
  const Settings base = read_settings(root.optional("base"));
  const std::vector<Settings> grid = read_grid(root.optional("grid"));
  const Reader list = root.optional("points");
  std::vector<Settings> singles{{}};
  if (list.exists()) {
    singles.clear();
    for (const Reader& item : list.items(1)) singles.push_back(read_settings(item));
  }
  if (!document.ok()) document.finish();
  if (singles.size() * grid.size() > kMaxPoints) list.fault(concat("more than ", kMaxPoints, " points"), "");
  std::vector<SweepPoint> points;
  for (const Settings& single : singles) {
    for (const Settings& product : grid) {
      if (!document.ok()) break;
      Settings settings = base;
      merge(settings, product);
      merge(settings, single);
      points.push_back(point_of(settings, root, static_cast<int>(points.size())));
    }
  }
  document.finish();
  return points;
}

std::optional<SweepLine> parse_sweep_line(const std::string& line) {
  try {
    const ordered_json json = ordered_json::parse(line);
    SweepLine result;
    result.index = json.at("point").get<int>();
    result.problem = json.at("problem").get<std::string>();
    for (const auto& [key, value] : json.at("settings").items())
      result.settings.emplace_back(key, value.get<std::string>());
    SweepOutcome& outcome = result.outcome;
    outcome.status = status_of(json.at("status").get<std::string>());
    outcome.reason = json.value("reason", "");
    outcome.devices = json.at("devices").get<int>();
    if (outcome.status != SweepStatus::Planned) return result;
    outcome.iteration_time = Seconds{json.at("iteration_time_s").get<double>()};
    outcome.lower_bound = Seconds{json.at("lower_bound_s").get<double>()};
    outcome.samples_per_second = json.at("samples_per_s").get<double>();
    outcome.used_devices = json.at("used_devices").get<int>();
    outcome.pipelines = json.at("pipelines").get<int>();
    outcome.plan = json.at("plan").get<std::string>();
    return result;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::vector<SweepLine> parse_sweep_results(const std::string& text, const std::string& file) {
  std::vector<SweepLine> lines;
  int number = 0;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    if (end == std::string::npos) break;  // torn: the run was stopped while it wrote
    ++number;
    std::optional<SweepLine> line = parse_sweep_line(text.substr(start, end - start));
    if (!line) {
      throw InputError(Diagnostic{file, number, 1, "", "not a line that hpplan sweep wrote",
                                  "remove the line, or give another file"});
    }
    lines.push_back(*std::move(line));
    start = end + 1;
  }
  return lines;
}

std::string sweep_line_text(const SweepLine& line) {
  const SweepOutcome& outcome = line.outcome;
  ordered_json json;
  json["point"] = line.index;
  json["problem"] = line.problem;
  json["settings"] = ordered_json::object();
  for (const auto& [key, value] : line.settings) json["settings"][key] = value;
  json["status"] = to_text(outcome.status);
  if (outcome.status != SweepStatus::Planned) json["reason"] = outcome.reason;
  json["devices"] = outcome.devices;
  if (outcome.status == SweepStatus::Planned) {
    json["iteration_time_s"] = outcome.iteration_time.value();
    json["lower_bound_s"] = outcome.lower_bound.value();
    json["samples_per_s"] = outcome.samples_per_second;
    json["used_devices"] = outcome.used_devices;
    json["pipelines"] = outcome.pipelines;
    json["plan"] = outcome.plan;
  }
  // Texts of other files may hold bytes that are no UTF-8: a line must be written whatever they are.
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace hpplan
