#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "schedule/families.hpp"
#include "schedule/placement.hpp"

namespace hpplan {

namespace {

/// An op and its place in the unit-slot order in which forward and backward take one slot each.
using SlottedOp = std::pair<int, Op>;

/// Ops of one device: units of `depth` micro-batches, half of them in each direction, every 2*depth slots.
std::vector<SlottedOp> slots_of(int depth, int device, int micro_batches) {
  std::vector<SlottedOp> slots;
  for (int direction = 0; direction < 2; ++direction) {
    const int model_stage = direction == 0 ? device : depth - 1 - device;
    const int stage = direction * depth + model_stage;
    for (int i = 0; i < micro_batches / 2; ++i) {
      const int unit = i / (depth / 2);
      const int place = i % (depth / 2);
      const int slot = 2 * depth * unit + 2 * place;
      const int micro_batch = depth * unit + direction * (depth / 2) + place;
      slots.push_back({slot + model_stage, {OpKind::Forward, false, micro_batch, stage}});
      slots.push_back({slot + 2 * depth - 1 - model_stage, {OpKind::Backward, false, micro_batch, stage}});
    }
  }
  std::stable_sort(slots.begin(), slots.end(),
                   [](const SlottedOp& a, const SlottedOp& b) { return a.first < b.first; });
  return slots;
}

}  // namespace

/// Chimera (SC'21): units of D micro-batches, half down and half up, repeated so that no slot is empty
/// between units.
Schedule make_chimera(const ScheduleRequest& request) {
  check_request(request, 2);
  const int depth = request.stage_count;
  const int m = request.micro_batches;
  if (depth % 2 != 0) {
    refuse_schedule("stages", concat(depth, " stages"), "chimera pairs stages from both ends: use an even number");
  }
  if (m % depth != 0) {
    refuse_schedule("micro-batches", concat(m, " micro-batches are not a multiple of ", depth, " stages"),
                    concat("chimera runs units of as many micro-batches as stages: use ", (m / depth + 1) * depth));
  }
  Schedule schedule = make_schedule("chimera", request, depth);
  place_two_way(schedule, request);
  for (int device = 0; device < depth; ++device) {
    for (const SlottedOp& slot : slots_of(depth, device, m)) {
      schedule.programs[static_cast<std::size_t>(device)].push_back(slot.second);
    }
  }
  return schedule;
}

}  // namespace hpplan
