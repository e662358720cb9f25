#include "emit/report_json.hpp"

#include "emit/json_text.hpp"

namespace hpplan {

namespace {

nlohmann::ordered_json json_of(const Report& report);

nlohmann::ordered_json json_of(const std::vector<Report>& reports) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Report& report : reports) list.push_back(json_of(report));
  return list;
}

template <typename Plain>
nlohmann::ordered_json json_of(const Plain& value) {
  return value;
}

nlohmann::ordered_json json_of(const Report& report) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [key, value] : report.fields()) {
    object[key] = std::visit([](const auto& plain) { return json_of(plain); }, value);
  }
  return object;
}

}  // namespace

Report& Report::add(std::string key, bool value) {
  fields_.emplace_back(std::move(key), value);
  return *this;
}

Report& Report::add(std::string key, int value) {
  fields_.emplace_back(std::move(key), static_cast<std::int64_t>(value));
  return *this;
}

Report& Report::add(std::string key, std::size_t value) {
  fields_.emplace_back(std::move(key), static_cast<std::int64_t>(value));
  return *this;
}

Report& Report::add(std::string key, double value) {
  fields_.emplace_back(std::move(key), value);
  return *this;
}

Report& Report::add(std::string key, const char* value) { return add(std::move(key), std::string(value)); }

Report& Report::add(std::string key, std::string value) {
  fields_.emplace_back(std::move(key), std::move(value));
  return *this;
}

Report& Report::add(std::string key, std::vector<int> value) {
  fields_.emplace_back(std::move(key), std::move(value));
  return *this;
}

Report& Report::add(std::string key, std::vector<std::string> value) {
  fields_.emplace_back(std::move(key), std::move(value));
  return *this;
}

Report& Report::add(std::string key, std::vector<Report> value) {
  fields_.emplace_back(std::move(key), std::move(value));
  return *this;
}

Report& Report::add(std::string key, Report value) {
  fields_.emplace_back(std::move(key), std::move(value));
  return *this;
}

std::string report_json(const Report& report) { return json_text(json_of(report)); }

}  // namespace hpplan
