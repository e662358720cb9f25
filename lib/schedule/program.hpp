#pragma once

#include <deque>
#include <vector>

#include "schedule/schedule.hpp"

namespace hpplan {

/// Writes the op list of one device.
class ProgramWriter {
 public:
  explicit ProgramWriter(std::vector<Op>& program) : program_(program) {}

  void forward(int micro_batch, int stage) { program_.push_back({OpKind::Forward, false, micro_batch, stage}); }
  void backward(int micro_batch, int stage) { program_.push_back({OpKind::Backward, false, micro_batch, stage}); }
  void update(int stage) { program_.push_back({OpKind::Update, false, -1, stage}); }

  /// Input gradient; its weight gradient is owed until `weight()` comes to it, oldest first.
  void backward_input(int micro_batch, int stage) {
    program_.push_back({OpKind::BackwardInput, false, micro_batch, stage});
    owed_.push_back({OpKind::WeightGradient, false, micro_batch, stage});
  }
  void weight() {
    program_.push_back(owed_.front());
    owed_.pop_front();
  }
  void all_weights() {
    while (!owed_.empty()) weight();
  }
  /// The oldest weight gradient owed to `stage`.
  void weight_of(int stage) {
    for (auto op = owed_.begin(); op != owed_.end(); ++op) {
      if (op->stage != stage) continue;
      program_.push_back(*op);
      owed_.erase(op);
      return;
    }
  }
  [[nodiscard]] int owed() const { return static_cast<int>(owed_.size()); }

  /// Makes the last op start and end together with the one written next.
  void join_next() { program_.back().joined = true; }

 private:
  std::vector<Op>& program_;
  std::deque<Op> owed_;
};

/// One stage of 1F1B: `warm_up` forwards, at most `micro_batches`, then a forward and a backward in turn, then the
/// backwards that are left.
inline void write_one_f_one_b(ProgramWriter& write, int stage, int micro_batches, int warm_up) {
  for (int i = 0; i < warm_up; ++i) write.forward(i, stage);
  for (int k = 0; k < micro_batches; ++k) {
    if (warm_up + k < micro_batches) write.forward(warm_up + k, stage);
    write.backward(k, stage);
  }
}

}  // namespace hpplan
