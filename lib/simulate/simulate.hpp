#pragma once

#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace hpplan {

/// What a transfer does to its sender.
///   Asynchronous  the sender goes on at once; the receiver waits for the link
///   Blocking      the sender is held until the transfer is over, as with in-order point-to-point calls
enum class LinkSemantics : std::uint8_t { Asynchronous, Blocking };

[[nodiscard]] const char* to_text(LinkSemantics links);

struct OpTime {
  Seconds start;
  Seconds end;
};

/// One step, run op by op. Lists are per device.
struct Simulation {
  LinkSemantics links = LinkSemantics::Asynchronous;
  Seconds makespan;           // last end minus first start over all devices
  Seconds span;               // greatest last end minus first start of one device: the cost of a step when
                              // steps follow each other without a global barrier
  double bubble_rate = 0.0;   // idle share of the devices over `span`
  double idle_share = 0.0;    // idle share of the devices over `makespan`
  std::vector<Seconds> busy;  // computing
  std::vector<Seconds> first_start;
  std::vector<Seconds> last_end;
  std::vector<int> peak_in_flight;         // stage (or chunk) activations held at once, until the weight gradient
  std::vector<double> peak_activations;    // the same weighted by size, in activations of a whole stage
  std::vector<std::vector<OpTime>> times;  // beside Schedule::programs
};

/// Runs the op lists: an op starts when its device is free and its inputs have arrived. Times are unique, so the
/// order in which devices are visited does not matter.
/// Throws InputError when no device can go on although ops remain; the message names the cycle of waiting ops.
[[nodiscard]] Simulation simulate(const Schedule& schedule, LinkSemantics links = LinkSemantics::Asynchronous);

/// Most messages under way or waiting from device a to device b at one moment, as [a][b]: each needs a slot of its own
/// from the end of the op that sends it to the start of the op that reads it. An executor with at least this many slots
/// per pair, that sends as soon as a result is there, never waits for a free one in this order of ops.
[[nodiscard]] std::vector<std::vector<int>> message_slots(const Schedule& schedule, const Simulation& simulation);

/// A change of the activations held on a device, at `time`: the level from there on, in stage activations.
struct MemoryPoint {
  Seconds time;
  double activations = 0.0;
};

/// Activations held on `device` over time: taken at the start of a forward, given back at the end of the backward,
/// or partly at the end of the input gradient and the rest at the end of the weight gradient.
[[nodiscard]] std::vector<MemoryPoint> memory_curve(const Schedule& schedule, const Simulation& simulation, int device);

/// Weight versions of one model stage, worst and mean over its replicas and micro-batches.
struct VersionReport {
  int drift = 0;  // updates between a micro-batch's forward and backward that its backward sees
  double mean_drift = 0.0;
  int delay = 0;     // updates between the weights that made a gradient and those it is applied to
  int versions = 1;  // weight versions held at once
};

/// Per model stage; follows from the op order alone.
[[nodiscard]] std::vector<VersionReport> version_reports(const Schedule& schedule);

}  // namespace hpplan
