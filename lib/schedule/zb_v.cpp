#include <cstddef>

#include "base/text.hpp"
#include "schedule/block_fill.hpp"
#include "schedule/families.hpp"
#include "schedule/placement.hpp"

namespace hpplan {

namespace {

/// Writes forwards and input gradients of one device; counts how far each chunk has come.
class VeeWriter {
 public:
  VeeWriter(std::vector<Op>& order, int first, int second) : order_(order), stage_{first, second} {}

  void forward(int chunk) { order_.push_back({OpKind::Forward, false, forwards_[chunk]++, stage_[chunk]}); }
  void backward(int chunk) { order_.push_back({OpKind::BackwardInput, false, backwards_[chunk]++, stage_[chunk]}); }
  [[nodiscard]] int forwards(int chunk) const { return forwards_[chunk]; }

 private:
  std::vector<Op>& order_;
  int stage_[2] = {};
  int forwards_[2] = {};
  int backwards_[2] = {};
};

/// Warm-up of 2P-1 forwards, alternating forwards and input gradients, then input gradients alone.
void write_device(VeeWriter& write, int p, int m, int r) {
  for (int k = 0; k < 2 * (p - r) - 1; ++k) write.forward(0);
  for (int k = 0; k < r; ++k) {
    write.forward(1);
    write.forward(0);
  }
  for (int k = 0; k < p - r; ++k) {
    write.forward(1);
    write.backward(1);
  }
  while (write.forwards(1) < m) {
    if (write.forwards(0) < m) write.forward(0);
    write.backward(0);
    write.forward(1);
    write.backward(1);
  }
  for (int k = 0; k < r; ++k) {
    write.backward(0);
    write.backward(1);
  }
  for (int k = 0; k < p - r; ++k) write.backward(0);
}

}  // namespace

/// ZB-V (2401.10241, section 6): F and B as there, with W in what would be idle. With F = B = W it has no bubble, at
/// the memory of 1F1B, balanced over the devices.
Schedule make_zb_v(const ScheduleRequest& request) {
  check_request(request, 2);
  const int p = request.stage_count;
  const int m = request.micro_batches;
  if (m < 2 * p) {
    refuse_schedule("micro-batches", concat(m, " micro-batches for ", p, " stages"),
                    concat("zb-v needs at least ", 2 * p, " micro-batches"));
  }
  Schedule schedule = make_schedule("zb-v", request, p);
  schedule.splits_backward = true;
  place_vee(schedule, request);
  std::vector<std::vector<Op>> wanted(static_cast<std::size_t>(p));
  for (int r = 0; r < p; ++r) {
    VeeWriter write(wanted[static_cast<std::size_t>(r)], r, 2 * p - 1 - r);
    write_device(write, p, m, r);
  }
  fill_block_order(schedule, wanted, 2 * p);
  return schedule;
}

}  // namespace hpplan
