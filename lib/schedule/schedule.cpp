#include "schedule/schedule.hpp"

#include <array>
#include <cstddef>

#include "base/check.hpp"
#include "base/text.hpp"

namespace hpplan {

Seconds op_time(OpKind kind, const StageTime& time) {
  switch (kind) {
    case OpKind::Forward: return time.forward;
    case OpKind::Backward: return time.whole_backward();
    case OpKind::BackwardInput: return time.backward;
    case OpKind::WeightGradient: return time.weight_gradient;
    case OpKind::Update: return Seconds{};
  }
  check_invariant(false, "every kind of op has a time");
  return {};
}

std::string to_text(const Op& op) {
  constexpr std::array<char, 5> kLetters = {'F', 'B', 'I', 'W', 'U'};
  const char letter = kLetters[static_cast<std::size_t>(op.kind)];
  if (op.kind == OpKind::Update) return concat(letter, '@', op.stage);
  return concat(letter, op.micro_batch, '@', op.stage);
}

Seconds link_between(const Schedule& schedule, int from, int to) {
  const PlacedStage& a = schedule.stage(from);
  const PlacedStage& b = schedule.stage(to);
  if (a.device == b.device) return {};
  return a.next == to ? a.time.link : b.time.link;
}

namespace {

/// How far one micro-batch has come on one stage.
enum class Progress : std::uint8_t { Waiting, Forwarded, HalfBackward, Done };

/// The state after `op`, or Waiting when the op may not come now.
Progress after(Progress before, OpKind kind) {
  switch (kind) {
    case OpKind::Forward: return before == Progress::Waiting ? Progress::Forwarded : Progress::Waiting;
    case OpKind::Backward: return before == Progress::Forwarded ? Progress::Done : Progress::Waiting;
    case OpKind::BackwardInput: return before == Progress::Forwarded ? Progress::HalfBackward : Progress::Waiting;
    case OpKind::WeightGradient: return before == Progress::HalfBackward ? Progress::Done : Progress::Waiting;
    case OpKind::Update: return before;
  }
  return Progress::Waiting;
}

int root_of(const Schedule& schedule, int stage) {
  while (schedule.stage(stage).previous >= 0) stage = schedule.stage(stage).previous;
  return stage;
}

}  // namespace

std::string fault_of(const Schedule& schedule) {
  const std::size_t stage_count = schedule.stages.size();
  const std::size_t micro_batches = static_cast<std::size_t>(schedule.micro_batches);
  std::vector<Progress> progress(stage_count * micro_batches, Progress::Waiting);
  std::vector<int> route(micro_batches, -1);  // first stage of the path each micro-batch takes
  for (int device = 0; device < schedule.device_count; ++device) {
    for (const Op& op : schedule.program(device)) {
      if (schedule.stage(op.stage).device != device) return concat(to_text(op), " runs on device ", device);
      if (op.kind == OpKind::Update) continue;
      const std::size_t i = static_cast<std::size_t>(op.micro_batch);
      Progress& state = progress[i * stage_count + static_cast<std::size_t>(op.stage)];
      const Progress next = after(state, op.kind);
      if (next == Progress::Waiting) return concat(to_text(op), " runs twice or too early");
      state = next;
      const int root = root_of(schedule, op.stage);
      if (route[i] >= 0 && route[i] != root) return concat("micro-batch ", i, " takes two paths");
      route[i] = root;
    }
  }
  for (std::size_t i = 0; i < micro_batches; ++i) {
    if (route[i] < 0) return concat("micro-batch ", i, " never runs");
    for (int s = route[i]; s >= 0; s = schedule.stage(s).next) {
      if (progress[i * stage_count + static_cast<std::size_t>(s)] != Progress::Done) {
        return concat("micro-batch ", i, " is not finished on stage ", s);
      }
    }
  }
  return "";
}

}  // namespace hpplan
