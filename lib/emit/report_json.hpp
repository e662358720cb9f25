#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace hpplan {

/// A report of a verb as JSON: keys in the order in which they were added.
class Report {
 public:
  using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<int>, std::vector<std::string>,
                             std::vector<Report>, Report>;

  Report& add(std::string key, bool value);
  Report& add(std::string key, int value);
  Report& add(std::string key, std::size_t value);
  Report& add(std::string key, double value);
  Report& add(std::string key, const char* value);
  Report& add(std::string key, std::string value);
  Report& add(std::string key, std::vector<int> value);
  Report& add(std::string key, std::vector<std::string> value);
  Report& add(std::string key, std::vector<Report> value);
  Report& add(std::string key, Report value);

  [[nodiscard]] const std::vector<std::pair<std::string, Value>>& fields() const { return fields_; }

 private:
  std::vector<std::pair<std::string, Value>> fields_;
};

/// The report as one JSON object that ends with a newline.
[[nodiscard]] std::string report_json(const Report& report);

}  // namespace hpplan
