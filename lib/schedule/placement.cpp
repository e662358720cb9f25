#include "schedule/placement.hpp"

#include <algorithm>
#include <cstddef>

namespace hpplan {

namespace {

/// Adds a path of stages in model order. `first_model_stage` of a path is 0.
void add_path(Schedule& schedule, const std::vector<StageTime>& times, const std::vector<int>& devices,
              double activation) {
  const int offset = static_cast<int>(schedule.stages.size());
  const int count = static_cast<int>(times.size());
  for (int s = 0; s < count; ++s) {
    PlacedStage stage;
    stage.device = devices[static_cast<std::size_t>(s)];
    stage.model_stage = s;
    stage.previous = s > 0 ? offset + s - 1 : -1;
    stage.next = s + 1 < count ? offset + s + 1 : -1;
    stage.time = times[static_cast<std::size_t>(s)];
    stage.activation = activation;
    schedule.stages.push_back(stage);
  }
  schedule.model_stage_count = std::max(schedule.model_stage_count, count);
}

StageTime part_of(const StageTime& time, int parts) {
  return {time.forward / parts, time.backward / parts, time.weight_gradient / parts, time.link};
}

}  // namespace

Schedule make_schedule(const std::string& family, const ScheduleRequest& request, int device_count) {
  Schedule schedule;
  schedule.family = family;
  schedule.device_count = device_count;
  schedule.micro_batches = request.micro_batches;
  schedule.weight_gradient_memory = request.weight_gradient_memory.value_or(1.0);
  schedule.joined_time = request.joined_time;
  schedule.programs.resize(static_cast<std::size_t>(device_count));
  return schedule;
}

void place_linear(Schedule& schedule, const ScheduleRequest& request) {
  std::vector<int> devices;
  for (int s = 0; s < request.stage_count; ++s) devices.push_back(s);
  add_path(schedule, request.times, devices, 1.0);
}

void place_loop(Schedule& schedule, const ScheduleRequest& request, int chunks) {
  const int p = request.stage_count;
  Seconds slowest;
  for (int s = 0; s + 1 < p; ++s) slowest = std::max(slowest, request.times[static_cast<std::size_t>(s)].link);
  std::vector<StageTime> times;
  std::vector<int> devices;
  for (int part = 0; part < p * chunks; ++part) {
    devices.push_back(part % p);
    if (request.times.size() == static_cast<std::size_t>(p * chunks)) {
      times.push_back(request.times[static_cast<std::size_t>(part)]);
      continue;
    }
    times.push_back(part_of(request.times[static_cast<std::size_t>(part % p)], chunks));
    if (part % p == p - 1) times.back().link = slowest;
  }
  add_path(schedule, times, devices, 1.0 / chunks);
}

void place_vee(Schedule& schedule, const ScheduleRequest& request) {
  const int p = request.stage_count;
  std::vector<StageTime> times;
  std::vector<int> devices;
  for (int part = 0; part < 2 * p; ++part) {
    const int device = part < p ? part : 2 * p - 1 - part;
    devices.push_back(device);
    if (request.times.size() == static_cast<std::size_t>(2 * p)) {
      times.push_back(request.times[static_cast<std::size_t>(part)]);
      continue;
    }
    times.push_back(part_of(request.times[static_cast<std::size_t>(device)], 2));
    // On the way up, part -> part+1 crosses the link below device-1.
    if (part >= p && device > 0) times.back().link = request.times[static_cast<std::size_t>(device - 1)].link;
  }
  add_path(schedule, times, devices, 0.5);
}

void place_two_way(Schedule& schedule, const ScheduleRequest& request) {
  const int p = request.stage_count;
  std::vector<int> down;
  std::vector<int> up;
  for (int s = 0; s < p; ++s) {
    down.push_back(s);
    up.push_back(p - 1 - s);
  }
  const auto whole = request.times.begin() + p;
  add_path(schedule, {request.times.begin(), whole}, down, 1.0);
  const bool own_times = request.times.size() == static_cast<std::size_t>(2 * p);
  add_path(schedule, own_times ? std::vector<StageTime>(whole, request.times.end()) : request.times, up, 1.0);
}

}  // namespace hpplan
