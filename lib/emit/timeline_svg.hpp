#pragma once

#include <string>
#include <vector>

#include "simulate/simulate.hpp"

namespace hpplan {

/// Something that all devices do after the ops: the gradient All-Reduce, the optimizer.
struct TimelineTail {
  Seconds start;
  Seconds end;
  std::string label;
  std::string fill;
};

/// What a picture shares with others below it, so that one time is one place in all of them.
struct TimelineFrame {
  Seconds end;               // end of the axis; 0: the last op
  double chart_width = 0.0;  // pixels; 0: wide enough for the ops
  std::vector<TimelineTail> tails;
  std::vector<std::string> names;  // of the devices; empty: "device 0", ..
};

/// Pixels that the ops of a step need to be read.
[[nodiscard]] double timeline_width(const Schedule& schedule, const Simulation& simulation, Seconds end);

/// A picture of a step that a person can read: a row per device with its ops coloured by kind and numbered by
/// micro-batch, idle time left open, below it the activations held over time, a time axis and a legend.
///   title      shown above, with the step's figures
///   time_unit  written at the axis ("s", "time units")
///   scale      axis figures per unit of the simulation (1000 and "ms" for a simulation in seconds)
[[nodiscard]] std::string timeline_svg(const Schedule& schedule, const Simulation& simulation, const std::string& title,
                                       const std::string& time_unit, double scale = 1.0,
                                       const TimelineFrame& frame = {});

}  // namespace hpplan
