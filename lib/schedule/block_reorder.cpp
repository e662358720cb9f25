#include "schedule/block_reorder.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

namespace hpplan {

namespace {

/// The ops of a device by what they do, each line in the order of micro-batches. `Weight` holds the weight gradients of
/// both chunks.
enum Line : std::size_t { ForwardDown, ForwardUp, BackwardUp, BackwardDown, Weight };
constexpr std::size_t kLines = 5;
constexpr std::size_t kLinesBeforeWeights = 4;

struct Cell {
  int slot = 0;
  std::size_t device = 0;
  std::size_t line = 0;
  std::size_t number = 0;  // place in its line

  friend auto operator<=>(const Cell&, const Cell&) = default;
};

using Slots = std::array<std::vector<int>, kLines>;  // of one device, [line][number]

bool gives_weight_gradient(std::size_t line) { return line == BackwardUp || line == BackwardDown; }

/// What stands in each slot of a device.
std::vector<std::optional<std::size_t>> lines_by_slot(const Slots& slots) {
  std::vector<std::optional<std::size_t>> by_slot;
  for (std::size_t line = 0; line < kLines; ++line) {
    for (const int slot : slots[line]) {
      const auto at = static_cast<std::size_t>(slot);
      if (by_slot.size() <= at) by_slot.resize(at + 1);
      by_slot[at] = line;
    }
  }
  return by_slot;
}

/// Gives each weight gradient the first free slot after some backward that still lacks one.
void place_weights(Slots& slots) {
  slots[Weight].clear();
  const auto by_slot = lines_by_slot(slots);
  int owed = 0;
  int slot = 0;
  for (; static_cast<std::size_t>(slot) < by_slot.size(); ++slot) {
    const auto& line = by_slot[static_cast<std::size_t>(slot)];
    if (line) {
      owed += gives_weight_gradient(*line) ? 1 : 0;
    } else if (owed > 0) {
      slots[Weight].push_back(slot);
      --owed;
    }
  }
  for (; owed > 0; --owed) slots[Weight].push_back(slot++);
}

/// Chunk activations held at most. Without weight gradients in the grid, one owed runs in every free slot.
int peak_of(const Slots& slots) {
  const bool has_weights = !slots[Weight].empty();
  int held = 0;
  int owed = 0;
  int peak = 0;
  for (const auto& line : lines_by_slot(slots)) {
    if (line == ForwardDown || line == ForwardUp) ++held;
    if (line == Weight) --held;
    if (line && gives_weight_gradient(*line)) ++owed;
    if (!line && !has_weights && owed > 0) {
      --held;
      --owed;
    }
    peak = std::max(peak, held);
  }
  return peak;
}

class Grid {
 public:
  Grid(const std::vector<VeeBlock>& blocks, int micro_batches) : slots_(blocks.size()) {
    for (std::size_t d = 0; d < blocks.size(); ++d) {
      const VeeBlock& block = blocks[d];
      const std::array<int, kLinesBeforeWeights> first = {block.forward_down, block.forward_up, block.backward_up,
                                                          block.backward_down};
      for (std::size_t line = 0; line < kLinesBeforeWeights; ++line) {
        for (int i = 0; i < micro_batches; ++i) slots_[d][line].push_back(first[line] + kVeePeriod * i);
      }
    }
  }

  [[nodiscard]] const Slots& device(std::size_t d) const { return slots_[d]; }

  void place_all_weights() {
    for (Slots& slots : slots_) place_weights(slots);
  }
  void remove_weights() {
    for (Slots& slots : slots_) slots[Weight].clear();
  }

  /// Moves ops to earlier slots: those after the last forward that the first device takes in and, with weight gradients
  /// in the grid, those before its first full backward. No device holds more than the fullest one did.
  void move_forward() {
    int peak = 0;
    for (const Slots& slots : slots_) peak = std::max(peak, peak_of(slots));
    const bool has_weights = !slots_[0][Weight].empty();
    enum class Phase { WarmUp, Steady, CoolDown };
    Phase phase = Phase::WarmUp;
    std::vector<std::vector<char>> taken(slots_.size());
    for (const Cell& cell : cells()) {
      if (phase == Phase::WarmUp && cell.line == BackwardDown && cell.device == 0) phase = Phase::Steady;
      const bool may_move = phase == Phase::CoolDown || (phase == Phase::WarmUp && has_weights);
      const bool last_forward = cell.line == ForwardDown && cell.number + 1 == slots_[0][ForwardDown].size();
      if (phase == Phase::Steady && last_forward) phase = Phase::CoolDown;
      std::vector<char>& mine = taken[cell.device];
      if (mine.size() <= static_cast<std::size_t>(cell.slot)) mine.resize(static_cast<std::size_t>(cell.slot) + 1, 0);
      const int slot = may_move ? earliest_slot(cell, mine, peak) : cell.slot;
      slots_[cell.device][cell.line][cell.number] = slot;
      mine[static_cast<std::size_t>(slot)] = 1;
    }
  }

  /// Keeps the order of each device and closes the gaps that no input forces.
  void squeeze() {
    std::vector<int> free_from(slots_.size(), 0);
    for (const Cell& cell : cells()) {
      const int slot = std::max(free_from[cell.device], cell.line == Weight ? 0 : input_slot(cell) + 1);
      slots_[cell.device][cell.line][cell.number] = slot;
      free_from[cell.device] = slot + 1;
    }
  }

 private:
  /// Every op, in the order of slots.
  [[nodiscard]] std::vector<Cell> cells() const {
    std::vector<Cell> all;
    for (std::size_t d = 0; d < slots_.size(); ++d) {
      for (std::size_t line = 0; line < kLines; ++line) {
        const std::vector<int>& row = slots_[d][line];
        for (std::size_t k = 0; k < row.size(); ++k) all.push_back({row[k], d, line, k});
      }
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  /// The last slot that must be over before `cell` may run; -1: none.
  [[nodiscard]] int input_slot(const Cell& cell) const {
    const Slots& own = slots_[cell.device];
    int last = cell.number > 0 ? own[cell.line][cell.number - 1] : -1;
    if (cell.line == Weight) return std::max(last, backward_slot(own, cell.number));
    if (cell.line != ForwardDown) last = std::max(last, own[cell.line - 1][cell.number]);
    const bool goes_down = cell.line == ForwardDown || cell.line == BackwardUp;  // from device to device
    if (goes_down && cell.device > 0) last = std::max(last, slots_[cell.device - 1][cell.line][cell.number]);
    if (!goes_down && cell.device + 1 < slots_.size()) {
      last = std::max(last, slots_[cell.device + 1][cell.line][cell.number]);
    }
    return last;
  }

  /// Slot of the backward, of either chunk, that makes weight gradient `number` possible.
  static int backward_slot(const Slots& slots, std::size_t number) {
    std::vector<int> both = slots[BackwardUp];
    both.insert(both.end(), slots[BackwardDown].begin(), slots[BackwardDown].end());
    std::nth_element(both.begin(), both.begin() + static_cast<std::ptrdiff_t>(number), both.end());
    return both[number];
  }

  [[nodiscard]] int earliest_slot(const Cell& cell, const std::vector<char>& taken, int peak) {
    Slots& own = slots_[cell.device];
    for (int slot = input_slot(cell) + 1; slot < cell.slot; ++slot) {
      if (taken[static_cast<std::size_t>(slot)] != 0) continue;
      own[cell.line][cell.number] = slot;
      if (peak_of(own) <= peak) return slot;
    }
    return cell.slot;
  }

  std::vector<Slots> slots_;  // per device
};

/// The ops of a device in the order of slots; weight gradients take the free ones, those of the second chunk first.
std::vector<Op> program_of(const Slots& slots, int down, int up) {
  const std::array<Op, kLinesBeforeWeights> ops = {
      Op{OpKind::Forward, false, 0, down}, Op{OpKind::Forward, false, 0, up}, Op{OpKind::BackwardInput, false, 0, up},
      Op{OpKind::BackwardInput, false, 0, down}};
  std::vector<Op> program;
  std::array<int, kLinesBeforeWeights> next = {};
  std::array<int, 2> owed = {};  // of the second chunk, of the first
  std::array<int, 2> written = {};
  const std::array<int, 2> stages = {up, down};
  const auto write_weight = [&] {
    for (std::size_t chunk = 0; chunk < 2; ++chunk) {
      if (owed[chunk] == 0) continue;
      --owed[chunk];
      program.push_back({OpKind::WeightGradient, false, written[chunk]++, stages[chunk]});
      return true;
    }
    return false;
  };
  for (const auto& line : lines_by_slot(slots)) {
    if (!line) {
      static_cast<void>(write_weight());
      continue;
    }
    program.push_back({ops[*line].kind, false, next[*line]++, ops[*line].stage});
    if (*line == BackwardUp) ++owed[0];
    if (*line == BackwardDown) ++owed[1];
  }
  while (write_weight()) {
  }
  return program;
}

}  // namespace

std::vector<std::vector<Op>> reordered_block(const std::vector<VeeBlock>& blocks, int micro_batches) {
  Grid grid(blocks, micro_batches);
  grid.place_all_weights();
  grid.move_forward();
  grid.squeeze();
  grid.remove_weights();
  grid.move_forward();
  grid.place_all_weights();
  grid.squeeze();
  grid.remove_weights();
  std::vector<std::vector<Op>> programs;
  const int devices = static_cast<int>(blocks.size());
  for (int r = 0; r < devices; ++r) {
    programs.push_back(program_of(grid.device(static_cast<std::size_t>(r)), r, 2 * devices - 1 - r));
  }
  return programs;
}

}  // namespace hpplan
