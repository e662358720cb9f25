#include "emit/schedule_report.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <sstream>

#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace hpplan {

namespace {

using Json = nlohmann::ordered_json;

Json values(const std::vector<Seconds>& times) {
  Json list = Json::array();
  for (const Seconds time : times) list.push_back(time.value());
  return list;
}

/// Without zeros at the end.
std::string plain(double value, int digits) {
  std::string text = significant(value, digits);
  if (text.find('.') == std::string::npos || text.find('e') != std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

const char* to_text(WeightVersions versions) {
  switch (versions) {
    case WeightVersions::Synchronous: return "synchronous";
    case WeightVersions::Latest: return "latest";
    case WeightVersions::Stashed: return "stashed";
    case WeightVersions::DoubleBuffered: return "double-buffered";
  }
  return "";
}

/// Peaks in the unit in which the family's literature states them: chunks for interleaved, else whole stages, of which
/// a half stage is a half and what waits for its weight gradient may be a part.
Json peaks(const Schedule& schedule, const Simulation& simulation) {
  if (schedule.unit == InFlightUnit::Chunk) return simulation.peak_in_flight;
  Json list = Json::array();
  for (const double held : simulation.peak_activations) {
    const double rounded = std::round(held * 1e9) / 1e9;  // sums of shares
    list.push_back(rounded == std::floor(rounded) ? Json(static_cast<std::int64_t>(rounded)) : Json(rounded));
  }
  return list;
}

void add_versions(Json& json, const Schedule& schedule) {
  if (schedule.versions == WeightVersions::Synchronous) return;
  Json drift = Json::array();
  Json mean = Json::array();
  Json delay = Json::array();
  Json versions = Json::array();
  for (const VersionReport& report : version_reports(schedule)) {
    drift.push_back(report.drift);
    mean.push_back(report.mean_drift);
    delay.push_back(report.delay);
    versions.push_back(report.versions);
  }
  json["weights"] = to_text(schedule.versions);
  json["micro_batches_per_update"] = schedule.accumulation;
  json["drift"] = drift;
  json["mean_drift"] = mean;
  json["gradient_delay"] = delay;
  json["weight_versions"] = versions;
}

/// What an executor needs to run a searched plan: which layers are where, the order of ops on each device, and how many
/// message slots a pair of devices needs.
void add_search_result(Json& json, const Schedule& schedule, const Simulation& simulation) {
  if (schedule.lower_bound <= Seconds{}) return;
  json["lower_bound"] = schedule.lower_bound.value();
  json["gap"] = simulation.makespan / schedule.lower_bound - 1.0;
  Json partition = Json::array();
  Json placement = Json(std::vector<std::vector<int>>(static_cast<std::size_t>(schedule.device_count)));
  for (std::size_t s = 0; s < schedule.stages.size(); ++s) {
    const PlacedStage& stage = schedule.stages[s];
    partition.push_back({stage.layers.first, stage.layers.last});
    placement[static_cast<std::size_t>(stage.device)].push_back(s);
  }
  json["partition"] = partition;
  json["placement"] = placement;
  Json programs = Json::array();
  for (const std::vector<Op>& program : schedule.programs) {
    Json list = Json::array();
    for (const Op& op : program) list.push_back(to_text(op));
    programs.push_back(list);
  }
  json["programs"] = programs;
  json["message_slots"] = message_slots(schedule, simulation);
}

}  // namespace

std::string schedule_json(const Schedule& schedule, const Simulation& simulation) {
  Json json;
  json["family"] = schedule.family;
  json["stages"] = schedule.model_stage_count;
  json["devices"] = schedule.device_count;
  json["micro_batches"] = schedule.micro_batches;
  json["links"] = hpplan::to_text(simulation.links);
  json["makespan"] = simulation.makespan.value();
  json["span"] = simulation.span.value();
  json["bubble_rate"] = simulation.bubble_rate;
  json["makespan_bubble_rate"] = simulation.idle_share;
  json["busy"] = values(simulation.busy);
  json["first_start"] = values(simulation.first_start);
  json["last_end"] = values(simulation.last_end);
  json["peak_in_flight"] = peaks(schedule, simulation);
  json["in_flight_unit"] = schedule.unit == InFlightUnit::Chunk ? "chunk" : "stage";
  json["peak_activations"] = simulation.peak_activations;
  add_versions(json, schedule);
  add_search_result(json, schedule, simulation);
  if (!schedule.notes.empty()) json["notes"] = schedule.notes;
  return json.dump(2) + "\n";
}

std::string schedule_text(const Schedule& schedule, const Simulation& simulation) {
  std::ostringstream out;
  out << schedule.family << ": " << schedule.model_stage_count << " stages on " << schedule.device_count << " devices, "
      << schedule.micro_batches << " micro-batches, " << hpplan::to_text(simulation.links) << " links\n"
      << "  makespan     " << plain(simulation.makespan.value(), 7) << '\n'
      << "  span         " << plain(simulation.span.value(), 7) << '\n'
      << "  bubble rate  " << fixed(simulation.bubble_rate, 4) << " of the span, " << fixed(simulation.idle_share, 4)
      << " of the makespan\n\n"
      << "  device        busy    idle      end    peak activations\n";
  for (int device = 0; device < schedule.device_count; ++device) {
    const std::size_t d = static_cast<std::size_t>(device);
    out << std::setw(8) << device << std::setw(12) << plain(simulation.busy[d].value(), 6) << std::setw(8)
        << plain((simulation.makespan - simulation.busy[d]).value(), 4) << std::setw(9)
        << plain(simulation.last_end[d].value(), 6) << std::setw(12) << plain(simulation.peak_activations[d], 4)
        << '\n';
  }
  if (schedule.lower_bound > Seconds{}) {
    out << "\n  lower bound  " << plain(schedule.lower_bound.value(), 7) << ", at most "
        << percent(simulation.makespan / schedule.lower_bound - 1.0, 2) << " above\n";
    for (std::size_t s = 0; s < schedule.stages.size(); ++s) {
      const PlacedStage& stage = schedule.stages[s];
      out << "  stage " << s << ": layers " << stage.layers.first << " to " << stage.layers.last - 1 << " on device "
          << stage.device << '\n';
    }
  }
  if (schedule.versions != WeightVersions::Synchronous) {
    out << "\n  stage   drift  mean   delay  weight versions\n";
    int stage = 0;
    for (const VersionReport& report : version_reports(schedule)) {
      out << std::setw(7) << stage++ << std::setw(8) << report.drift << std::setw(7) << fixed(report.mean_drift, 2)
          << std::setw(7) << report.delay << std::setw(12) << report.versions << '\n';
    }
  }
  for (const std::string& note : schedule.notes) out << "  note: " << note << '\n';
  return out.str();
}

}  // namespace hpplan
