#include "support/builders.hpp"

#include "base/text.hpp"
#include "predict/evaluate.hpp"

namespace hpplan::testing {

void link_groups(ClusterSpec& cluster) {
  for (const NodeGroup& a : cluster.node_groups) {
    std::vector<Link>& row = cluster.group_links.emplace_back();
    for (const NodeGroup& b : cluster.node_groups) {
      row.push_back({std::min(a.inter_node.bandwidth, b.inter_node.bandwidth),
                     std::max(a.inter_node.latency, b.inter_node.latency)});
    }
  }
}

ClusterSpec cluster_of(const std::vector<GroupSpec>& specs) {
  ClusterSpec cluster;
  cluster.name = "test-cluster";
  cluster.digest = "cluster-digest";
  for (std::size_t g = 0; g < specs.size(); ++g) {
    const GroupSpec& spec = specs[g];
    cluster.device_types.push_back(
        {spec.name, spec.memory, FlopPerSecond{spec.peak_tflops * 1e12}, BytesPerSecond{spec.memory_GBps * 1e9}});
    NodeGroup group;
    group.name = spec.name;
    group.device_type = static_cast<int>(g);
    group.nodes = spec.nodes;
    group.devices_per_node = spec.devices_per_node;
    group.intra_node = {BytesPerSecond{spec.intra_GBps * 1e9}, Seconds{spec.intra_latency_s}};
    group.inter_node = {BytesPerSecond{spec.inter_GBps * 1e9}, Seconds{spec.inter_latency_s}};
    for (int n = 0; n < spec.nodes; ++n) group.node_names.push_back(concat(spec.name, "-", n));
    cluster.node_groups.push_back(std::move(group));
  }
  link_groups(cluster);
  return cluster;
}

ModelSpec model_of(const ModelShape& shape) {
  ModelSpec model;
  model.name = "test-model";
  model.family = "custom";
  model.hidden = shape.hidden;
  model.sequence = shape.sequence;
  model.vocabulary = shape.vocabulary;
  model.vocabulary_multiple = 1;
  model.tied_embeddings = shape.tied;
  model.norm = NormKind::RmsNorm;
  model.digest = "model-digest";
  LayerKind embedding;
  embedding.name = "embedding";
  embedding.role = LayerRole::Embedding;
  LayerKind block;
  block.name = "block";
  if (shape.heads > 0) {
    block.attention = AttentionShape{shape.heads, shape.heads, shape.hidden / shape.heads, false, false, false, false};
    block.mlp = MlpShape{4 * shape.hidden, false, false, 0, 0, 0};
  } else {
    block.stated = StatedLayer{shape.block_parameters, Flop{1e9}, Bytes{1 << 20}};
  }
  LayerKind head;
  head.name = "head";
  head.role = LayerRole::Head;
  model.kinds = {std::move(embedding), std::move(block), std::move(head)};
  model.layers.push_back(0);
  for (int i = 0; i < shape.blocks; ++i) model.layers.push_back(1);
  model.layers.push_back(2);
  return model;
}

namespace {

ProfilePoint point(double forward, double backward, Bytes saved, double work) {
  ProfilePoint point;
  point.forward = Seconds{forward * work};
  point.backward = Seconds{backward * work};
  point.known_saved = true;
  point.saved = Bytes{static_cast<std::int64_t>(saved.value() * work)};
  return point;
}

}  // namespace

DeviceProfile profile_of(const std::string& type, const ModelSpec& model, const TableTimes& times) {
  DeviceProfile profile;
  profile.device_type = type;
  profile.model = model.name;
  profile.origin = "stated by a test";
  profile.digest = "profile-digest-" + type;
  for (int degree = 1; degree <= 16; degree *= 2) {
    for (int samples = 1; samples <= 64; samples *= 2) {
      const double work = static_cast<double>(samples) / degree;
      profile.points["embedding"][degree][samples] =
          point(times.embedding_forward, times.embedding_backward, Bytes{0}, work);
      profile.points["block"][degree][samples] =
          point(times.block_forward, times.block_backward, times.block_saved, work);
      profile.points["head"][degree][samples] = point(times.head_forward, times.head_backward, Bytes{0}, work);
    }
  }
  return profile;
}

Job ProblemSpec::small_job(int global_batch) {
  Job job;
  job.global_batch = global_batch;
  job.micro_batches = {1, 2, 4, 8};
  job.framework_overhead = Bytes{0};
  return job;
}

Problem problem_of(const ProblemSpec& spec) {
  ModelSpec model = model_of(spec.model);
  ClusterSpec cluster = cluster_of(spec.groups);
  std::vector<DeviceProfile> profiles;
  for (std::size_t g = 0; g < spec.groups.size(); ++g) {
    profiles.push_back(profile_of(spec.groups[g].name, model, spec.times[std::min(g, spec.times.size() - 1)]));
  }
  return make_problem(std::move(model), std::move(cluster), ProfileTable(std::move(profiles)), spec.job);
}

StagePlan stage_of(const Problem& problem, const StageSpec& spec) {
  const int per_node = problem.cluster.node_groups[static_cast<std::size_t>(spec.group)].devices_per_node;
  StagePlan stage;
  stage.node_group = spec.group;
  stage.layers = spec.layers;
  stage.tensor_parallel = spec.tensor_parallel;
  stage.data_parallel = spec.data_parallel;
  for (int d = 0; d < spec.tensor_parallel * spec.data_parallel; ++d) {
    const int device = spec.first + d;
    stage.devices.push_back({spec.group, spec.node + device / per_node, device % per_node});
  }
  return stage;
}

PipelinePlan pipeline_of(const Problem& problem, int micro_batch, int micro_batches,
                         const std::vector<StageSpec>& stages) {
  PipelinePlan pipeline;
  pipeline.micro_batch = micro_batch;
  pipeline.micro_batches = micro_batches;
  for (const StageSpec& stage : stages) pipeline.stages.push_back(stage_of(problem, stage));
  return pipeline;
}

Problem mixed_problem() {
  ProblemSpec spec;
  GroupSpec fast;
  fast.name = "fast";
  fast.inter_latency_s = 5e-6;
  GroupSpec slow;
  slow.name = "slow";
  slow.memory = Bytes{32LL << 30};
  slow.inter_latency_s = 5e-6;
  spec.groups = {fast, slow};
  spec.model.blocks = 6;
  spec.model.heads = 4;
  spec.model.hidden = 64;
  spec.model.sequence = 32;
  spec.model.vocabulary = 96;
  TableTimes slower;
  slower.block_forward = 0.020;
  slower.block_backward = 0.040;
  spec.times = {TableTimes{}, slower};
  spec.job.global_batch = 24;
  return problem_of(spec);
}

Plan mixed_plan(const Problem& problem) {
  // Layers: embedding 0, blocks 1..6, head 7. Pipeline 0: 2 devices of each type; pipeline 1: 2 fast, 1 slow.
  std::vector<PipelinePlan> pipelines{pipeline_of(problem, 2, 8, {{0, 0, 0, 2, 1, {0, 5}}, {1, 0, 0, 1, 2, {5, 8}}}),
                                      pipeline_of(problem, 1, 8, {{0, 0, 2, 2, 1, {0, 6}}, {1, 0, 2, 1, 1, {6, 8}}})};
  pipelines[0].stages[0].recompute = {{{1, 3}, {"score", "softmax"}}};
  Plan plan = evaluate(problem, std::move(pipelines));
  plan.lower_bound = plan.iteration_time * 0.98;
  plan.notes = {"stage times of \"slow\" are stated by a test"};
  return plan;
}

}  // namespace hpplan::testing
