#pragma once

#include <vector>

#include "base/units.hpp"
#include "domain/cluster.hpp"
#include "domain/model.hpp"
#include "domain/operators.hpp"

namespace hpplan {

/// Where a modelled layer runs: one device of a TP group and the link that joins the group.
struct DeviceSetting {
  const ModelSpec& model;
  const DeviceType& type;
  const Link& link;
  int tensor_parallel = 1;
};

/// Time of one operator; `weight_gradient` is the part of `backward` that makes weight gradients.
struct OperatorTime {
  Seconds forward;
  Seconds backward;
  Seconds weight_gradient;
  Seconds forward_compute;  // forward without its all-reduce: what recomputing the operator alone costs
};

/// Roofline time of one matrix product whose shape fills the device only partly:
///   2 count (rows + c)(columns + c)(inner + c) / (peak * share)
/// Every dimension is charged c extra elements for tiles that are not full, so the time grows with every dimension,
/// and efficiency rises smoothly to `share`. Source: fitted to single-operator measurements; see the .cpp.
[[nodiscard]] Seconds matmul_time(const Matmul& matmul, FlopPerSecond peak);

/// Peak rate of the model's precision: 4-byte matrices run at half the 16-bit rate (TF32 on current devices).
[[nodiscard]] FlopPerSecond matrix_peak(const ModelSpec& model, const DeviceType& type);

/// Time of a ring all-reduce of `size` bytes over `group` devices of one link.
/// Model: 2 (n-1)/n of the payload at the link's bandwidth plus 2 (n-1) latencies.
/// Source: Patarasuk & Yuan 2009 (bandwidth-optimal all-reduce).
[[nodiscard]] Seconds tensor_all_reduce_time(Bytes size, int group, const Link& link);

/// Time of `cost` in the given setting: the slower of matrix work and memory traffic, a launch, and the all-reduce.
[[nodiscard]] OperatorTime operator_time(const OperatorCost& cost, const DeviceSetting& setting);

/// A layer as modelled: its operators and their times, in execution order.
struct ModelledLayer {
  std::vector<OperatorCost> operators;
  std::vector<OperatorTime> times;
  OperatorTime total;
  Bytes saved;
};

[[nodiscard]] ModelledLayer model_layer(const DeviceSetting& setting, const LayerKind& kind, int samples);

}  // namespace hpplan
