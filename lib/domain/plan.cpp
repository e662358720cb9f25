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

const char* to_text(GradientSyncMethod method) {
  switch (method) {
    case GradientSyncMethod::DeviceWise: return "device-wise";
    case GradientSyncMethod::TensorWise: return "tensor-wise";
    case GradientSyncMethod::BlockWise: return "block-wise";
  }
  check_invariant(false, "known method");
  return "";
}

}  // namespace hpplan
