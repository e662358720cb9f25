#include <algorithm>
#include <cstddef>

#include "base/text.hpp"
#include "schedule/families.hpp"
#include "schedule/placement.hpp"
#include "schedule/program.hpp"

namespace hpplan {

/// Order of Megatron-LM (2104.04473): micro-batches go through the chunks in groups of P.
Schedule make_interleaved(const ScheduleRequest& request) {
  const int v = request.chunks == 0 ? 2 : request.chunks;
  if (v < 1) refuse_schedule("chunks", concat(v, " chunks"), "give at least 1");
  check_request(request, v);
  const int p = request.stage_count;
  const int m = request.micro_batches;
  if (m % p != 0) {
    refuse_schedule("micro-batches", concat(m, " micro-batches are not a multiple of ", p, " stages"),
                    concat("interleaved runs micro-batches in groups of the stage count: use ", (m / p + 1) * p));
  }
  Schedule schedule = make_schedule("interleaved", request, p);
  schedule.unit = InFlightUnit::Chunk;
  place_loop(schedule, request, v);
  const int total = m * v;
  for (int r = 0; r < p; ++r) {
    ProgramWriter write(schedule.programs[static_cast<std::size_t>(r)]);
    const auto micro_batch = [&](int k) { return k / (p * v) * p + k % p; };
    const auto chunk = [&](int k) { return k % (p * v) / p; };
    const int warm_up = m == p ? total : std::min(total, 2 * (p - 1 - r) + (v - 1) * p);
    for (int k = 0; k < warm_up; ++k) write.forward(micro_batch(k), chunk(k) * p + r);
    for (int k = 0; k < total; ++k) {
      const int f = warm_up + k;
      if (f < total) write.forward(micro_batch(f), chunk(f) * p + r);
      write.backward(micro_batch(k), (v - 1 - chunk(k)) * p + r);
    }
  }
  return schedule;
}

}  // namespace hpplan
