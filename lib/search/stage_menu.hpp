#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "search/candidate.hpp"
#include "search/node_charges.hpp"
#include "search/sync_share.hpp"

namespace hpplan {

/// Devices of nodes beyond this are not counted: it would cost more than it tells.
inline constexpr int kLargestCountedNode = 512;

/// One way to run a stage. `tail` is time that any plan with this stage spends after its pipelines: the stage's own
/// share of the gradient sync and its optimizer, both lower bounds, with no other stage of its pipeline on its node.
struct MenuOption {
  double time = 0.0;  // F + B of one micro-batch, seconds
  double tail = 0.0;
  int variant = 0;  // of the stage table

  friend bool operator==(const MenuOption&, const MenuOption&) = default;
};

/// The stage options of one micro-batch size, for pricing: for every usable port, range class and in-flight depth the
/// Pareto-optimal (time, tail) pairs over the splits, in one block of memory. What else the pipeline has on a stage's
/// node leaves less room for other replicas of its layers there, and the tail is longer.
class StageMenu {
 public:
  /// Options with time + tail above `limit` are left out.
  ///   load   for this limit or a longer one; null: unknown
  StageMenu(SearchTables& tables, int micro_batch, PipelineCount pipelines, double limit,
            const NodeLoad* load = nullptr);

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
  /// The same between two nodes.
  [[nodiscard]] double outer_transfer(int from, int to) const {
    return outer_transfers_[static_cast<std::size_t>(from) * ports_.size() + static_cast<std::size_t>(to)];
  }
  /// Devices that a stage on a port leaves free on its node.
  [[nodiscard]] int room(int port) const { return rooms_[static_cast<std::size_t>(port)]; }
  /// The tail of an option of the range class where `taken` devices of its node hold later stages of its pipeline, at
  /// least.
  [[nodiscard]] double tail(const MenuOption& option, int range_class, int taken) const {
    return tails_of(option.variant, range_class)[static_cast<std::size_t>(taken / taken_step_)];
  }
  /// A stage's part of the time that its pipeline spends on links, both ways, where no link counts more than
  /// link_cap(): one way of the best link on either side, as both ends of a link pay half of the two ways over it, and
  /// its charge for links between nodes, which no pipeline can avoid (NodeCharges). Negative where an end of the
  /// pipeline has less of that than it takes back. Over all stages of a pipeline no more than its links take; over its
  /// first stages no more than the links between them, the next one and cut_charge().
  [[nodiscard]] double links(int port, bool first, bool last) const {
    if (first && last) return 0.0;
    const auto p = static_cast<std::size_t>(port);
    const double end = -charges_.of_end[p];
    return (first ? end : link_in_[p]) + (last ? end : link_out_[p]) + charges_.of_stage[p];
  }
  [[nodiscard]] double cut_charge() const { return charges_.of_cut; }
  /// Links count no more than this in the window terms, where one link is lost to rounding.
  [[nodiscard]] double link_cap() const { return link_cap_; }
  [[nodiscard]] double least_tail() const { return least_tail_; }
  [[nodiscard]] const Split& split(int variant) const {
    return stages_->variants()[static_cast<std::size_t>(variant)].split;
  }

 private:
  [[nodiscard]] std::span<const double> tails_of(int variant, int range_class) const {
    const auto v = static_cast<std::size_t>(variant);
    const std::size_t first = first_tails_[v] + static_cast<std::size_t>(range_class) * taken_steps_[v];
    return {tails_.data() + first, taken_steps_[v]};
  }
  void add_tails(SearchTables& tables, PipelineCount pipelines, const NodeLoad* load);

  int micro_batch_ = 1;
  const RangeClasses* ranges_ = nullptr;
  const StageTable* stages_ = nullptr;
  int depth_ = 1;
  std::vector<Port> ports_;
  std::vector<int> space_ports_;
  std::vector<std::uint32_t> starts_;  // [range class][in flight - 1][port]
  std::vector<MenuOption> options_;
  std::vector<char> same_;  // [range class][in flight - 1]
  int taken_step_ = 1;
  std::vector<std::size_t> taken_steps_;  // [variant]
  std::vector<std::size_t> first_tails_;  // [variant]: places in tails_
  std::vector<double> tails_;             // [variant][range class][taken / taken_step_]
  std::vector<int> rooms_;                // [port]
  std::vector<double> transfers_;
  std::vector<double> outer_transfers_;
  std::vector<double> link_in_;   // [port]: least time of a link to a port; no more than link_cap()
  std::vector<double> link_out_;  // [port]: and from it
  NodeCharges charges_;
  double link_cap_ = 0.0;
  double least_tail_ = kInfinity;
};

}  // namespace hpplan
