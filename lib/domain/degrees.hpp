#pragma once

#include <string>

namespace hpplan {

/// A rule of parallel training that numbers break, and numbers near by that keep it. Empty message: nothing is broken.
struct DegreeFault {
  std::string message;
  std::string hint;

  explicit operator bool() const { return !message.empty(); }
};

/// The global batch is cut into whole micro-batches: global_batch / (micro_batch * data_parallel) is a whole number of
/// at least 1.
///   micro_batch     samples of one replica
///   data_parallel   replicas
[[nodiscard]] DegreeFault batch_fault(int global_batch, int micro_batch, int data_parallel);

/// Experts are spread over `expert_parallel` ranks of a region of `region` devices (data x context x tensor): the
/// degree divides both. A dense model (0 experts) allows 1 only.
[[nodiscard]] DegreeFault expert_parallel_fault(int experts, int region, int expert_parallel);

/// Pipelines x stages x TP x DP need this many devices.
[[nodiscard]] DegreeFault device_fault(int pipelines, int stages, int tensor_parallel, int data_parallel, int devices);

/// Expert TP x expert parallelism x stages share the devices with the dense product.
[[nodiscard]] DegreeFault expert_device_fault(int stages, int expert_parallel, int expert_tensor_parallel, int devices);

}  // namespace hpplan
