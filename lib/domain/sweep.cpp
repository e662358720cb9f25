#include "domain/sweep.hpp"

#include "base/check.hpp"

namespace hpplan {

const char* to_text(SweepStatus status) {
  switch (status) {
    case SweepStatus::Planned: return "planned";
    case SweepStatus::Infeasible: return "infeasible";
    case SweepStatus::Broken: return "broken";
  }
  check_invariant(false, "known status");
  return "";
}

}  // namespace hpplan
