#include "schedule/v_shape.hpp"

#include <cstddef>
#include <map>

#include "base/text.hpp"
#include "schedule/placement.hpp"

namespace hpplan {

namespace {

constexpr int kPeriod = 6;  // two chunks, each with F, B and W

/// Ops of one device by slot.
std::map<int, Op> slots_of(const VeeBlock& block, int down, int up, int micro_batches) {
  std::map<int, Op> slots;
  for (int i = 0; i < micro_batches; ++i) {
    const int shift = kPeriod * i;
    slots[block.forward_down + shift] = {OpKind::Forward, false, i, down};
    slots[block.forward_up + shift] = {OpKind::Forward, false, i, up};
    slots[block.backward_up + shift] = {OpKind::BackwardInput, false, i, up};
    slots[block.backward_down + shift] = {OpKind::BackwardInput, false, i, down};
  }
  std::map<int, Op> filled = slots;
  int free = 0;
  for (const auto& [slot, op] : slots) {
    if (op.kind != OpKind::BackwardInput) continue;
    free = std::max(free, slot + 1);
    while (filled.count(free) != 0) ++free;
    filled[free] = {OpKind::WeightGradient, false, op.micro_batch, op.stage};
  }
  return filled;
}

}  // namespace

Schedule make_v_shape(const std::string& family, const ScheduleRequest& request,
                      VeeBlock (*block)(int stages, int device)) {
  check_request(request, 2);
  const int p = request.stage_count;
  const int m = request.micro_batches;
  if (m < p) {
    refuse_schedule("micro-batches", concat(m, " micro-batches for ", p, " stages"),
                    concat(family, " needs at least ", p, " micro-batches"));
  }
  Schedule schedule = make_schedule(family, request, p);
  schedule.splits_backward = true;
  place_vee(schedule, request);
  for (int r = 0; r < p; ++r) {
    for (const auto& [slot, op] : slots_of(block(p, r), r, 2 * p - 1 - r, m)) {
      schedule.programs[static_cast<std::size_t>(r)].push_back(op);
    }
  }
  return schedule;
}

}  // namespace hpplan
