#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "search/candidate.hpp"
#include "search/sync_share.hpp"

namespace hpplan {

/// One way to run a stage. `tail` is time that any plan with this stage spends after its pipelines: the stage's own
/// share of the gradient sync and its optimizer, both lower bounds.
struct MenuOption {
  double time = 0.0;  // F + B of one micro-batch, seconds
  double tail = 0.0;
  int variant = 0;  // of the stage table

  friend bool operator==(const MenuOption&, const MenuOption&) = default;
};

/// The stage options of one micro-batch size, for pricing: for every usable port, range class and in-flight depth the
/// Pareto-optimal (time, tail) pairs over the splits, in one block of memory.
class StageMenu {
 public:
  /// Options with time + tail above `limit` are left out.
  StageMenu(SearchTables& tables, int micro_batch, PipelineCount pipelines, double limit);

  [[nodiscard]] int micro_batch() const { return micro_batch_; }
  [[nodiscard]] int layers() const { return ranges_->layers(); }
  [[nodiscard]] const RangeClasses& ranges() const { return *ranges_; }
  /// Usable ports; `port` below is a place in this list.
  [[nodiscard]] const std::vector<Port>& ports() const { return ports_; }
  [[nodiscard]] int space_port(int port) const { return space_ports_[static_cast<std::size_t>(port)]; }
  /// Micro-batches in flight on a stage with so many stages from it on, itself included.
  [[nodiscard]] int in_flight(int stages_left, int micro_batches) const {
    return stages_->in_flight(static_cast<std::size_t>(stages_left), micro_batches);
  }
  [[nodiscard]] std::span<const MenuOption> at(int port, int range_class, int in_flight) const {
    const std::size_t cell = (static_cast<std::size_t>(range_class) * static_cast<std::size_t>(depth_) +
                              static_cast<std::size_t>(in_flight - 1)) *
                                 ports_.size() +
                             static_cast<std::size_t>(port);
    return {options_.data() + starts_[cell], options_.data() + starts_[cell + 1]};
  }
  /// Whether a range class has the same options at this depth as at the one before, on every port.
  [[nodiscard]] bool same_as_shallower(int range_class, int in_flight) const {
    return in_flight > 1 && same_[static_cast<std::size_t>(range_class) * static_cast<std::size_t>(depth_) +
                                  static_cast<std::size_t>(in_flight - 1)] != 0;
  }
  /// Seconds of the boundary tensor over the best link; infinity forbids the neighbourhood.
  [[nodiscard]] double transfer(int from, int to) const {
    return transfers_[static_cast<std::size_t>(from) * ports_.size() + static_cast<std::size_t>(to)];
  }
  /// Least time of a link to, and from, a port; no more than link_cap().
  [[nodiscard]] double link_in(int port) const { return link_in_[static_cast<std::size_t>(port)]; }
  [[nodiscard]] double link_out(int port) const { return link_out_[static_cast<std::size_t>(port)]; }
  /// Links count no more than this in the window terms, where one link is lost to rounding.
  [[nodiscard]] double link_cap() const { return link_cap_; }
  [[nodiscard]] double least_tail() const { return least_tail_; }
  [[nodiscard]] const Split& split(int variant) const {
    return stages_->variants()[static_cast<std::size_t>(variant)].split;
  }

 private:
  int micro_batch_ = 1;
  const RangeClasses* ranges_ = nullptr;
  const StageTable* stages_ = nullptr;
  int depth_ = 1;
  std::vector<Port> ports_;
  std::vector<int> space_ports_;
  std::vector<std::uint32_t> starts_;  // [range class][in flight - 1][port]
  std::vector<MenuOption> options_;
  std::vector<char> same_;  // [range class][in flight - 1]
  std::vector<double> transfers_;
  std::vector<double> link_in_;   // [port]
  std::vector<double> link_out_;  // [port]
  double link_cap_ = 0.0;
  double least_tail_ = kInfinity;
};

}  // namespace hpplan
