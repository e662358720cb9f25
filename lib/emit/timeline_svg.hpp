#pragma once

#include <string>

#include "simulate/simulate.hpp"

namespace hpplan {

/// A picture of a step that a person can read: a row per device with its ops coloured by kind and numbered by
/// micro-batch, idle time left open, below it the activations held over time, a time axis and a legend.
///   title      shown above, with the step's figures
///   time_unit  written at the axis ("s", "time units")
///   scale      axis figures per unit of the simulation (1000 and "ms" for a simulation in seconds)
[[nodiscard]] std::string timeline_svg(const Schedule& schedule, const Simulation& simulation, const std::string& title,
                                       const std::string& time_unit, double scale = 1.0);

}  // namespace hpplan
