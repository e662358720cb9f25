// Plans from numbers made up on the spot: no file is read. Eight layers of a model nobody has measured, on a node of
// two fast devices and a node of two slow ones.
#include <iostream>
#include <string>
#include <utility>

#include "emit/summary.hpp"
#include "predict/plan_stamp.hpp"
#include "predict/problem.hpp"
#include "search/engine.hpp"

namespace {

using namespace hpplan;

LayerKind layer_kind(const char* name, LayerRole role) {
  LayerKind kind;
  kind.name = name;
  kind.role = role;
  return kind;
}

ModelSpec made_up_model(int blocks) {
  ModelSpec model;
  model.name = "made-up";
  model.family = "custom";
  model.hidden = 1024;
  model.sequence = 512;
  model.vocabulary = 32000;
  LayerKind block = layer_kind("block", LayerRole::Block);
  block.attention = AttentionShape{16, 16, 64, true};  // heads, key/value heads, width of a head, fused
  block.mlp = MlpShape{4096};
  model.kinds = {layer_kind("embedding", LayerRole::Embedding), block, layer_kind("head", LayerRole::Head)};
  model.layers.push_back(0);
  model.layers.insert(model.layers.end(), static_cast<std::size_t>(blocks), 1);
  model.layers.push_back(2);
  return model;
}

NodeGroup node_of_two(const std::string& name, int device_type) {
  NodeGroup group;
  group.name = name;
  group.device_type = device_type;
  group.nodes = 1;
  group.devices_per_node = 2;
  group.intra_node = {BytesPerSecond{100e9}, Seconds{3e-6}};
  group.inter_node = {BytesPerSecond{25e9}, Seconds{5e-6}};
  group.node_names = {name};
  return group;
}

ClusterSpec made_up_cluster() {
  ClusterSpec cluster;
  cluster.name = "two-and-two";
  cluster.device_types = {{"fast", Bytes{40'000'000'000}, FlopPerSecond{300e12}, BytesPerSecond{2e12}},
                          {"slow", Bytes{24'000'000'000}, FlopPerSecond{100e12}, BytesPerSecond{1e12}}};
  cluster.node_groups = {node_of_two("f", 0), node_of_two("s", 1)};
  const Link between = cluster.node_groups[0].inter_node;
  cluster.group_links = {{between, between}, {between, between}};
  return cluster;
}

/// A block takes 2 ms forward and twice that backward for each sample on the fast devices, three times as much on the
/// slow ones, and a t-th with tensor parallelism t. What is not stated here, such as the bytes kept, is modelled.
DeviceProfile made_up_times(const std::string& device, double factor) {
  DeviceProfile profile;
  profile.device_type = device;
  profile.model = "made-up";
  profile.origin = "made up";
  const std::pair<const char*, double> forward_times[] = {{"embedding", 0.0001}, {"block", 0.002}, {"head", 0.001}};
  for (const auto& [kind, forward] : forward_times) {
    for (const int degree : {1, 2}) {
      for (const int samples : {1, 2, 4, 8}) {
        ProfilePoint& point = profile.points[kind][degree][samples];
        point.forward = Seconds{forward * factor * samples / degree};
        point.backward = point.forward * 2.0;
      }
    }
  }
  return profile;
}

}  // namespace

int main() {
  Job job;
  job.global_batch = 64;
  job.micro_batches = {1, 2, 4, 8};
  const ProfileTable times({made_up_times("fast", 1.0), made_up_times("slow", 3.0)});
  const Problem problem = make_problem(made_up_model(8), made_up_cluster(), times, job);
  const SearchResult result = find_plan(problem, {});
  if (result.plans.empty()) return 1;
  std::cout << plan_summary(make_plan_file(problem, result.plans.front()));
}
