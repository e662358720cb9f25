#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "schedule/arrangement.hpp"
#include "schedule/dispatch.hpp"
#include "schedule/families.hpp"
#include "schedule/placement.hpp"
#include "schedule/program.hpp"

namespace hpplan {

namespace {

/// Stage of pipeline j that device `device` holds. Even pipelines start at device 2j and go up, odd ones at 2j+1 and
/// go down, around the ring.
int model_stage_on(int device, int pipeline, int depth) {
  const int stage = pipeline % 2 == 0 ? device - 2 * pipeline : 2 * pipeline + 1 - device;
  return (stage % depth + depth) % depth;
}

/// Adds the d/2 pipelines; stage ids are pipeline * d + model stage.
void place_ring(Schedule& schedule, const ScheduleRequest& request) {
  const int depth = request.stage_count;
  schedule.model_stage_count = depth;
  const auto paths = paths_of(Arrangement::Ring, depth, depth / 2);
  const bool own_times = request.times.size() == static_cast<std::size_t>(depth * (depth / 2));
  for (int pipeline = 0; pipeline < depth / 2; ++pipeline) {
    for (int s = 0; s < depth; ++s) {
      PlacedStage stage;
      stage.device = paths[static_cast<std::size_t>(pipeline)][static_cast<std::size_t>(s)].device;
      stage.model_stage = s;
      stage.previous = s > 0 ? pipeline * depth + s - 1 : -1;
      stage.next = s + 1 < depth ? pipeline * depth + s + 1 : -1;
      stage.time = request.times[static_cast<std::size_t>(own_times ? pipeline * depth + s : s)];
      schedule.stages.push_back(stage);
    }
  }
}

/// Order of one device in one cycle of d micro-batches. `pattern`: F and B take the next id of their list, R runs the
/// backward left over from the cycle before, U is where an update may happen. The last backward id is left over.
struct CycleOrder {
  std::string_view pattern;
  std::array<int, 8> forwards;
  std::array<int, 8> backwards;
};

/// The published orders. Source: repository of AMDP (2605.29664), in the reading of schedules.md 4.
constexpr std::array<CycleOrder, 4> kDepth4 = {{
    {"FFRFBUFBB", {0, 2, 1, 3}, {1, 3, 0, 2}},
    {"RFFFFUBBB", {0, 1, 2, 3}, {1, 0, 3, 2}},
    {"RFFFFUBBB", {1, 0, 3, 2}, {0, 1, 2, 3}},
    {"FFRFBUFBB", {1, 3, 0, 2}, {0, 2, 1, 3}},
}};
constexpr std::string_view kEnd8 = "FFRFFFFFBFUBBBBBB";
constexpr std::string_view kInner8 = "RFFFFFFFFUBBBBBBB";
constexpr std::array<CycleOrder, 8> kDepth8 = {{
    {kEnd8, {0, 4, 1, 2, 5, 6, 3, 7}, {3, 7, 2, 1, 6, 5, 0, 4}},
    {kInner8, {0, 1, 4, 5, 2, 3, 6, 7}, {3, 2, 7, 6, 1, 0, 5, 4}},
    {kInner8, {1, 0, 5, 4, 3, 2, 7, 6}, {2, 3, 6, 7, 0, 1, 4, 5}},
    {kEnd8, {1, 5, 0, 3, 4, 7, 2, 6}, {2, 6, 3, 0, 7, 4, 1, 5}},
    {kEnd8, {2, 6, 3, 0, 7, 4, 1, 5}, {1, 5, 0, 3, 4, 7, 2, 6}},
    {kInner8, {2, 3, 6, 7, 0, 1, 4, 5}, {1, 0, 5, 4, 3, 2, 7, 6}},
    {kInner8, {3, 2, 7, 6, 1, 0, 5, 4}, {0, 1, 4, 5, 2, 3, 6, 7}},
    {kEnd8, {3, 7, 2, 1, 6, 5, 0, 4}, {0, 4, 1, 2, 5, 6, 3, 7}},
}};

void write_updates(ProgramWriter& write, int device, int depth) {
  for (int pipeline = 0; pipeline < depth / 2; ++pipeline) {
    write.update(pipeline * depth + model_stage_on(device, pipeline, depth));
  }
}

/// Repeats the published cycle on one device. Updates happen in the first cycle of a window of `window` cycles, with
/// the gradients of the window before; those of the last window come at the end.
void write_cycles(std::vector<Op>& program, const CycleOrder& order, int device, int depth, int cycles, int window) {
  ProgramWriter write(program);
  const auto stage_of = [&](int id) {
    const int pipeline = id % (depth / 2);
    return pipeline * depth + model_stage_on(device, pipeline, depth);
  };
  const int left_over = order.backwards[static_cast<std::size_t>(depth - 1)];
  for (int cycle = 0; cycle < cycles; ++cycle) {
    std::size_t forward = 0;
    std::size_t backward = 0;
    for (const char step : order.pattern) {
      if (step == 'F') {
        const int id = order.forwards[forward++];
        write.forward(cycle * depth + id, stage_of(id));
      } else if (step == 'B') {
        const int id = order.backwards[backward++];
        write.backward(cycle * depth + id, stage_of(id));
      } else if (step == 'R' && cycle > 0) {
        write.backward((cycle - 1) * depth + left_over, stage_of(left_over));
      } else if (step == 'U' && cycle > 0 && cycle % window == 0) {
        write_updates(write, device, depth);
      }
    }
  }
  write.backward((cycles - 1) * depth + left_over, stage_of(left_over));
  write_updates(write, device, depth);
}

/// First ready, first run; each pipeline reads two micro-batches before its first backward, which bounds the drift
/// by 1.
class RingPolicy : public DispatchPolicy {
 public:
  RingPolicy(const Schedule& schedule, int depth)
      : schedule_(schedule), depth_(depth), in_flight_(static_cast<std::size_t>(depth / 2), 0) {}

  std::optional<std::size_t> choose(int, const std::vector<ReadyOp>& ready, const std::vector<ReadyOp>&,
                                    Seconds) override {
    for (std::size_t k = 0; k < ready.size(); ++k) {
      const Op& op = ready[k].op;
      const bool enters = op.kind == OpKind::Forward && schedule_.stage(op.stage).previous < 0;
      if (!enters || in_flight_[pipeline_of(op)] < 2) return k;
    }
    return std::nullopt;
  }
  void started(int, const Op& op) override {
    if (schedule_.stage(op.stage).previous >= 0) return;
    in_flight_[pipeline_of(op)] += op.kind == OpKind::Forward ? 1 : -1;
  }

 private:
  [[nodiscard]] std::size_t pipeline_of(const Op& op) const { return static_cast<std::size_t>(op.stage / depth_); }

  const Schedule& schedule_;
  int depth_ = 0;
  std::vector<int> in_flight_;
};

void write_by_dispatch(Schedule& schedule, int depth, int window) {
  std::vector<int> roots;
  for (int pipeline = 0; pipeline < depth / 2; ++pipeline) roots.push_back(pipeline * depth);
  RingPolicy policy(schedule, depth);
  (void)dispatch(schedule, roots, policy);
  for (std::vector<Op>& program : schedule.programs) add_updates(program, 2 * window);
  schedule.notes.emplace_back("orders are published for 4 and 8 stages; this one is first ready, first run");
}

void check_amdp(const ScheduleRequest& request) {
  check_request(request, std::max(1, request.stage_count / 2));
  const int depth = request.stage_count;
  const int m = request.micro_batches;
  if (depth % 2 != 0) {
    refuse_schedule("stages", concat(depth, " stages"),
                    "amdp runs half as many pipelines as stages: use an even number");
  }
  if (m % depth != 0) {
    refuse_schedule("micro-batches", concat(m, " micro-batches are not a multiple of ", depth, " stages"),
                    concat("amdp runs cycles of as many micro-batches as stages: use ", (m / depth + 1) * depth));
  }
  if (request.accumulation < 0 || request.accumulation % depth != 0) {
    refuse_schedule("accumulation", concat(request.accumulation, " micro-batches per update"),
                    concat("amdp updates after whole cycles: use a multiple of ", depth));
  }
  if (request.max_drift && *request.max_drift < 1) {
    refuse_schedule("max-drift", concat("drift of at most ", *request.max_drift),
                    "amdp has a drift of 1 in the first cycle after an update: allow 1");
  }
}

}  // namespace

/// AMDP (2605.29664): d/2 pipelines at once on a ring of d devices, each reading two micro-batches ahead.
Schedule make_amdp(const ScheduleRequest& request) {
  check_amdp(request);
  const int depth = request.stage_count;
  const int cycles = request.micro_batches / depth;
  const int window = request.accumulation == 0 ? 1 : request.accumulation / depth;
  Schedule schedule = make_schedule("amdp", request, depth);
  schedule.versions = WeightVersions::Latest;
  schedule.accumulation = window * depth;
  place_ring(schedule, request);
  if (depth != 4 && depth != 8) {
    write_by_dispatch(schedule, depth, window);
    return schedule;
  }
  for (int device = 0; device < depth; ++device) {
    const std::size_t d = static_cast<std::size_t>(device);
    write_cycles(schedule.programs[d], depth == 4 ? kDepth4[d] : kDepth8[d], device, depth, cycles, window);
  }
  return schedule;
}

}  // namespace hpplan
