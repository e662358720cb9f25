#include "emit/sweep_summary.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "base/text.hpp"

namespace hpplan {

namespace {

using Row = std::vector<std::string>;

void sort_by_point(std::vector<SweepLine>& lines) {
  std::stable_sort(lines.begin(), lines.end(),
                   [](const SweepLine& a, const SweepLine& b) { return a.index < b.index; });
}

/// Keys of all settings, in order of first appearance.
std::vector<std::string> setting_keys(const std::vector<SweepLine>& lines) {
  std::vector<std::string> keys;
  for (const SweepLine& line : lines) {
    for (const auto& setting : line.settings) {
      if (std::find(keys.begin(), keys.end(), setting.first) == keys.end()) keys.push_back(setting.first);
    }
  }
  return keys;
}

std::string setting(const SweepLine& line, const std::string& key) {
  for (const auto& [name, value] : line.settings) {
    if (name == key) return value;
  }
  return "";
}

/// Settings that do not have the same value everywhere.
std::vector<std::string> varied_keys(const std::vector<SweepLine>& lines) {
  std::vector<std::string> varied;
  for (const std::string& key : setting_keys(lines)) {
    const auto differs = [&](const SweepLine& line) { return setting(line, key) != setting(lines.front(), key); };
    if (std::any_of(lines.begin(), lines.end(), differs)) varied.push_back(key);
  }
  return varied;
}

double gap_percent(const SweepOutcome& outcome) {
  return 100.0 * (outcome.iteration_time.value() / outcome.lower_bound.value() - 1.0);
}

std::string aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text.append(widths[i] - row[i].size() + 2, ' ');
    }
    text += "\n";
  }
  return text;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::string xml_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      default: escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return escaped;
}

/// Best time by number of devices.
using Curve = std::map<int, double>;

/// A cluster without its size: "b2-b4" of "b2-b4-64", whose 64 devices are the axis.
std::string cluster_family(const SweepLine& line) {
  const std::string name = setting(line, "cluster");
  const std::string size = concat("-", line.outcome.devices);
  return name.ends_with(size) ? name.substr(0, name.size() - size.size()) : name;
}

/// Whether the number of devices leaves open which cluster a line is about.
bool clusters_of_one_size(const std::vector<SweepLine>& lines) {
  std::map<int, std::set<std::string>> clusters;
  for (const SweepLine& line : lines) clusters[line.outcome.devices].insert(setting(line, "cluster"));
  return std::any_of(clusters.begin(), clusters.end(), [](const auto& entry) { return entry.second.size() > 1; });
}

std::map<std::string, Curve> curves_of(const std::vector<SweepLine>& lines) {
  std::vector<std::string> keys = varied_keys(lines);
  std::erase(keys, "cluster");
  const bool same_size = clusters_of_one_size(lines);
  std::map<std::string, Curve> curves;
  for (const SweepLine& line : lines) {
    if (line.outcome.status != SweepStatus::Planned) continue;
    std::vector<std::string> words;
    for (const std::string& key : keys)
      words.push_back(key == "model" ? setting(line, key) : concat(key, " ", setting(line, key)));
    if (same_size) words.push_back("on " + cluster_family(line));
    const std::string name = words.empty() ? setting(line, "model") : join(words, ", ");
    const double time = line.outcome.iteration_time.value();
    const auto [best, is_new] = curves[name].emplace(line.outcome.devices, time);
    if (!is_new) best->second = std::min(best->second, time);
  }
  return curves;
}

/// "0.5", "20": a round number without zeros at the end.
std::string tick_text(double value) {
  std::string text = fixed(value, 6);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

/// Places values on an axis by their logarithm.
class LogAxis {
 public:
  LogAxis(double low, double high, double from, double to)
      : low_(std::log2(low)), high_(std::log2(high)), from_(from), to_(to) {
    if (high_ - low_ < 1.0) {  // nearly one value: in the middle
      const double middle = (low_ + high_) / 2.0;
      low_ = middle - 0.5;
      high_ = middle + 0.5;
    }
  }
  [[nodiscard]] double at(double value) const {
    return from_ + (std::log2(value) - low_) / (high_ - low_) * (to_ - from_);
  }
  /// Powers of two inside the axis.
  [[nodiscard]] std::vector<double> powers_of_two() const {
    std::vector<double> values;
    for (int power = static_cast<int>(std::ceil(low_)); power <= static_cast<int>(std::floor(high_)); ++power)
      values.push_back(std::exp2(power));
    return values;
  }
  /// Round decimal numbers inside the axis: at least three of them where there are as many.
  [[nodiscard]] std::vector<double> decimals() const {
    static const std::vector<double> kFactors[] = {{1}, {1, 2, 5}, {1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9}};
    std::vector<double> values;
    for (const std::vector<double>& factors : kFactors) {
      values.clear();
      const int first = static_cast<int>(std::floor(low_ * std::log10(2.0)));
      const int last = static_cast<int>(std::floor(high_ * std::log10(2.0)));
      for (int power = first; power <= last; ++power) {
        for (const double factor : factors) {
          const double value = factor * std::pow(10.0, power);
          if (std::log2(value) >= low_ && std::log2(value) <= high_) values.push_back(value);
        }
      }
      if (values.size() >= 3) break;
    }
    return values;
  }

 private:
  double low_, high_, from_, to_;
};

constexpr std::array<const char*, 8> kColours{"#1b6ca8", "#c8553d", "#3c8d53", "#8a5aa8",
                                              "#b58900", "#2aa198", "#6c6c6c", "#d33682"};
constexpr double kPlotLeft = 70.0;
constexpr double kPlotTop = 44.0;
constexpr double kPlotRight = 560.0;
constexpr double kPlotBottom = 364.0;
constexpr double kLegendCharacter = 6.8;  // width of a character of the legend, at most

std::string axes_text(const LogAxis& x, const LogAxis& y) {
  std::string text;
  for (const double tick : x.powers_of_two()) {
    text += concat("<line class=\"grid\" x1=\"", fixed(x.at(tick), 1), "\" x2=\"", fixed(x.at(tick), 1), "\" y1=\"",
                   kPlotTop, "\" y2=\"", kPlotBottom, "\"/><text x=\"", fixed(x.at(tick), 1), "\" y=\"",
                   kPlotBottom + 18.0, "\" text-anchor=\"middle\">", shortest(tick), "</text>\n");
  }
  for (const double tick : y.decimals()) {
    text += concat("<line class=\"grid\" x1=\"", kPlotLeft, "\" x2=\"", kPlotRight, "\" y1=\"", fixed(y.at(tick), 1),
                   "\" y2=\"", fixed(y.at(tick), 1), "\"/><text x=\"", kPlotLeft - 8.0, "\" y=\"",
                   fixed(y.at(tick) + 4.0, 1), "\" text-anchor=\"end\">", tick_text(tick), "</text>\n");
  }
  text += concat("<text x=\"", (kPlotLeft + kPlotRight) / 2.0, "\" y=\"", kPlotBottom + 40.0,
                 "\" text-anchor=\"middle\">devices</text>\n");
  text += concat("<text x=\"16\" y=\"", (kPlotTop + kPlotBottom) / 2.0,
                 "\" text-anchor=\"middle\" transform=\"rotate(-90 16 ", (kPlotTop + kPlotBottom) / 2.0,
                 ")\">iteration time (s)</text>\n");
  return text;
}

/// A round mark; square where the colours start again.
std::string mark_text(double x, double y, std::size_t number, const std::string& content) {
  const char* const colour = kColours[number % kColours.size()];
  if (number / kColours.size() % 2 == 0) {
    return concat("<circle cx=\"", fixed(x, 1), "\" cy=\"", fixed(y, 1), "\" r=\"4\" fill=\"", colour, "\">", content,
                  "</circle>\n");
  }
  return concat("<rect x=\"", fixed(x - 4.0, 1), "\" y=\"", fixed(y - 4.0, 1), "\" width=\"8\" height=\"8\" fill=\"",
                colour, "\">", content, "</rect>\n");
}

std::string curve_text(const std::string& name, const Curve& curve, std::size_t number, const LogAxis& x,
                       const LogAxis& y) {
  const char* const colour = kColours[number % kColours.size()];
  std::string points;
  std::string marks;
  for (const auto& [devices, time] : curve) {
    points += concat(points.empty() ? "" : " ", fixed(x.at(devices), 1), ",", fixed(y.at(time), 1));
    marks +=
        mark_text(x.at(devices), y.at(time), number,
                  concat("<title>", xml_text(name), ": ", devices, " devices, ", pretty(Seconds{time}), "</title>"));
  }
  const double row = kPlotTop + 10.0 + 18.0 * static_cast<double>(number);
  return concat("<polyline fill=\"none\" stroke=\"", colour, "\" stroke-width=\"1.5\" points=\"", points, "\"/>\n",
                marks, mark_text(kPlotRight + 19.0, row - 4.0, number, ""), "<text x=\"", kPlotRight + 30.0, "\" y=\"",
                row, "\">", xml_text(name), "</text>\n");
}

}  // namespace

std::string sweep_table(std::vector<SweepLine> lines) {
  if (lines.empty()) return "no results\n";
  sort_by_point(lines);
  std::vector<std::string> keys = varied_keys(lines);
  if (keys.empty()) keys = {"model", "cluster"};
  Row header{"point"};
  header.insert(header.end(), keys.begin(), keys.end());
  for (const char* title : {"status", "time", "samples/s", "gap", "devices", "plan"}) header.emplace_back(title);
  std::vector<Row> rows{header};
  for (const SweepLine& line : lines) {
    const SweepOutcome& outcome = line.outcome;
    Row row{concat(line.index)};
    for (const std::string& key : keys) row.push_back(setting(line, key));
    row.emplace_back(to_text(outcome.status));
    if (outcome.status == SweepStatus::Planned) {
      row.push_back(pretty(outcome.iteration_time));
      row.push_back(significant(outcome.samples_per_second, 4));
      row.push_back(fixed(gap_percent(outcome), 1) + " %");
      row.push_back(concat(outcome.used_devices, "/", outcome.devices));
      row.push_back(outcome.plan);
    } else {
      row.insert(row.end(), {"", "", "", concat(outcome.devices), outcome.reason.substr(0, outcome.reason.find('\n'))});
    }
    rows.push_back(std::move(row));
  }
  return aligned(rows);
}

std::string sweep_csv(std::vector<SweepLine> lines) {
  sort_by_point(lines);
  const std::vector<std::string> keys = setting_keys(lines);
  Row header{"point"};
  header.insert(header.end(), keys.begin(), keys.end());
  for (const char* title : {"status", "reason", "iteration_time_s", "lower_bound_s", "samples_per_s", "devices",
                            "used_devices", "pipelines", "plan"}) {
    header.emplace_back(title);
  }
  std::string text = join(header, ",") + "\r\n";
  for (const SweepLine& line : lines) {
    const SweepOutcome& outcome = line.outcome;
    const bool planned = outcome.status == SweepStatus::Planned;
    const auto number = [&](double value) { return planned ? shortest(value) : std::string(); };
    Row row{concat(line.index)};
    for (const std::string& key : keys) row.push_back(csv_cell(setting(line, key)));
    row.insert(row.end(),
               {to_text(outcome.status), csv_cell(outcome.reason), number(outcome.iteration_time.value()),
                number(outcome.lower_bound.value()), number(outcome.samples_per_second), concat(outcome.devices),
                number(outcome.used_devices), number(outcome.pipelines), csv_cell(outcome.plan)});
    text += join(row, ",") + "\r\n";
  }
  return text;
}

std::string sweep_svg(std::vector<SweepLine> lines) {
  sort_by_point(lines);
  const std::map<std::string, Curve> curves = curves_of(lines);
  const double height = std::max(kPlotBottom + 50.0, kPlotTop + 20.0 + 18.0 * static_cast<double>(curves.size()));
  std::size_t longest = 0;
  for (const auto& [name, curve] : curves) longest = std::max(longest, name.size());
  const double width = std::max(640.0, kPlotRight + 40.0 + kLegendCharacter * static_cast<double>(longest));
  std::string text = concat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", height,
                            "\" viewBox=\"0 0 ", width, " ", height,
                            "\" font-family=\"sans-serif\" font-size=\"12\">\n<style>.grid{stroke:#ddd}</style>\n"
                            "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
  if (curves.empty()) return text + "<text x=\"20\" y=\"30\">no plan in these results</text>\n</svg>\n";
  const auto planned = std::count_if(lines.begin(), lines.end(),
                                     [](const SweepLine& line) { return line.outcome.status == SweepStatus::Planned; });
  text += concat("<text x=\"", kPlotLeft, "\" y=\"18\" font-size=\"14\" font-weight=\"bold\">Iteration time of ",
                 planned, " plans</text>\n<text x=\"", kPlotLeft,
                 "\" y=\"34\" fill=\"#444\">both axes logarithmic; the fastest where several plans meet",
                 static_cast<std::size_t>(planned) == lines.size()
                     ? ""
                     : concat("; ", lines.size() - static_cast<std::size_t>(planned), " points without a plan"),
                 "</text>\n");
  double least_time = HUGE_VAL;
  double most_time = 0.0;
  int least_devices = 1 << 30;
  int most_devices = 0;
  for (const auto& [name, curve] : curves) {
    for (const auto& [devices, time] : curve) {
      least_time = std::min(least_time, time);
      most_time = std::max(most_time, time);
      least_devices = std::min(least_devices, devices);
      most_devices = std::max(most_devices, devices);
    }
  }
  const LogAxis x(least_devices, most_devices, kPlotLeft + 20.0, kPlotRight - 20.0);
  const LogAxis y(least_time, most_time, kPlotBottom - 20.0, kPlotTop + 20.0);
  text += axes_text(x, y);
  std::size_t number = 0;
  for (const auto& [name, curve] : curves) text += curve_text(name, curve, number++, x, y);
  return text + "</svg>\n";
}

}  // namespace hpplan
