#include "schedule/families.hpp"
#include "schedule/v_shape.hpp"

namespace hpplan {

Schedule make_v_min(const ScheduleRequest& request) {
  return make_v_shape(
      "v-min", request,
      [](int p, int i) {
        const int delta = p % 3 == 0 ? 2 : 0;  // keeps the slots of both chunks apart
        return VeeBlock{i, 2 * p - i - 1, 2 * p + delta + i, 4 * p + delta - i - 1};
      },
      (request.stage_count + 4) / 3 * 2);
}

}  // namespace hpplan
