#include "search/space.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace hpplan {

ResourceSpace::ResourceSpace(const std::vector<int>& limits, const std::vector<int>& units) : units_(units) {
  for (std::size_t g = 0; g < limits.size(); ++g) {
    limits_.push_back(limits[g] / units[g]);
    radices_.push_back(g == 0 ? limits_[g] + 1 : 2 * limits_[g] + 1);
  }
  strides_.resize(limits_.size());
  for (std::size_t g = limits_.size(); g-- > 0;) {
    strides_[g] = size_;
    size_ *= radices_[g];
  }
  for (int index = 0; index < size_; ++index) {
    bool inside = true;
    for (std::size_t g = 0; g < limits_.size(); ++g) inside = inside && index / strides_[g] % radices_[g] <= limits_[g];
    valid_.push_back(inside ? 1 : 0);
    if (inside) vectors_.push_back(index);
  }
}

int ResourceSpace::step(int group, int devices) const {
  const auto g = static_cast<std::size_t>(group);
  return devices / units_[g] * strides_[g];
}

int ResourceSpace::count(int index, int group) const {
  const auto g = static_cast<std::size_t>(group);
  return index / strides_[g] % radices_[g] * units_[g];
}

bool ResourceSpace::contains(int outer, int inner) const {
  for (int g = 0; g < groups(); ++g) {
    if (count(inner, g) > count(outer, g)) return false;
  }
  return true;
}

int room_beside(const ClusterSpec& cluster, const Port& port) {
  return std::max(0, cluster.node_groups[static_cast<std::size_t>(port.group)].devices_per_node - port.devices);
}

std::vector<int> port_sizes(const NodeGroup& group, const Constraints& constraints) {
  std::set<int> sizes;
  if (!constraints.whole_nodes) {
    for (int size = 1; size < group.devices_per_node; ++size) {
      const bool power_of_two = (size & (size - 1)) == 0;
      if (size % constraints.part_unit != 0) continue;
      if (power_of_two || group.devices_per_node % size == 0) sizes.insert(size);
    }
  }
  for (int nodes = 1; nodes <= group.nodes; ++nodes) sizes.insert(nodes * group.devices_per_node);
  return {sizes.begin(), sizes.end()};
}

std::vector<int> port_sizes(const Problem& problem, int group) {
  const NodeGroup& nodes = problem.cluster.node_groups[static_cast<std::size_t>(group)];
  std::vector<int> sizes = port_sizes(nodes, problem.job.constraints);
  const int whole = problem.places.whole_nodes(group) * nodes.devices_per_node;
  const int part = problem.places.largest_node(group);
  std::erase_if(sizes, [&](int size) { return size > (size < nodes.devices_per_node ? part : whole); });
  return sizes;
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

int Space::find(const Port& port) const {
  const auto place = std::lower_bound(ports.begin(), ports.end(), port);
  return place == ports.end() || *place != port ? -1 : static_cast<int>(place - ports.begin());
}

bool space_is_countable(const Problem& problem, double most) {
  double indices = 1.0;
  for (int g = 0; g < problem.cluster.group_count(); ++g) {
    const std::vector<int> sizes = port_sizes(problem, g);
    const int unit = std::accumulate(sizes.begin(), sizes.end(), 0, std::gcd<int, int>);
    if (unit > 0) indices *= 2.0 * problem.places.device_count(g) / unit + 1.0;  // as ResourceSpace lays them out
  }
  return indices <= most;
}

bool has_stage_shapes(const Problem& problem) {
  const std::vector<int>& micro_batches = problem.job.micro_batches;
  for (int g = 0; g < problem.cluster.group_count(); ++g) {
    for (const int size : port_sizes(problem, g)) {
      for (const Split& split : splits_of(problem, {g, size})) {
        const auto shared = [&split](int b) { return b % split.data_parallel == 0; };
        if (std::any_of(micro_batches.begin(), micro_batches.end(), shared)) return true;
      }
    }
  }
  return false;
}

Space make_space(const Problem& problem, int coarseness) {
  Space space;
  space.coarseness = coarseness;
  std::vector<int> limits;
  std::vector<int> units;
  for (int g = 0; g < problem.cluster.group_count(); ++g) {
    int unit = 0;
    const std::vector<int> sizes = port_sizes(problem, g);
    for (const int size : sizes) {
      if (size % std::min(coarseness, sizes.back()) != 0) continue;
      const Port port{g, size};
      std::vector<Split> splits = splits_of(problem, port);
      if (splits.empty()) continue;
      unit = std::gcd(unit, size);
      space.ports.push_back(port);
      space.splits.push_back(std::move(splits));
    }
    // A group that no stage can use adds no vectors: they would keep coarser spaces from getting smaller.
    limits.push_back(unit == 0 ? 0 : problem.places.device_count(g));
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
