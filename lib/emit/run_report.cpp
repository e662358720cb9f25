#include "emit/run_report.hpp"

#include "base/text.hpp"
#include "emit/json_text.hpp"

namespace hpplan {

namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
Json map_json(const std::vector<std::pair<std::string, Value>>& pairs) {
  Json json = Json::object();
  for (const auto& [name, value] : pairs) json[name] = value;
  return json;
}

Json rejection_json(const Rejection& rejection) {
  Json json{{"reason", to_text(rejection.reason)}, {"text", rejection.text}};
  if (rejection.reason == RejectReason::DeviceMemory) {
    json["needed_bytes"] = rejection.needed.count();
    json["available_bytes"] = rejection.available.count();
  }
  if (rejection.stage >= 0) json["stage"] = rejection.stage;
  return json;
}

}  // namespace

std::string run_report_json(const RunReport& report) {
  Json rejections = Json::array();
  for (const Rejection& rejection : report.rejections) rejections.push_back(rejection_json(rejection));
  return json_text({{"format", "hpplan-report"},
                    {"version", 1},
                    {"feasible", report.feasible},
                    {"proved", report.proved},
                    {"threads", report.threads},
                    {"counts", map_json(report.counts)},
                    {"wall_s", map_json(report.wall_s)},
                    {"iteration_times_s", report.iteration_times_s},
                    {"rejections", std::move(rejections)}});
}

std::string census_text(const std::vector<Rejection>& rejections) {
  std::string out = "no feasible plan\n";
  for (const Rejection& rejection : rejections) {
    const std::string reason = concat(to_text(rejection.reason), ": ");
    out += concat("  ", rejection.text.rfind(reason, 0) == 0 ? "" : reason, rejection.text);
    const Bytes missing = rejection.needed - rejection.available;
    if (rejection.reason == RejectReason::DeviceMemory && missing > Bytes{0}) {
      out += concat(" (", pretty(missing), " too much)");
    }
    out += '\n';
  }
  return out;
}

}  // namespace hpplan
