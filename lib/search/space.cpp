#include "search/space.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace hpplan {

ResourceSpace::ResourceSpace(std::vector<int> limits, std::vector<int> units)
    : limits_(std::move(limits)), units_(std::move(units)) {
  for (std::size_t g = 0; g < limits_.size(); ++g) limits_[g] /= units_[g];
  strides_.resize(limits_.size());
  // The last group varies fastest: the inner loops of the tables run along it.
  for (std::size_t g = limits_.size(); g-- > 0;) {
    strides_[g] = size_;
    size_ *= limits_[g] + 1;
  }
}

int ResourceSpace::step(int group, int devices) const {
  const auto g = static_cast<std::size_t>(group);
  return devices / units_[g] * strides_[g];
}

int ResourceSpace::count(int index, int group) const {
  const auto g = static_cast<std::size_t>(group);
  return index / strides_[g] % (limits_[g] + 1) * units_[g];
}

int ResourceSpace::limit(int group) const {
  const auto g = static_cast<std::size_t>(group);
  return limits_[g] * units_[g];
}

bool ResourceSpace::fits(int index, int group, int devices) const {
  return count(index, group) + devices <= limit(group);
}

bool ResourceSpace::contains(int outer, int inner) const {
  for (int g = 0; g < groups(); ++g) {
    if (count(inner, g) > count(outer, g)) return false;
  }
  return true;
}

int ResourceSpace::block(int group) const {
  const auto g = static_cast<std::size_t>(group);
  return strides_[g] * (limits_[g] + 1);
}

int ResourceSpace::run(int group, int devices) const {
  const auto g = static_cast<std::size_t>(group);
  return strides_[g] * std::max(0, limits_[g] + 1 - devices / units_[g]);
}

std::vector<int> port_sizes(const NodeGroup& group, const Constraints& constraints) {
  std::set<int> sizes;
  if (!constraints.whole_nodes) {
    for (int size = 1; size < group.devices_per_node; ++size) {
      const bool power_of_two = (size & (size - 1)) == 0;
      if (power_of_two || group.devices_per_node % size == 0) sizes.insert(size);
    }
  }
  for (int nodes = 1; nodes <= group.nodes; ++nodes) sizes.insert(nodes * group.devices_per_node);
  return {sizes.begin(), sizes.end()};
}

namespace {

std::vector<Split> splits_of(const Problem& problem, const Port& port) {
  const NodeGroup& group = problem.cluster.node_groups[static_cast<std::size_t>(port.group)];
  const int largest_batch = problem.job.micro_batches.back();
  std::vector<Split> splits;
  for (const int tp : problem.costs.degrees(port.group)) {
    if (port.devices % tp != 0) continue;
    // A TP group lies inside a node: on whole nodes it must divide the node, unless it spans whole nodes itself.
    const bool spans = tp > group.devices_per_node;
    if (!spans && port.devices > group.devices_per_node && group.devices_per_node % tp != 0) continue;
    if (port.devices / tp > largest_batch) continue;
    splits.push_back({tp, port.devices / tp});
  }
  return splits;
}

}  // namespace

Space make_space(const Problem& problem, int min_devices) {
  Space space;
  std::vector<int> limits;
  std::vector<int> units;
  for (int g = 0; g < problem.cluster.group_count(); ++g) {
    const NodeGroup& group = problem.cluster.node_groups[static_cast<std::size_t>(g)];
    int unit = 0;
    for (const int size : port_sizes(group, problem.job.constraints)) {
      if (size % std::min(min_devices, group.device_count()) != 0) continue;
      const Port port{g, size};
      std::vector<Split> splits = splits_of(problem, port);
      if (splits.empty()) continue;
      unit = std::gcd(unit, size);
      space.ports.push_back(port);
      space.splits.push_back(std::move(splits));
    }
    limits.push_back(group.device_count());
    units.push_back(std::max(1, unit));
  }
  space.resources = ResourceSpace(limits, units);
  const Constraints& constraints = problem.job.constraints;
  int most = 0;
  for (std::size_t g = 0; g < limits.size(); ++g) most += limits[g] / units[g];
  space.max_stages = std::min(problem.model.layer_count(), most);
  if (constraints.stages.max > 0) space.max_stages = std::min(space.max_stages, constraints.stages.max);
  space.max_pipelines = most;
  if (constraints.pipelines.max > 0) space.max_pipelines = std::min(space.max_pipelines, constraints.pipelines.max);
  return space;
}

}  // namespace hpplan
