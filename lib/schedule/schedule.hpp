#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/range.hpp"
#include "schedule/stage_time.hpp"

namespace hpplan {

/// What a device does in one piece.
enum class OpKind : std::uint8_t {
  Forward,
  Backward,       // whole: input and weight gradients in one
  BackwardInput,  // input gradient alone; a WeightGradient follows
  WeightGradient,
  Update,  // optimizer step of one stage; takes no time here, separates weight versions
};

/// One op of a device's list. `stage` is an index into Schedule::stages.
struct Op {
  OpKind kind = OpKind::Forward;
  bool joined = false;   // starts and ends together with the next op of the list (overlapped forward and backward)
  int micro_batch = -1;  // -1 for updates
  int stage = 0;

  friend bool operator==(const Op&, const Op&) = default;
};

/// A part of the model on a device. A device may hold several: chunks of one pipeline, or stages of several replicas.
/// Every stage belongs to one path from the first layers to the last, linked by `previous` and `next`.
struct PlacedStage {
  int device = 0;
  int model_stage = 0;      // place in the model; replicas of a stage share it
  int previous = -1;        // the stage that feeds this one; -1 for the first
  int next = -1;            // -1 for the last
  StageTime time;           // its link counts only when `next` is on another device
  double activation = 1.0;  // what one micro-batch keeps here, in activations of a whole stage
  LayerRange layers;        // of families that partition the layers themselves; empty otherwise
};

/// Which weights a backward uses when updates happen while micro-batches are in flight.
enum class WeightVersions : std::uint8_t {
  Synchronous,  // no update while a micro-batch is in flight
  Latest,       // one copy: forward and backward may see different versions
  Stashed,      // every micro-batch keeps the version of its forward
  DoubleBuffered,
};

/// How in-flight activations are counted: the unit in which the literature states a family's peak.
enum class InFlightUnit : std::uint8_t { Stage, Chunk };

/// The op order of every device, and where the parts of the model are. All else (times, peaks, bubbles, pictures,
/// executor files) is derived from it.
struct Schedule {
  std::string family;
  int device_count = 0;
  int model_stage_count = 0;
  int micro_batches = 0;
  bool splits_backward = false;
  WeightVersions versions = WeightVersions::Synchronous;
  InFlightUnit unit = InFlightUnit::Stage;
  int accumulation = 0;                 // asynchronous families: micro-batches per update and stage
  double weight_gradient_memory = 1.0;  // share of a stage's activation kept from input to weight gradient
  double joined_time = 1.0;             // time of joined ops over the sum of their times
  std::vector<PlacedStage> stages;
  std::vector<std::vector<Op>> programs;  // per device, in execution order
  Seconds lower_bound;                    // of families that search: what no plan of theirs can beat; 0 otherwise
  std::vector<std::string> notes;

  [[nodiscard]] const PlacedStage& stage(int index) const { return stages[static_cast<std::size_t>(index)]; }
  [[nodiscard]] const std::vector<Op>& program(int device) const { return programs[static_cast<std::size_t>(device)]; }
};

/// Time of `kind` on a stage.
[[nodiscard]] Seconds op_time(OpKind kind, const StageTime& time);

/// "F3@2": the op's letter (F, B, I for an input gradient, W, U), micro-batch and stage.
[[nodiscard]] std::string to_text(const Op& op);

/// Delay from a stage to its neighbour on the path: its link, or nothing when both are on one device.
[[nodiscard]] Seconds link_between(const Schedule& schedule, int from, int to);

/// What is wrong with the op lists ("F3@2 runs twice"), or "" when every micro-batch passes its whole path: each
/// forward once, and after it one whole backward, or an input gradient and after that its weight gradient.
[[nodiscard]] std::string fault_of(const Schedule& schedule);

}  // namespace hpplan
