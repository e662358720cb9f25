#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "predict/evaluate.hpp"
#include "predict/gradient_sync.hpp"
#include "predict/placed_sync.hpp"
#include "support/builders.hpp"
#include "support/catch.hpp"

using namespace hpplan;
using namespace hpplan::testing;

namespace {

class RandomPlans {
 public:
  explicit RandomPlans(unsigned seed) : random_(seed) {}

  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  Problem problem() {
    ProblemSpec spec;
    spec.groups.clear();
    const int groups = pick(1, 2);
    for (int g = 0; g < groups; ++g) {
      GroupSpec group;
      group.name = g == 0 ? "x" : "y";
      group.nodes = pick(1, 3);
      group.devices_per_node = 1 << pick(0, 3);
      group.intra_GBps = pick(1, 400);
      group.inter_GBps = pick(1, 400);  // now and then faster than the inner link
      group.intra_latency_s = pick(0, 1) * 1e-6;
      group.inter_latency_s = pick(0, 1) * 1e-5;
      spec.groups.push_back(group);
    }
    spec.model.blocks = pick(1, 4);
    spec.model.block_parameters = pick(100, 1000000);
    spec.model.tied = pick(0, 1) == 1;
    spec.job.micro_batches = {64};
    return problem_of(spec);
  }

  std::vector<std::size_t> order(std::size_t count) {
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

  /// Every group's devices are dealt in order to stages of random size; each pipeline takes a few of them.
  std::vector<PipelinePlan> pipelines(const Problem& problem) {
    std::vector<StageSpec> stages;
    for (int g = 0; g < problem.cluster.group_count(); ++g) {
      const NodeGroup& group = problem.cluster.node_groups[static_cast<std::size_t>(g)];
      for (int node = 0; node < group.nodes;) {
        const int whole = pick(0, 2) == 0 ? pick(1, group.nodes - node) : 0;
        if (whole > 0) {
          stages.push_back(split({g, node, 0, 1, 1, {}}, whole * group.devices_per_node, group.devices_per_node));
          node += whole;
          continue;
        }
        const int size = std::min(group.devices_per_node, 1 << pick(0, 3));
        for (int first = 0; first + size <= group.devices_per_node; first += size) {
          stages.push_back(split({g, node, first, 1, 1, {}}, size, size));
        }
        ++node;
      }
    }
    std::shuffle(stages.begin(), stages.end(), random_);
    return assemble(problem, stages);
  }

 private:
  StageSpec split(StageSpec stage, int devices, int limit) {
    std::vector<int> degrees;
    for (int tp = 1; tp <= limit; tp *= 2) {
      if (devices % tp == 0 && 64 % (devices / tp) == 0) degrees.push_back(tp);
    }
    // 3 nodes give DP degrees that do not divide 64; the All-Reduce does not care, so any degree will do.
    stage.tensor_parallel =
        degrees.empty() ? 1 : degrees[static_cast<std::size_t>(pick(0, static_cast<int>(degrees.size()) - 1))];
    stage.data_parallel = devices / stage.tensor_parallel;
    return stage;
  }

  std::vector<PipelinePlan> assemble(const Problem& problem, const std::vector<StageSpec>& stages) {
    const int layers = problem.model.layer_count();
    std::vector<PipelinePlan> pipelines;
    for (std::size_t next = 0; next < stages.size();) {
      const auto depth =
          static_cast<std::size_t>(pick(1, std::min({3, layers, static_cast<int>(stages.size() - next)})));
      std::vector<StageSpec> mine(stages.begin() + static_cast<std::ptrdiff_t>(next),
                                  stages.begin() + static_cast<std::ptrdiff_t>(next + depth));
      int first = 0;
      for (std::size_t s = 0; s < depth; ++s) {
        const int left = static_cast<int>(depth - s) - 1;
        const int last = left == 0 ? layers : pick(first + 1, layers - left);
        mine[s].layers = {first, last};
        first = last;
      }
      pipelines.push_back(pipeline_of(problem, 64, 1, mine));
      next += depth;
    }
    return pipelines;
  }

  std::mt19937 random_;
};

/// How often the layer least held by the plan is held, over the layers of the stage.
int replicas_of(const std::vector<PipelinePlan>& pipelines, LayerRange layers) {
  int least = 1 << 20;
  for (int layer = layers.first; layer < layers.last; ++layer) {
    int held = 0;
    for (const PipelinePlan& pipeline : pipelines) {
      for (const StagePlan& stage : pipeline.stages) held += stage.layers.contains(layer) ? stage.data_parallel : 0;
    }
    least = std::min(least, held);
  }
  return least;
}

/// Whether each of the layers has replicas on more than one node.
bool is_spread(const std::vector<PipelinePlan>& pipelines, LayerRange layers) {
  for (int layer = layers.first; layer < layers.last; ++layer) {
    std::set<std::pair<int, int>> nodes;
    for (const PipelinePlan& pipeline : pipelines) {
      for (const StagePlan& stage : pipeline.stages) {
        if (!stage.layers.contains(layer)) continue;
        for (const DevicePlace& place : stage.devices) nodes.insert({place.group, place.node});
      }
    }
    if (nodes.size() < 2) return false;
  }
  return true;
}

Bytes held_bytes(const Problem& problem, const StagePlan& stage) {
  Bytes held;
  for (int layer = stage.layers.first; layer < stage.layers.last; ++layer) {
    // The gradient of a tied head is layer 0's.
    if (problem.model.tied_embeddings && layer == problem.model.layer_count() - 1) continue;
    held += Bytes{layer_gradient_bytes(problem.model, layer).count() / stage.tensor_parallel};
  }
  return held;
}

}  // namespace

TEST_CASE("the bound of a plan whose stages are placed one by one ends just below its time", "[bound][property]") {
  RandomPlans plans(12);
  int close = 0;
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    const Problem problem = plans.problem();
    const std::vector<PipelinePlan> pipelines = plans.pipelines(problem);
    const double time = predict_gradient_sync(problem, pipelines).time.value();
    std::vector<Bytes> layer_bytes;
    for (int layer = 0; layer < problem.model.layer_count(); ++layer) {
      layer_bytes.push_back(layer_gradient_bytes(problem.model, layer));
    }
    std::vector<SyncStage> stages;
    std::vector<std::vector<int>> nodes;
    for (const PipelinePlan& pipeline : pipelines) {
      for (const StagePlan& stage : pipeline.stages) {
        stages.push_back({stage.node_group, static_cast<int>(stage.devices.size()), stage.tensor_parallel,
                          stage.data_parallel, stage.layers});
        std::set<int> on;
        for (const DevicePlace& place : stage.devices) on.insert(place.node);
        nodes.emplace_back(on.begin(), on.end());
      }
    }
    PlacedSync sync(problem, stages, layer_bytes);
    const std::vector<std::size_t> order = plans.order(stages.size());
    std::vector<double> bounds{sync.at_least().value()};
    for (const std::size_t stage : order) {
      const double raised = sync.place(stage, nodes[stage]).value();
      bounds.push_back(sync.at_least().value());
      CHECK(raised <= bounds.back());
      CHECK(std::max(raised, bounds[bounds.size() - 2]) >= bounds.back() * (1.0 - 1e-9));
    }
    CHECK(std::is_sorted(bounds.begin(), bounds.end(), [](double a, double b) { return a < b * (1.0 - 1e-9); }));
    CHECK(bounds.back() <= time * (1.0 + 1e-12));
    close += bounds.back() >= 0.9 * time ? 1 : 0;
    for (std::size_t k = order.size(); k-- > 0;) {
      sync.lift();
      CHECK(std::abs(sync.at_least().value() - bounds[k]) <= 1e-9 * time);
    }
  }
  CHECK(close > 1200);
}

TEST_CASE("the bound of the gradient synchronisation is never above the time of any method", "[bound][property]") {
  RandomPlans plans(11);
  int positive = 0;
  int spread = 0;
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    const Problem problem = plans.problem();
    const std::vector<PipelinePlan> pipelines = plans.pipelines(problem);
    const GradientSync sync = predict_gradient_sync(problem, pipelines);
    const Seconds fastest = std::min({sync.device_wise, sync.tensor_wise, sync.block_wise});
    for (const PipelinePlan& pipeline : pipelines) {
      for (const StagePlan& stage : pipeline.stages) {
        const int replicas = replicas_of(pipelines, stage.layers);
        const SyncShape shape{stage.node_group, static_cast<int>(stage.devices.size()), stage.tensor_parallel, replicas,
                              is_spread(pipelines, stage.layers)};
        spread += shape.spread ? 1 : 0;
        const Seconds bound = gradient_sync_lower_bound(problem, shape, held_bytes(problem, stage));
        positive += bound > Seconds{0.0} ? 1 : 0;
        CAPTURE(stage.node_group, stage.devices.size(), stage.tensor_parallel, replicas);
        CHECK(bound.value() <= fastest.value() * (1.0 + 1e-12));
      }
    }
  }
  CHECK(positive > 2000);
  CHECK(spread > 500);
}
