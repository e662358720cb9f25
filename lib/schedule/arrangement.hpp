#pragma once

#include <cstdint>
#include <vector>

namespace hpplan {

/// How a family lays the model over the devices of a pipeline.
enum class Arrangement : std::uint8_t {
  OnePerDevice,  // stage s on device s
  Loop,          // v chunks per device, dealt round robin
  Vee,           // two chunks per device: down, and back up
  TwoWay,        // two replicas of the model in opposite directions
  Ring,          // half as many replicas as devices, around the ring (AMDP)
  Free,          // any contiguous partition, any device for each part (OctoPipe)
};

/// A part of the model: chunk `chunk` of device `device`.
struct PartPlace {
  int device = 0;
  int chunk = 0;

  friend bool operator==(const PartPlace&, const PartPlace&) = default;
};

/// Paths of parts through the devices, each in model order; more than one where replicas of the model run side by side.
/// `chunks` is per device: any number for Loop, else the number of the arrangement. Not for Free, which has no rule.
[[nodiscard]] std::vector<std::vector<PartPlace>> paths_of(Arrangement arrangement, int devices, int chunks);

/// Chunks per device of an arrangement on `devices` devices; 0 where families choose.
[[nodiscard]] int chunks_of(Arrangement arrangement, int devices);

/// Whether the chunks of a device belong to different replicas of the model, so that a micro-batch visits one of them.
[[nodiscard]] bool holds_replicas(Arrangement arrangement);

}  // namespace hpplan
