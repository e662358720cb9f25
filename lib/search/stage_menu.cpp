#include "search/stage_menu.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "search/useful_options.hpp"

namespace hpplan {

namespace {

/// The window terms lose one round trip over a link: counted for no more than this part of the limit, a slow link costs
/// the bound less than it gives.
constexpr double kLinkShare = 2e-3;
/// Tails are known for so many numbers of devices that are taken.
constexpr int kTakenSteps = 16;

}  // namespace

StageMenu::StageMenu(SearchTables& tables, int micro_batch, PipelineCount pipelines, double limit, const NodeLoad* load)
    : micro_batch_(micro_batch), ranges_(&tables.ranges()) {
  const StageTable& stages = tables.stages(micro_batch);
  const Space& space = tables.space();
  stages_ = &stages;
  depth_ = stages.max_in_flight();
  for (int p = 0; p < static_cast<int>(space.ports.size()); ++p) {
    if (stages.first_variant(p) == stages.first_variant(p + 1)) continue;
    ports_.push_back(space.ports[static_cast<std::size_t>(p)]);
    space_ports_.push_back(p);
    rooms_.push_back(room_beside(tables.problem().cluster, ports_.back()));
  }
  add_tails(tables, pipelines, load);
  std::vector<MenuOption> options;
  for (int c = 0; c < ranges_->count(); ++c) {
    const auto covers = [&](const MenuOption& a, const MenuOption& b) {
      const auto tails = tails_of(a.variant, c);
      return a.time <= b.time &&
             std::equal(tails.begin(), tails.end(), tails_of(b.variant, c).begin(), std::less_equal{});
    };
    for (int w = 1; w <= depth_; ++w) {
      for (const int port : space_ports_) {
        starts_.push_back(static_cast<std::uint32_t>(options_.size()));
        options.clear();
        for (int v = stages.first_variant(port); v < stages.first_variant(port + 1); ++v) {
          const MenuOption option{stages.time(v, c, w), tails_of(v, c).front(), v};
          if (option.time + option.tail <= limit) add_if_useful(options, option, covers);
        }
        for (const MenuOption& option : options) least_tail_ = std::min(least_tail_, option.tail);
        options_.insert(options_.end(), options.begin(), options.end());
      }
    }
  }
  starts_.push_back(static_cast<std::uint32_t>(options_.size()));

  for (int c = 0; c < ranges_->count(); ++c) {
    for (int w = 1; w <= depth_; ++w) {
      bool same = w > 1;
      for (int p = 0; same && p < static_cast<int>(ports_.size()); ++p) {
        const auto here = at(p, c, w);
        const auto before = at(p, c, w - 1);
        same = std::equal(here.begin(), here.end(), before.begin(), before.end());
      }
      same_.push_back(same ? 1 : 0);
    }
  }

  const std::vector<double>& links = tables.transfers(micro_batch);
  const std::vector<double>& outer_links = tables.outer_transfers(micro_batch);
  for (const int from : space_ports_) {
    for (const int to : space_ports_) {
      const std::size_t place = static_cast<std::size_t>(from) * space.ports.size() + static_cast<std::size_t>(to);
      transfers_.push_back(links[place]);
      outer_transfers_.push_back(outer_links[place]);
      if (links[place] < kInfinity) link_cap_ = std::max({link_cap_, links[place], outer_links[place]});
    }
  }
  link_cap_ = std::min(link_cap_, kLinkShare * limit);
  link_in_.assign(ports_.size(), link_cap_);
  link_out_ = link_in_;
  for (std::size_t from = 0; from < ports_.size(); ++from) {
    for (std::size_t to = 0; to < ports_.size(); ++to) {
      const double link = transfer(static_cast<int>(from), static_cast<int>(to));
      link_in_[to] = std::min(link_in_[to], link);
      link_out_[from] = std::min(link_out_[from], link);
    }
  }
  std::vector<double> ends;
  for (std::size_t port = 0; port < ports_.size(); ++port) {
    double outer = link_cap_;
    for (std::size_t other = 0; other < ports_.size(); ++other) {
      outer = std::min({outer, outer_transfer(static_cast<int>(port), static_cast<int>(other)),
                        outer_transfer(static_cast<int>(other), static_cast<int>(port))});
    }
    ends.push_back(std::max(0.0, outer - std::max(link_in_[port], link_out_[port])));
  }
  charges_ = node_charges(tables.problem().cluster, ports_, std::move(ends));
}

/// Fills `tails_`: an option's time after the pipelines by the devices of its node that are taken.
void StageMenu::add_tails(SearchTables& tables, PipelineCount pipelines, const NodeLoad* load) {
  const ClusterSpec& cluster = tables.problem().cluster;
  const int node = cluster.largest_node();
  taken_step_ = node > kLargestCountedNode ? node : (node + kTakenSteps - 1) / kTakenSteps;
  for (int v = 0; v < static_cast<int>(stages_->variants().size()); ++v) {
    const int port = stages_->variants()[static_cast<std::size_t>(v)].port;
    const int room = room_beside(cluster, tables.space().ports[static_cast<std::size_t>(port)]);
    taken_steps_.push_back(static_cast<std::size_t>(room / taken_step_) + 1);
    first_tails_.push_back(tails_.size());
    for (int c = 0; c < ranges_->count(); ++c) {
      for (int taken = 0; taken <= room; taken += taken_step_) {
        const double share = own_sync_share(tables, *stages_, v, c, {pipelines, false, taken, load});
        tails_.push_back(stages_->optimizer(v, c) + share);
      }
    }
  }
}

}  // namespace hpplan
