#include "schedule/dualpipe.hpp"

#include <algorithm>
#include <cstddef>

#include "base/text.hpp"
#include "schedule/families.hpp"
#include "schedule/placement.hpp"
#include "schedule/program.hpp"

namespace hpplan {

namespace {

class TwoWayWriter {
 public:
  TwoWayWriter(std::vector<Op>& program, const DualPipeDevice& device)
      : write_(program), stage_{device.own_stage, device.other_stage}, forward_{device.own_first, device.other_first},
        backward_{device.own_first, device.other_first} {}

  void forward(int way) { write_.forward(forward_[way]++, stage_[way]); }
  void backward(int way, bool input_only) {
    if (input_only) {
      write_.backward_input(backward_[way]++, stage_[way]);
    } else {
      write_.backward(backward_[way]++, stage_[way]);
    }
  }
  void forward_with_backward(int forward_way, int backward_way) {
    forward(forward_way);
    write_.join_next();
    backward(backward_way, false);
  }
  void weight() { write_.weight(); }

 private:
  ProgramWriter write_;
  int stage_[2] = {};
  int forward_[2] = {};
  int backward_[2] = {};
};

constexpr int kOwn = 0;
constexpr int kOther = 1;

}  // namespace

void write_dualpipe(std::vector<Op>& program, const DualPipeDevice& device) {
  TwoWayWriter write(program, device);
  const int before_turn = device.half - device.distance - 1;
  const int pairs = device.distance + 1;

  for (int i = 0; i < 2 * before_turn; ++i) write.forward(kOwn);
  for (int i = 0; i < pairs; ++i) {
    write.forward(kOwn);
    write.forward(kOther);
  }
  for (int i = 0; i < before_turn; ++i) {
    write.backward(kOther, true);
    write.weight();
    write.forward(kOther);
  }
  for (int i = 0; i < device.micro_batches - 2 * device.half + pairs; ++i) {
    if (i == 0 && device.middle) {
      write.forward(kOwn);
      write.backward(kOther, false);
    } else {
      write.forward_with_backward(kOwn, kOther);
    }
    write.forward_with_backward(kOther, kOwn);
  }
  for (int i = 0; i < before_turn; ++i) {
    write.backward(kOther, false);
    write.forward_with_backward(kOther, kOwn);
  }
  // From the middle of this step on, weight gradients are put off: at an odd distance the other direction starts that.
  const int split_from = pairs / 2;
  const bool other_first = device.distance % 2 != 0;
  for (int i = 0; i < pairs; ++i) {
    write.backward(kOther, i > split_from || (i == split_from && other_first));
    write.backward(kOwn, i >= split_from);
  }
  for (int i = 0; i < before_turn; ++i) {
    write.weight();
    write.backward(kOwn, true);
  }
  for (int i = 0; i < pairs; ++i) write.weight();
}

Schedule make_dualpipe(const ScheduleRequest& request) {
  check_request(request, 2);
  const int p = request.stage_count;
  const int m = request.micro_batches;
  if (p % 2 != 0) refuse_schedule("stages", concat(p, " stages"), "dualpipe needs an even number of stages");
  if (m % 2 != 0 || m < 2 * p) {
    refuse_schedule("micro-batches", concat(m, " micro-batches for ", p, " stages"),
                    concat("dualpipe needs an even number of at least ", 2 * p));
  }
  Schedule schedule = make_schedule("dualpipe", request, p);
  schedule.splits_backward = true;
  place_two_way(schedule, request);
  for (int r = 0; r < p; ++r) {
    const bool top = r < p / 2;
    DualPipeDevice device;
    device.half = p / 2;
    device.distance = std::min(r, p - 1 - r);
    device.micro_batches = m / 2;
    device.own_stage = top ? r : p + (p - 1 - r);
    device.other_stage = top ? p + (p - 1 - r) : r;
    device.own_first = top ? 0 : m / 2;
    device.other_first = top ? m / 2 : 0;
    device.middle = device.distance == p / 2 - 1;
    write_dualpipe(schedule.programs[static_cast<std::size_t>(r)], device);
  }
  return schedule;
}

}  // namespace hpplan
