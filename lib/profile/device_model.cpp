#include "profile/device_model.hpp"

#include <algorithm>

namespace hpplan {

namespace {

// Constants of the model, one set for all device types: a device's name must not change its time, and the figures of
// the device (peak, memory bandwidth) already tell types apart. Calibrated on 16-bit single-operator times of GPT-like
// blocks (hidden 1024 to 8192, 1 to 16 samples of 2048 tokens) on A100-40, RTX 3090, V100 and GH200. Best fits per
// device for large products: A100 0.82, RTX 3090 0.91 of 80 TFLOPS, V100 0.67 to 0.73, GH200 0.61.
constexpr double kMatrixShare = 0.80;
// Padding of a dimension to tiles; the fits give 0 to 32.
constexpr double kTilePadding = 32.0;
// Share of the memory bandwidth that streaming operators reach: softmax 1.0, dropout 0.75, GELU 0.8, others less.
constexpr double kMemoryShare = 0.85;
// Launch of an operator; single-operator timings show 20 to 50 us, of which a busy queue hides most.
constexpr double kLaunchSeconds = 10e-6;

Seconds memory_time(Bytes moved, const DeviceType& type) { return moved / (type.memory_bandwidth * kMemoryShare); }

Seconds matrix_time(const OperatorCost& cost, FlopPerSecond peak) {
  if (cost.matmuls.empty()) return cost.forward / (peak * kMatrixShare);
  Seconds time;
  for (const Matmul& matmul : cost.matmuls) time += matmul_time(matmul, peak);
  return time;
}

}  // namespace

Seconds matmul_time(const Matmul& matmul, FlopPerSecond peak) {
  const double padded = (matmul.rows + kTilePadding) * (matmul.columns + kTilePadding) * (matmul.inner + kTilePadding);
  return Flop{2.0 * matmul.count * padded} / (peak * kMatrixShare);
}

FlopPerSecond matrix_peak(const ModelSpec& model, const DeviceType& type) {
  return model.precision == "fp32" ? type.peak * 0.5 : type.peak;
}

Seconds tensor_all_reduce_time(Bytes size, int group, const Link& link) {
  if (group <= 1 || size.count() == 0) return Seconds{};
  const double steps = group - 1;
  return (size / link.bandwidth) * (2.0 * steps / group) + link.latency * (2.0 * steps);
}

OperatorTime operator_time(const OperatorCost& cost, const DeviceSetting& setting) {
  const FlopPerSecond peak = matrix_peak(setting.model, setting.type);
  const Seconds launch{kLaunchSeconds};
  const Seconds matrix = matrix_time(cost, peak);
  OperatorTime time;
  time.forward_compute = launch + std::max(matrix, memory_time(cost.moved, setting.type));
  // Two products per forward product: gradients of both factors; one launch each.
  const Seconds backward_work = std::max(matrix * 2.0, memory_time(cost.moved_backward, setting.type));
  const double launches = matrix > Seconds{} ? 2.0 : 1.0;
  time.backward = launch * launches + backward_work;
  // A linear operator spends half of its backward on the weights; the embedding has nothing but weights.
  if (cost.weighted) time.weight_gradient = matrix > Seconds{} ? time.backward * 0.5 : time.backward;
  time.forward =
      time.forward_compute + tensor_all_reduce_time(cost.all_reduce_forward, setting.tensor_parallel, setting.link);
  time.backward += tensor_all_reduce_time(cost.all_reduce_backward, setting.tensor_parallel, setting.link);
  return time;
}

ModelledLayer model_layer(const DeviceSetting& setting, const LayerKind& kind, int samples) {
  ModelledLayer layer;
  layer.operators = layer_operators(setting.model, kind, setting.tensor_parallel, samples);
  layer.times.reserve(layer.operators.size());
  for (const OperatorCost& cost : layer.operators) {
    const OperatorTime time = operator_time(cost, setting);
    layer.times.push_back(time);
    layer.total.forward += time.forward;
    layer.total.backward += time.backward;
    layer.total.weight_gradient += time.weight_gradient;
    layer.total.forward_compute += time.forward_compute;
    layer.saved += cost.saved;
  }
  return layer;
}

}  // namespace hpplan
