#include "domain/plan.hpp"

#include "base/check.hpp"

namespace hpplan {

const char* to_text(Provenance provenance) {
  switch (provenance) {
    case Provenance::Measured: return "measured";
    case Provenance::Interpolated: return "interpolated";
    case Provenance::Modelled: return "modelled";
  }
  check_invariant(false, "known provenance");
  return "";
}

const char* to_text(BoundKind kind) {
  switch (kind) {
    case BoundKind::Search: return "search";
    case BoundKind::Work: return "work";
  }
  check_invariant(false, "known kind of bound");
  return "";
}

const char* to_text(GradientSyncMethod method) {
  switch (method) {
    case GradientSyncMethod::DeviceWise: return "device-wise";
    case GradientSyncMethod::TensorWise: return "tensor-wise";
    case GradientSyncMethod::BlockWise: return "block-wise";
  }
  check_invariant(false, "known method");
  return "";
}

double steady_samples_per_second(const PipelinePlan& pipeline) {
  return static_cast<double>(pipeline.micro_batch) * pipeline.micro_batches / pipeline.time.value();
}

}  // namespace hpplan
