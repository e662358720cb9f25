#pragma once

#include <cstdint>
#include <span>

namespace hpplan {

/// How evenly loops over parts of work share it out among threads, by counted work and not by time. A thread takes the
/// next part as soon as it has done its own, so the loads follow from the parts alone.
class WorkShare {
 public:
  explicit WorkShare(int threads) : threads_(threads) {}

  /// One loop over these parts, in this order.
  void add(std::span<const std::int64_t> parts);
  /// The loops of another search that ran before or after.
  void add(const WorkShare& other) {
    total_ += other.total_;
    busiest_ += other.busiest_;
  }

  /// Work of all loops.
  [[nodiscard]] std::int64_t total() const { return total_; }
  /// The largest load of any thread, summed over the loops: no loop ends before.
  [[nodiscard]] std::int64_t busiest() const { return busiest_; }

 private:
  int threads_;
  std::int64_t total_ = 0;
  std::int64_t busiest_ = 0;
};

}  // namespace hpplan
