#include "schedule/families.hpp"
#include "schedule/v_shape.hpp"

namespace hpplan {

Schedule make_v_half(const ScheduleRequest& request) {
  return make_v_shape(
      "v-half", request,
      [](int p, int i) {
        const int delta = p % 2 == 0 ? 3 : 0;  // keeps the slots of both chunks apart
        return VeeBlock{2 * i, 3 * p - i - 2, 3 * p + delta + 2 * i - 1, 6 * p + delta - i - 2};
      },
      (request.stage_count + 2) / 2 * 2);
}

}  // namespace hpplan
