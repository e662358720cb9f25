#include <cstddef>

#include "base/text.hpp"
#include "schedule/families.hpp"
#include "schedule/placement.hpp"
#include "schedule/program.hpp"

namespace hpplan {

namespace {

/// Writes the list of one device; counts how far each chunk has come.
class VeeWriter {
 public:
  VeeWriter(std::vector<Op>& program, int first, int second) : write_(program), stage_{first, second} {}

  void forward(int chunk) { write_.forward(forwards_[chunk]++, stage_[chunk]); }
  void backward(int chunk) { write_.backward_input(backwards_[chunk]++, stage_[chunk]); }
  void backward_and_weight(int chunk) {
    backward(chunk);
    write_.weight_of(stage_[chunk]);
  }
  void all_weights(int chunk) {
    for (int left = write_.owed(); left > 0; --left) write_.weight_of(stage_[chunk]);
  }
  [[nodiscard]] int forwards(int chunk) const { return forwards_[chunk]; }

 private:
  ProgramWriter write_;
  int stage_[2] = {};
  int forwards_[2] = {};
  int backwards_[2] = {};
};

/// Warm-up of 2P-1 forwards, groups of F, B and W, then input gradients first with weight gradients behind.
void write_device(VeeWriter& write, int p, int m, int r) {
  for (int k = 0; k < 2 * (p - r) - 1; ++k) write.forward(0);
  for (int k = 0; k < r; ++k) {
    write.forward(1);
    write.forward(0);
  }
  for (int k = 0; k < p - r; ++k) {
    write.forward(1);
    write.backward_and_weight(1);
  }
  while (write.forwards(1) < m) {
    if (write.forwards(0) < m) write.forward(0);
    write.backward_and_weight(0);
    write.forward(1);
    write.backward_and_weight(1);
  }
  for (int k = 0; k < r; ++k) {
    write.backward(0);
    write.backward(1);
  }
  for (int k = 0; k < p - r; ++k) write.backward_and_weight(0);
  write.all_weights(1);
  write.all_weights(0);
}

}  // namespace

/// ZB-V (2401.10241, section 6). With F = B = W it has no bubble, at the memory of 1F1B, balanced over the devices.
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
  for (int r = 0; r < p; ++r) {
    VeeWriter write(schedule.programs[static_cast<std::size_t>(r)], r, 2 * p - 1 - r);
    write_device(write, p, m, r);
  }
  return schedule;
}

}  // namespace hpplan
