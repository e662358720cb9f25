#include "predict/problem.hpp"

#include <algorithm>
#include <set>

#include "base/check.hpp"
#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "domain/operators.hpp"

namespace hpplan {

namespace {

std::vector<int> usable_degrees(const ModelSpec& model, const NodeGroup& group, const Constraints& constraints) {
  const int limit = constraints.tensor_parallel_across_nodes ? group.device_count() : group.devices_per_node;
  std::vector<int> degrees = allowed_tensor_parallel(model, limit);
  std::erase_if(degrees, [&](int degree) {
    if (degree > group.devices_per_node && degree % group.devices_per_node != 0) return true;
    const auto& allowed = constraints.tensor_parallel;
    return !allowed.empty() && std::find(allowed.begin(), allowed.end(), degree) == allowed.end();
  });
  return degrees;
}

[[noreturn]] void refuse(const std::string& field, const std::string& message, const std::string& hint) {
  throw InputError(Diagnostic{"", 0, 0, field, message, hint});
}

void check_job(const ModelSpec& model, const ClusterSpec& cluster, const Job& job) {
  if (job.global_batch < 1) {
    refuse("global_batch", concat("found ", job.global_batch, ", but a step needs at least 1 sample"),
           "give the number of samples per optimizer step, e.g. --global-batch 1024");
  }
  if (job.micro_batches.empty() || job.micro_batches.front() < 1) {
    refuse("micro_batch", "micro-batch sizes must be whole numbers of at least 1", "e.g. --micro-batch 1,2,4");
  }
  if (job.tolerance < 0.0) {
    refuse("tolerance", concat("found ", job.tolerance, ", allowed is 0 or more"), "e.g. --tolerance 0.01 for 1 %");
  }
  const int widest = cluster.widest_tensor_parallel(job.constraints.tensor_parallel_across_nodes);
  for (const int degree : job.constraints.tensor_parallel) {
    const std::string fault = tensor_parallel_fault(model, degree);
    if (!fault.empty()) refuse("tensor_parallel", fault, "");
    if (degree > widest) {
      refuse("tensor_parallel",
             concat("degree ", degree, " needs ", degree, " devices in one node, the largest has ", widest),
             "use a smaller degree, or --tensor-parallel-across-nodes");
    }
  }
  for (const RuleFault& fault : rule_faults(job.constraints.placement, model, cluster)) {
    refuse(to_text(fault.kind), fault.message, fault.hint);
  }
}

}  // namespace

std::vector<int> replica_samples(const std::vector<int>& micro_batches) {
  std::set<int> samples;
  for (const int micro_batch : micro_batches) {
    for (int degree = 1; degree <= micro_batch; ++degree) {
      if (micro_batch % degree == 0) samples.insert(micro_batch / degree);
    }
  }
  return {samples.begin(), samples.end()};
}

BytesPerSecond inter_node_share(const NodeGroup& group) {
  return group.inter_node.bandwidth / static_cast<double>(group.devices_per_node);
}

Link tensor_parallel_link(const NodeGroup& group, int tensor_parallel) {
  if (tensor_parallel <= group.devices_per_node) return group.intra_node;
  return {inter_node_share(group), group.inter_node.latency};
}

CostTable::CostTable(const ModelSpec& model, const ClusterSpec& cluster, const ProfileTable& profiles, const Job& job)
    : samples_(replica_samples(job.micro_batches)) {
  for (int g = 0; g < cluster.group_count(); ++g) {
    const NodeGroup& group = cluster.node_groups[static_cast<std::size_t>(g)];
    degrees_.push_back(usable_degrees(model, group, job.constraints));
    parameters_.emplace_back();
    for (const int degree : degrees_.back()) {
      std::vector<double>& counts = parameters_.back().emplace_back();
      for (const LayerKind& kind : model.kinds) counts.push_back(device_parameters(model, kind, degree));
      const Link link = tensor_parallel_link(group, degree);
      for (const int samples : samples_) {
        std::vector<LayerCost>& row = costs_.emplace_back();
        for (const LayerKind& kind : model.kinds) {
          row.push_back(profiles.layer_cost(model, kind, cluster.type_of(g), link, degree, samples));
          if (!job.constraints.allow_recompute) row.back().recompute.resize(1);
        }
      }
    }
  }
}

std::size_t CostTable::index(int group, int tensor_parallel, int samples) const {
  std::size_t row = 0;
  for (int g = 0; g < group; ++g) row += degrees_[static_cast<std::size_t>(g)].size();
  const auto& degrees = degrees_[static_cast<std::size_t>(group)];
  const auto degree = std::lower_bound(degrees.begin(), degrees.end(), tensor_parallel);
  const auto sample = std::lower_bound(samples_.begin(), samples_.end(), samples);
  check_invariant(degree != degrees.end() && *degree == tensor_parallel, "TP degree in the cost table");
  check_invariant(sample != samples_.end() && *sample == samples, "sample count in the cost table");
  row += static_cast<std::size_t>(degree - degrees.begin());
  return row * samples_.size() + static_cast<std::size_t>(sample - samples_.begin());
}

bool CostTable::has(int group, int tensor_parallel, int samples) const {
  const auto& degrees = degrees_[static_cast<std::size_t>(group)];
  return std::binary_search(degrees.begin(), degrees.end(), tensor_parallel) &&
         std::binary_search(samples_.begin(), samples_.end(), samples);
}

const LayerCost& CostTable::at(int group, int tensor_parallel, int samples, int kind) const {
  return costs_[index(group, tensor_parallel, samples)][static_cast<std::size_t>(kind)];
}

double CostTable::parameters(int group, int tensor_parallel, int kind) const {
  const auto& degrees = degrees_[static_cast<std::size_t>(group)];
  const auto degree = std::lower_bound(degrees.begin(), degrees.end(), tensor_parallel);
  check_invariant(degree != degrees.end() && *degree == tensor_parallel, "TP degree in the cost table");
  return parameters_[static_cast<std::size_t>(group)][static_cast<std::size_t>(degree - degrees.begin())]
                    [static_cast<std::size_t>(kind)];
}

Problem make_problem(ModelSpec model, ClusterSpec cluster, ProfileTable profiles, Job job) {
  std::sort(job.micro_batches.begin(), job.micro_batches.end());
  job.micro_batches.erase(std::unique(job.micro_batches.begin(), job.micro_batches.end()), job.micro_batches.end());
  check_job(model, cluster, job);
  Problem problem{std::move(model), std::move(cluster), std::move(profiles), std::move(job), {}, {}};
  problem.places = AllowedPlaces(problem.job.constraints.placement, problem.model, problem.cluster);
  problem.costs = CostTable(problem.model, problem.cluster, problem.profiles, problem.job);
  return problem;
}

}  // namespace hpplan
