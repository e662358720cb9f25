#include "emit/timeline_svg.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/text.hpp"

namespace hpplan {

namespace {

// Pixels.
constexpr double kLeft = 78;
constexpr double kRight = 88;
constexpr double kTop = 74;
constexpr double kBar = 24;
constexpr double kCurve = 22;
constexpr double kRow = kBar + kCurve + 16;
constexpr double kMinWidth = 900;
constexpr double kMaxWidth = 12000;
constexpr double kDigit = 6.6;      // width of a digit of a bar's number
constexpr double kCharacter = 5.9;  // width of a character of the legend, on average

/// Width that a bar needs to carry `number`.
double label_width(int number) { return kDigit * static_cast<double>(std::to_string(number).size()) + 2.0; }

struct Paint {
  const char* fill;          // parts at even places of the device
  const char* lighter_fill;  // at odd places: second chunk or other direction
};

Paint paint_of(OpKind kind) {
  switch (kind) {
    case OpKind::Forward: return {"#3b74b4", "#8db8e3"};
    case OpKind::Backward: return {"#3d8b50", "#93cf9f"};
    case OpKind::BackwardInput: return {"#3d8b50", "#93cf9f"};
    case OpKind::WeightGradient: return {"#d9822b", "#f4bf80"};
    case OpKind::Update: return {"#8a2be2", "#8a2be2"};
  }
  return {"", ""};
}

std::string number(double value) { return fixed(value, 2); }

/// Up to six digits, without zeros at the end: "66", "51.3".
std::string plain(double value) {
  std::string text = significant(value, 6);
  if (text.find('.') == std::string::npos || text.find('e') != std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

/// Text fit for an XML element.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else
      result += c;
  }
  return result;
}

std::string rectangle(double x, double y, double width, double height, const std::string& fill,
                      const std::string& more = "") {
  return concat("<rect x=\"", number(x), "\" y=\"", number(y), "\" width=\"", number(width), "\" height=\"",
                number(height), "\" fill=\"", fill, "\"", more);
}

std::string text_at(double x, double y, const std::string& anchor, const std::string& text,
                    const std::string& more = "") {
  return concat("<text x=\"", number(x), "\" y=\"", number(y), "\" text-anchor=\"", anchor, "\"", more, ">",
                escaped(text), "</text>\n");
}

/// 1, 2 or 5 times a power of ten, so that about `count` steps cover `range`.
double round_step(double range, double count) {
  const double rough = range / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  }
  return 10.0 * power;
}

class Timeline {
 public:
  Timeline(const Schedule& schedule, const Simulation& simulation, double scale, const TimelineFrame& frame)
      : schedule_(schedule), simulation_(simulation), frame_(frame), scale_(scale), end_(frame.end.value()) {
    for (const Seconds end : simulation.last_end) end_ = std::max(end_, end.value());
    if (end_ <= 0.0) end_ = 1.0;
    for (const double peak : simulation.peak_activations) peak_ = std::max(peak_, peak);
    width_ = frame.chart_width > 0.0 ? frame.chart_width : wanted_width();
    place_in_device_.resize(schedule.stages.size(), 0);
    std::vector<int> count(static_cast<std::size_t>(schedule.device_count), 0);
    for (std::size_t s = 0; s < schedule.stages.size(); ++s) {
      place_in_device_[s] = count[static_cast<std::size_t>(schedule.stages[s].device)]++;
    }
  }

  [[nodiscard]] double wanted_width() const { return std::clamp(chart_width(), kMinWidth, kMaxWidth); }

  [[nodiscard]] std::string draw(const std::string& title, const std::string& time_unit) const {
    const double bottom = kTop + kRow * schedule_.device_count;
    const Legend legend = make_legend();
    const double width = std::max(kLeft + width_ + kRight, legend.end);
    std::string svg = concat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", number(width), "\" height=\"",
                             number(bottom + 46), "\" font-family=\"sans-serif\" font-size=\"11\">\n",
                             rectangle(0, 0, width, bottom + 46, "#ffffff", "/>\n"));
    svg += text_at(kLeft, 20, "start", title, " font-size=\"15\" font-weight=\"bold\"");
    svg += text_at(kLeft, 38, "start", figures(time_unit), " fill=\"#444\"");
    svg += legend.svg;
    for (int device = 0; device < schedule_.device_count; ++device) svg += device_row(device);
    return svg + axis(bottom, time_unit) + "</svg>\n";
  }

 private:
  /// Wide enough for a number in the usual op: neither the shortest (an embedding) nor the longest decides.
  [[nodiscard]] double chart_width() const {
    std::vector<double> lengths;
    for (const std::vector<OpTime>& times : simulation_.times) {
      for (const OpTime& time : times) {
        if (time.end > time.start) lengths.push_back((time.end - time.start).value());
      }
    }
    if (lengths.empty()) return kMinWidth;
    const auto quartile = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 4);
    std::nth_element(lengths.begin(), quartile, lengths.end());
    return end_ / *quartile * (label_width(std::max(0, schedule_.micro_batches - 1)) + 3);
  }
  [[nodiscard]] double x_of(double time) const { return kLeft + time / end_ * width_; }

  [[nodiscard]] std::string figures(const std::string& unit) const {
    std::string text = concat("makespan ", plain(simulation_.makespan.value() * scale_), " ", unit, " · span ",
                              plain(simulation_.span.value() * scale_), " ", unit, " · bubble ",
                              fixed(100 * simulation_.bubble_rate, 1), " % of the span");
    return text + concat(" · ", to_text(simulation_.links), " links");
  }

  struct Legend {
    std::string svg;
    double end = 0.0;  // pixels from the left
  };

  [[nodiscard]] Legend make_legend() const {
    bool used[5] = {};
    for (const std::vector<Op>& program : schedule_.programs) {
      for (const Op& op : program) used[static_cast<std::size_t>(op.kind)] = true;
    }
    const std::pair<OpKind, const char*> entries[] = {{OpKind::Forward, "F forward"},
                                                      {OpKind::Backward, "B backward"},
                                                      {OpKind::BackwardInput, "B input gradient"},
                                                      {OpKind::WeightGradient, "W weight gradient"},
                                                      {OpKind::Update, "U update"}};
    std::string svg;
    double x = kLeft;
    const auto add = [&](const std::string& fill, const std::string& more, const std::string& label) {
      svg += rectangle(x, 48, 12, 12, fill, more + "/>\n") + text_at(x + 17, 58, "start", label);
      x += 32 + kCharacter * static_cast<double>(label.size());
    };
    for (const auto& [kind, label] : entries) {
      const bool twice = kind == OpKind::BackwardInput && used[static_cast<std::size_t>(OpKind::Backward)];
      if (used[static_cast<std::size_t>(kind)]) {
        add(paint_of(kind).fill, twice ? " stroke=\"#123\" stroke-dasharray=\"2,1\"" : "", label);
      }
    }
    if (schedule_.stages.size() > static_cast<std::size_t>(schedule_.device_count)) {
      add(paint_of(OpKind::Forward).lighter_fill, "", "paler: another part of the model on the device");
    }
    for (const TimelineTail& tail : frame_.tails) add(tail.fill, "", tail.label);
    add("#e9e9e9", "", "bubble");
    add("#c9b6dd", "", "activations held, in stages; peak at the left");
    return {svg, x};
  }

  [[nodiscard]] std::string device_row(int device) const {
    const std::size_t d = static_cast<std::size_t>(device);
    const double y = kTop + kRow * device;
    std::string svg =
        text_at(kLeft - 8, y + 16, "end", frame_.names.empty() ? concat("device ", device) : frame_.names[d]);
    svg += rectangle(kLeft, y, width_, kBar, "#e9e9e9", "/>\n");
    const std::vector<OpTime>& times = simulation_.times[d];
    for (std::size_t k = 0; k < times.size(); ++k) svg += bar(device, k, y);
    for (const TimelineTail& tail : frame_.tails) {
      svg += rectangle(x_of(tail.start.value()), y, x_of(tail.end.value()) - x_of(tail.start.value()), kBar, tail.fill,
                       ">");
      svg += concat("<title>", tail.label, " ", plain(tail.start.value() * scale_), " to ",
                    plain(tail.end.value() * scale_), "</title></rect>\n");
    }
    const double busy = simulation_.busy[d].value() / end_;
    svg += text_at(kLeft + width_ + 6, y + 16, "start", concat(fixed(100 * busy, 1), " % busy"), " fill=\"#444\"");
    return svg + curve(device, y + kBar + kCurve + 3);
  }

  [[nodiscard]] std::string bar(int device, std::size_t k, double y) const {
    const Op& op = schedule_.program(device)[k];
    const OpTime& time = simulation_.times[static_cast<std::size_t>(device)][k];
    const std::vector<Op>& program = schedule_.program(device);
    const bool odd = place_in_device_[static_cast<std::size_t>(op.stage)] % 2 != 0;
    const Paint paint = paint_of(op.kind);
    const double x = x_of(time.start.value());
    if (op.kind == OpKind::Update) return rectangle(x - 1, y - 3, 2, kBar + 6, paint.fill, "/>\n");
    const double width = x_of(time.end.value()) - x;
    // Joined ops share their time: the upper half is the first, the lower half the second.
    const bool first = op.joined;
    const bool second = k > 0 && program[k - 1].joined;
    const double height = first || second ? kBar / 2 : kBar;
    const double top = second ? y + kBar / 2 : y;
    const bool marked = op.kind == OpKind::BackwardInput;
    std::string svg = rectangle(x, top, width, height, odd ? paint.lighter_fill : paint.fill,
                                marked ? " stroke=\"#123\" stroke-width=\"0.6\" stroke-dasharray=\"2,1\">"
                                       : " stroke=\"#fff\" stroke-width=\"0.6\">");
    svg += concat("<title>", to_text(op), " ", plain(time.start.value() * scale_), " to ",
                  plain(time.end.value() * scale_), "</title></rect>\n");
    if (width >= label_width(op.micro_batch)) {
      const std::string small = height < kBar ? " font-size=\"9\"" : "";
      svg += text_at(x + width / 2, top + height / 2 + 4, "middle", std::to_string(op.micro_batch),
                     concat(" fill=\"", odd ? "#111" : "#fff", "\" pointer-events=\"none\"", small));
    }
    return svg;
  }

  /// Activations held, as a filled step curve on the scale of the device that holds most.
  [[nodiscard]] std::string curve(int device, double base) const {
    if (peak_ <= 0.0) return "";
    std::string points = concat(number(x_of(0)), ",", number(base));
    double level = 0.0;
    double highest = 0.0;
    for (const MemoryPoint& point : memory_curve(schedule_, simulation_, device)) {
      const double x = x_of(point.time.value());
      points += concat(" ", number(x), ",", number(base - level / peak_ * kCurve));
      level = point.activations;
      highest = std::max(highest, level);
      points += concat(" ", number(x), ",", number(base - level / peak_ * kCurve));
    }
    points += concat(" ", number(x_of(end_)), ",", number(base));
    return concat("<polygon points=\"", points, "\" fill=\"#c9b6dd\"/>\n") +
           text_at(kLeft - 8, base - 6, "end", concat("peak ", plain(highest)), " fill=\"#6b4a8e\" font-size=\"10\"");
  }

  [[nodiscard]] std::string axis(double y, const std::string& unit) const {
    std::string svg = rectangle(kLeft, y, width_, 1, "#444", "/>\n");
    const double range = end_ * scale_;
    const double step = round_step(range, width_ / 90.0);
    for (int k = 0; k * step <= range * (1 + 1e-9); ++k) {
      const double x = x_of(k * step / scale_);
      svg += rectangle(x, y, 1, 5, "#444", "/>\n") + text_at(x, y + 17, "middle", plain(k * step));
    }
    return svg + text_at(kLeft + width_ / 2, y + 36, "middle", concat("time (", unit, ")"));
  }

  const Schedule& schedule_;
  const Simulation& simulation_;
  const TimelineFrame& frame_;
  double scale_ = 1.0;
  double end_ = 0.0;
  double peak_ = 0.0;  // of all devices: one scale for all curves
  double width_ = 0.0;
  std::vector<int> place_in_device_;  // of each stage among those of its device
};

}  // namespace

std::string timeline_svg(const Schedule& schedule, const Simulation& simulation, const std::string& title,
                         const std::string& time_unit, double scale, const TimelineFrame& frame) {
  return Timeline(schedule, simulation, scale, frame).draw(title, time_unit);
}

double timeline_width(const Schedule& schedule, const Simulation& simulation, Seconds end) {
  const TimelineFrame frame{end, 0.0, {}, {}};
  return Timeline(schedule, simulation, 1.0, frame).wanted_width();
}

}  // namespace hpplan
