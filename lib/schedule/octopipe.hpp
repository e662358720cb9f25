#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "schedule/dispatch.hpp"
#include "schedule/request.hpp"

namespace hpplan {

/// What the tuner decides: contiguous stages, the device of each, and how much each device may hold.
struct OctoPlan {
  std::vector<int> first_layer;  // per stage, ascending from 0
  std::vector<int> device;       // per stage
  std::vector<double> cap;       // per device, in activations of one layer; empty: no cap
};

/// What it decides about.
struct OctoProblem {
  std::vector<LayerTime> layers;
  int device_count = 0;
  int micro_batches = 0;
  Seconds link;               // between devices, one way
  double memory_limit = 0.0;  // activations of one layer a device may hold; 0: no limit
  double weight_gradient_memory = 1.0;
  std::vector<std::vector<LayerTime>> device_layers;  // [device][layer] where devices differ; `layers` then is the
                                                      // fastest of each, and the lower bound holds
  double effort = 1.0;                                // share of the usual search
  std::function<bool()> stop;                         // asked now and then; true ends it with the best until then

  [[nodiscard]] const LayerTime& layer_on(int device, int layer) const {
    const auto& own = device_layers.empty() ? layers : device_layers[static_cast<std::size_t>(device)];
    return own[static_cast<std::size_t>(layer)];
  }
};

/// Op lists of a plan by the dispatch rule of OctoPipe (2509.23722): after a backward a device prefers F, then B, then
/// W; otherwise B, F, W. Among B the later stage, then the earlier micro-batch; among F and W the earlier micro-batch,
/// then the earlier stage. A forward waits while it would exceed the cap; one micro-batch of every stage is reserved,
/// so that the first in the chain can always finish.
///   times  if given, receives when each device started first and ended last
[[nodiscard]] Schedule make_octopipe_schedule(const OctoProblem& problem, const OctoPlan& plan,
                                              DispatchTimes* times = nullptr);

/// A time that no partition, placement and order can beat: the devices' share of the work and of the wait for the first
/// layer, the path of one micro-batch through all layers, and the work of the heaviest layer.
[[nodiscard]] Seconds octopipe_lower_bound(const OctoProblem& problem);

/// Partition into `stage_count` stages with the least sum of squared stage times; exact (dynamic programming over
/// prefixes, O(stages * layers^2)), the first of equals.
[[nodiscard]] std::vector<int> balanced_partition(const std::vector<LayerTime>& layers, int stage_count);

/// Searches partition, placement and caps together, guided by where the devices are idle. Does the same work for the
/// same problem, whatever the machine's speed.
[[nodiscard]] OctoPlan tune_octopipe(const OctoProblem& problem);

}  // namespace hpplan
