#include "schedule/v_shape.hpp"

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "schedule/block_fill.hpp"
#include "schedule/block_reorder.hpp"
#include "schedule/placement.hpp"

namespace hpplan {

namespace {

/// Forwards and input gradients of one device in the order of their slots.
std::vector<Op> wanted_order(const VeeBlock& block, int down, int up, int micro_batches) {
  std::map<int, Op> slots;
  for (int i = 0; i < micro_batches; ++i) {
    const int shift = kVeePeriod * i;
    slots[block.forward_down + shift] = {OpKind::Forward, false, i, down};
    slots[block.forward_up + shift] = {OpKind::Forward, false, i, up};
    slots[block.backward_up + shift] = {OpKind::BackwardInput, false, i, up};
    slots[block.backward_down + shift] = {OpKind::BackwardInput, false, i, down};
  }
  std::vector<Op> order;
  for (const auto& [slot, op] : slots) order.push_back(op);
  return order;
}

}  // namespace

Schedule make_v_shape(const std::string& family, const ScheduleRequest& request,
                      VeeBlock (*block)(int stages, int device), int limit) {
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
  std::vector<VeeBlock> blocks;
  std::vector<std::vector<Op>> wanted;
  for (int r = 0; r < p; ++r) {
    blocks.push_back(block(p, r));
    wanted.push_back(wanted_order(blocks.back(), r, 2 * p - 1 - r, m));
  }
  Schedule reordered = schedule;
  const Seconds reordered_span = run_in_order(reordered, reordered_block(blocks, m));
  const Seconds filled_span = fill_block_order(schedule, wanted, limit);
  return reordered_span < filled_span * (1.0 - 1e-12) ? reordered : schedule;
}

}  // namespace hpplan
