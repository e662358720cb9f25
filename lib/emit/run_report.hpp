#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "predict/rejection.hpp"

namespace hpplan {

/// What may differ between runs of one problem: how a search went. Never part of a plan.
struct RunReport {
  bool feasible = false;
  bool proved = false;  // optimal within the tolerance
  int threads = 1;
  std::vector<std::pair<std::string, std::int64_t>> counts;  // what the optimisations did
  std::vector<std::pair<std::string, double>> wall_s;        // per phase
  std::vector<double> iteration_times_s;                     // of the plans found, best first
  std::vector<Rejection> rejections;                         // nearest miss of each reason
};

[[nodiscard]] std::string run_report_json(const RunReport& report);

/// Why there is no plan, for people: one line per reason, with what is needed and what there is.
[[nodiscard]] std::string census_text(const std::vector<Rejection>& rejections);

}  // namespace hpplan
