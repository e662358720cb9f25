#include "search/stage_menu.hpp"

#include <algorithm>

#include "predict/gradient_sync.hpp"

namespace hpplan {

namespace {

/// The window terms lose one round trip over a link: counted for no more than this part of the limit, a slow link costs
/// the bound less than it gives.
constexpr double kLinkShare = 2e-3;

/// Least time after the pipelines of a plan that has this stage.
double tail_of(const Problem& problem, const StageTable& stages, const Port& port, int variant, int range_class,
               PipelineCount pipelines, bool spread) {
  const double optimizer = stages.optimizer(variant, range_class);
  if (problem.job.overlap_gradient_sync) return optimizer;
  const Split& split = stages.variants()[static_cast<std::size_t>(variant)].split;
  // Every other pipeline holds each layer of the stage at least once.
  const int replicas = split.data_parallel + pipelines.first - 1;
  const SyncShape shape{port.group, port.devices, split.tensor_parallel, replicas, spread};
  return optimizer + gradient_sync_lower_bound(problem, shape, stages.held(variant, range_class)).value();
}

void add_if_useful(std::vector<MenuOption>& options, const MenuOption& option) {
  const auto covers = [](const MenuOption& a, const MenuOption& b) { return a.time <= b.time && a.tail <= b.tail; };
  if (std::any_of(options.begin(), options.end(), [&](const auto& known) { return covers(known, option); })) return;
  std::erase_if(options, [&](const auto& known) { return covers(option, known); });
  options.push_back(option);
}

}  // namespace

double stage_tail(SearchTables& tables, int micro_batch, const CandidateStage& stage, PipelineCount pipelines,
                  bool spread) {
  const StageTable& stages = tables.stages(micro_batch);
  return tail_of(tables.problem(), stages, tables.space().ports[static_cast<std::size_t>(stage.port)],
                 stages.variant_of(stage.port, stage.split), tables.ranges().of(stage.layers.first, stage.layers.last),
                 pipelines, spread);
}

double pipeline_tail(SearchTables& tables, const Candidate& pipeline, PipelineCount pipelines, bool spread) {
  double most = 0.0;
  for (const CandidateStage& stage : pipeline.stages) {
    most = std::max(most, stage_tail(tables, pipeline.micro_batch, stage, pipelines, spread));
  }
  return most;
}

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
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    const int first = stages.first_variant(space_ports_[i]);
    const int last = stages.first_variant(space_ports_[i] + 1);
    for (int c = 0; c < ranges_->count(); ++c) {
      std::vector<double> tails;
      for (int v = first; v < last; ++v) {
        tails.push_back(tail_of(tables.problem(), stages, ports_[i], v, c, pipelines, false));
      }
      for (int w = 1; w <= depth_; ++w) {
        starts_.push_back(static_cast<std::uint32_t>(options_.size()));
        options.clear();
        for (int v = first; v < last; ++v) {
          const MenuOption option{stages.time(v, c, w), tails[static_cast<std::size_t>(v - first)], v};
          if (option.time + option.tail <= limit) add_if_useful(options, option);
        }
        for (const MenuOption& option : options) least_tail_ = std::min(least_tail_, option.tail);
        options_.insert(options_.end(), options.begin(), options.end());
      }
    }
  }
  starts_.push_back(static_cast<std::uint32_t>(options_.size()));

  const std::vector<double>& links = tables.transfers(micro_batch);
  for (const int from : space_ports_) {
    for (const int to : space_ports_) {
      transfers_.push_back(links[static_cast<std::size_t>(from) * space.ports.size() + static_cast<std::size_t>(to)]);
      if (transfers_.back() < kInfinity) link_cap_ = std::max(link_cap_, transfers_.back());
    }
  }
  link_cap_ = std::min(link_cap_, kLinkShare * limit);
}

}  // namespace hpplan
