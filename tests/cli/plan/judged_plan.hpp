#pragma once

#include <string>
#include <utility>
#include <vector>

#include "emit/plan_json.hpp"
#include "io/cluster_reader.hpp"
#include "io/model_reader.hpp"
#include "io/profile_reader.hpp"
#include "predict/evaluate.hpp"
#include "predict/plan_stamp.hpp"
#include "support/builders.hpp"
#include "support/files.hpp"

namespace hpplan::testing {

/// GPT-3 350M on two A100s and two RTX 3090s, planned by hand: one pipeline of two stages, TP 2 each.
/// Layers 0..25: embedding, 24 blocks, head.
inline std::string hand_made_plan() {
  const auto text = [](const std::string& path) { return test::file_text(test::source_path(path)); };
  ModelSpec model = parse_model(text("configs/models/gpt3-350m.yaml"), "gpt3-350m.yaml");
  const auto types = parse_device_types(text("profiles/devices.yaml"), "devices.yaml");
  ClusterSpec cluster = parse_cluster(text("configs/clusters/a100-3090-4.yaml"), "a100-3090-4.yaml", types);
  std::vector<DeviceProfile> profiles;
  for (const char* name : {"gpt3-350m.a100-80gb.json", "gpt3-350m.rtx-3090.json"}) {
    profiles.push_back(parse_profile(text(std::string("profiles/") + name), name));
  }
  Job job;
  job.global_batch = 32;
  job.micro_batches = {1, 2, 4};
  const Problem problem = make_problem(std::move(model), std::move(cluster), ProfileTable(std::move(profiles)), job);
  Plan plan = evaluate(problem, {pipeline_of(problem, 2, 16, {{0, 0, 0, 2, 1, {0, 19}}, {1, 0, 0, 2, 1, {19, 26}}})});
  plan.lower_bound = plan.iteration_time * 0.9;
  return plan_json(make_plan_file(problem, plan));
}

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  return at == std::string::npos ? std::string("not found: ") + from : text.replace(at, from.size(), to);
}

}  // namespace hpplan::testing
