#include "search/stage_menu.hpp"

#include <algorithm>

#include "search/useful_options.hpp"

namespace hpplan {

namespace {

/// The window terms lose one round trip over a link: counted for no more than this part of the limit, a slow link costs
/// the bound less than it gives.
constexpr double kLinkShare = 2e-3;

}  // namespace

StageMenu::StageMenu(SearchTables& tables, int micro_batch, PipelineCount pipelines, double limit)
    : micro_batch_(micro_batch), ranges_(&tables.ranges()) {
  const StageTable& stages = tables.stages(micro_batch);
  const Space& space = tables.space();
  stages_ = &stages;
  depth_ = stages.max_in_flight();
  for (int p = 0; p < static_cast<int>(space.ports.size()); ++p) {
    if (stages.first_variant(p) == stages.first_variant(p + 1)) continue;
    ports_.push_back(space.ports[static_cast<std::size_t>(p)]);
    space_ports_.push_back(p);
  }
  std::vector<MenuOption> options;
  std::vector<double> tails;  // of every variant
  for (int c = 0; c < ranges_->count(); ++c) {
    tails.clear();
    for (int v = 0; v < static_cast<int>(stages.variants().size()); ++v) {
      tails.push_back(stages.optimizer(v, c) + own_sync_share(tables, stages, v, c, pipelines));
    }
    for (int w = 1; w <= depth_; ++w) {
      for (const int port : space_ports_) {
        starts_.push_back(static_cast<std::uint32_t>(options_.size()));
        options.clear();
        for (int v = stages.first_variant(port); v < stages.first_variant(port + 1); ++v) {
          const MenuOption option{stages.time(v, c, w), tails[static_cast<std::size_t>(v)], v};
          if (option.time + option.tail <= limit) add_if_useful(options, option);
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
  for (const int from : space_ports_) {
    for (const int to : space_ports_) {
      transfers_.push_back(links[static_cast<std::size_t>(from) * space.ports.size() + static_cast<std::size_t>(to)]);
      if (transfers_.back() < kInfinity) link_cap_ = std::max(link_cap_, transfers_.back());
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
}

}  // namespace hpplan
