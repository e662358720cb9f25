#include <algorithm>
#include <map>

#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "emit/detail/export_support.hpp"
#include "emit/export.hpp"
#include "io/framework_schedules.hpp"
#include "io/framework_strategies.hpp"
#include "io/import_hosts.hpp"
#include "support/catch.hpp"
#include "support/random_plan.hpp"

namespace hpplan {
namespace {

using testing::PlanMaker;
using testing::PlanShape;

constexpr unsigned kRounds = 150;

std::map<std::string, std::string> files_of(const ExportResult& result) {
  std::map<std::string, std::string> files;
  for (const ExportFile& file : result.files) files[file.path] = file.text;
  return files;
}

/// Everything fits, and recomputed layers cost time.
Plan priced(std::vector<PipelinePlan> pipelines) {
  Plan plan;
  plan.iteration_time = Seconds{1.0};
  for (const PipelinePlan& pipeline : pipelines) {
    for (const StagePlan& stage : pipeline.stages) {
      for (const RecomputeRange& range : stage.recompute)
        plan.iteration_time = plan.iteration_time + Seconds{0.01 * range.layers.size()};
    }
  }
  plan.pipelines = std::move(pipelines);
  return plan;
}

struct Case {
  ModelSpec model = testing::llama_model(12, 512, 8, 8, 1024, 32000);
  ClusterSpec cluster = testing::flat_cluster(24);
  Plan plan;

  Case(unsigned seed, const PlanShape& shape) { plan = PlanMaker(model, cluster, seed).make(shape); }
  [[nodiscard]] ExportRequest request() const { return {plan, model, cluster, "plan.json", false, false, priced}; }
};

std::vector<int> block_counts(const PipelinePlan& pipeline, const ModelSpec& model) {
  std::vector<int> counts;
  for (const StagePlan& stage : pipeline.stages) counts.push_back(detail::blocks_of(stage, model).size());
  return counts;
}

std::vector<int> recompute_counts(const PipelinePlan& pipeline, const ModelSpec& model) {
  std::vector<int> counts;
  for (const StagePlan& stage : pipeline.stages) counts.push_back(detail::full_recompute_count(stage, model));
  return counts;
}

bool is_refused(const ExportRequest& request, ExportResult (*write)(const ExportRequest&), const std::string& field) {
  try {
    (void)write(request);
  } catch (const InputError& error) {
    return std::any_of(error.diagnostics().begin(), error.diagnostics().end(),
                       [&](const Diagnostic& d) { return d.field.find(field) != std::string::npos; });
  }
  return false;
}

TEST_CASE("torch carries every plan", "[export][property]") {
  for (unsigned seed = 0; seed < kRounds; ++seed) {
    CAPTURE(seed);
    const PlanShape shape{1 + static_cast<int>(seed % 4), false, false, false, false, false, true};
    const Case c(seed, shape);
    const auto files = files_of(export_torch(c.request()));
    const TorchManifest manifest = read_torch_manifest(files.at("manifest.json"), "manifest.json");
    REQUIRE(manifest.pipelines.size() == c.plan.pipelines.size());
    for (std::size_t p = 0; p < manifest.pipelines.size(); ++p) {
      const PipelinePlan& plan = c.plan.pipelines[p];
      const TorchManifest::Pipeline& read = manifest.pipelines[p];
      const int stages = static_cast<int>(plan.stages.size());
      CHECK(read.micro_batch == plan.micro_batch);
      CHECK(static_cast<int>(read.stages.size()) == stages);
      for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        CHECK(LayerRange{read.stages[s].first_layer, read.stages[s].last_layer} == plan.stages[s].layers);
        CHECK(read.stages[s].tensor_parallel == plan.stages[s].tensor_parallel);
      }
      const auto rows = read_torch_schedule(files.at(read.csv), read.csv, {stages, stages, plan.micro_batches});
      // 1F1B: the first stage warms up with one forward per later stage.
      CHECK(rows[0][static_cast<std::size_t>(std::min(plan.micro_batches, stages)) - 1].action == 'F');
    }
  }
}

TEST_CASE("megatron carries equal pipelines of one degree", "[export][property]") {
  for (unsigned seed = 0; seed < kRounds; ++seed) {
    CAPTURE(seed);
    Case c(seed, {1 + static_cast<int>(seed % 3), true, true, false, true, true, false});
    const int whole = static_cast<int>(seed % 4);
    for (PipelinePlan& pipeline : c.plan.pipelines) {
      for (StagePlan& stage : pipeline.stages) {
        std::vector<std::set<std::string>> operators(
            static_cast<std::size_t>(detail::blocks_of(stage, c.model).size()));
        const auto all = recomputable_operators(c.model.kind_of(1));
        for (std::size_t i = 0; i < operators.size() && static_cast<int>(i) < whole; ++i)
          operators[i] = {all.begin(), all.end()};
        detail::set_recompute(stage, operators, c.model);
      }
    }
    const auto files = files_of(export_megatron(c.request()));
    const PipelinePlan& first = c.plan.pipelines.front();
    int world = 0;
    for (const PipelinePlan& pipeline : c.plan.pipelines)
      world += static_cast<int>(detail::places_of(pipeline.stages).size());
    const MegatronJob job = read_megatron_arguments(files.at("megatron.args"), "megatron.args", world);
    CHECK(job.data_parallel == first.stages[0].data_parallel * static_cast<int>(c.plan.pipelines.size()));
    CHECK(job.micro_batches == first.micro_batches);
    std::vector<int> layers;
    for (const LayoutEntry& entry : job.layout) layers.push_back(entry.layers);
    if (first.stages.size() > 1) CHECK(layers == block_counts(first, c.model));
    const std::vector<int> counts = recompute_counts(first, c.model);
    CHECK(job.recompute_layers == *std::max_element(counts.begin(), counts.end()));
    // Ranks go tp, dp, pp: the table lists all devices once.
    CHECK(std::count(files.at("ranks.tsv").begin(), files.at("ranks.tsv").end(), '\n') == world + 1);
  }
}

TEST_CASE("megatron: stages that differ go to one file per node, or are approximated at a price",
          "[export][property]") {
  int differing = 0;
  for (unsigned seed = 0; seed < kRounds; ++seed) {
    CAPTURE(seed);
    const Case c(seed, {1, true, true, false, true, true, true});
    const PipelinePlan& pipeline = c.plan.pipelines.front();
    ExportRequest request = c.request();
    const bool plain = !is_refused(request, export_megatron, "recompute");
    if (plain) continue;
    ++differing;
    request.per_node = true;
    const auto files = files_of(export_megatron(request));
    const std::vector<int> counts = recompute_counts(pipeline, c.model);
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
      const std::string node = node_name(c.cluster, pipeline.stages[s].devices.front());
      const MegatronJob job = read_megatron_arguments(files.at("arguments/" + node + ".args"), node,
                                                      static_cast<int>(detail::places_of(pipeline.stages).size()));
      CHECK(job.recompute_layers == counts[s]);
    }
    request.per_node = false;
    request.approximate = true;
    const ExportResult result = export_megatron(request);
    REQUIRE(result.changes.size() == 1);
    CHECK(result.changes.front().text.find("one recompute policy") != std::string::npos);
  }
  CHECK(differing > 20);
}

TEST_CASE("flagscale carries degrees per stage", "[export][property]") {
  for (unsigned seed = 0; seed < kRounds; ++seed) {
    CAPTURE(seed);
    const Case c(seed, {1, true, false, false, true, true, true});
    const auto files = files_of(export_flagscale(c.request()));
    const PipelinePlan& pipeline = c.plan.pipelines.front();
    const FlagScaleJob job = read_flagscale_train(files.at("train/hetero.yaml"), "hetero.yaml");
    check_flagscale_hosts(job, files.at("hostfile"), "hostfile");
    CHECK(job.split == block_counts(pipeline, c.model));
    CHECK(job.micro_batches == pipeline.micro_batches);
    CHECK(job.global_batch == pipeline.micro_batch * pipeline.micro_batches);
    const std::vector<int> counts = recompute_counts(pipeline, c.model);
    if (std::any_of(counts.begin(), counts.end(), [](int n) { return n > 0; })) CHECK(job.recompute_layers == counts);
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
      CHECK(job.meshes[s].tensor == pipeline.stages[s].tensor_parallel);
      CHECK(job.meshes[s].data == pipeline.stages[s].data_parallel);
    }
  }
}

TEST_CASE("hetu carries pipelines of different depth", "[export][property]") {
  for (unsigned seed = 0; seed < kRounds; ++seed) {
    CAPTURE(seed);
    Case c(seed, {1 + static_cast<int>(seed % 4), false, false, false, true, true, true});
    std::vector<std::vector<int>> layers;
    std::vector<int> micro_batches;
    for (PipelinePlan& pipeline : c.plan.pipelines) {
      for (StagePlan& stage : pipeline.stages) {
        stage.data_parallel = 1;
        stage.devices.resize(static_cast<std::size_t>(stage.tensor_parallel));
      }
      layers.push_back(block_counts(pipeline, c.model));
      micro_batches.push_back(pipeline.micro_batches);
    }
    const auto files = files_of(export_hetu(c.request()));
    const HetuStrategy strategy = read_hetu_strategy(files.at("strategy.yaml"), "strategy.yaml");
    CHECK(strategy.layers == layers);
    CHECK(strategy.micro_batches == micro_batches);
    std::vector<int> used;
    for (const auto& [rank, device] : strategy.devices) {
      if (std::find(strategy.unused.begin(), strategy.unused.end(), rank) == strategy.unused.end())
        used.push_back(device);
    }
    std::vector<int> planned;
    for (const DevicePlace& place : detail::places_of(c.plan.pipelines)) planned.push_back(rank_of(c.cluster, place));
    CHECK(used == planned);
  }
}

TEST_CASE("galvatron carries stages of equal size", "[export][property]") {
  for (unsigned seed = 0; seed < kRounds; ++seed) {
    CAPTURE(seed);
    Case c(seed, {1, true, false, true, true, true, true});
    const PipelinePlan& pipeline = c.plan.pipelines.front();
    const bool ends_differ = pipeline.stages.front().tensor_parallel != pipeline.stages.back().tensor_parallel;
    if (ends_differ) {
      CHECK(is_refused(c.request(), export_galvatron,
                       concat("stages[", pipeline.stages.size() - 1, "].tensor_parallel")));
      continue;
    }
    const auto files = files_of(export_galvatron(c.request()));
    const GalvatronStrategy strategy = read_galvatron_strategy(files.at("galvatron_config.json"), "g.json",
                                                               4 * static_cast<int>(pipeline.stages.size()));
    CHECK(strategy.division == block_counts(pipeline, c.model));
    CHECK(strategy.chunks == pipeline.micro_batches);
    std::size_t layer = 0;
    for (const StagePlan& stage : pipeline.stages) {
      const LayerRange blocks = detail::blocks_of(stage, c.model);
      for (int i = blocks.first; i < blocks.last; ++i, ++layer) {
        CHECK(strategy.tensor_parallel[layer] == stage.tensor_parallel);
        CHECK(strategy.checkpoint[layer] == (detail::recomputed_operators(stage, i).empty() ? 0 : 1));
      }
    }
  }
}

TEST_CASE("mindformers carries recomputation per stage and operator", "[export][property]") {
  for (unsigned seed = 0; seed < kRounds; ++seed) {
    CAPTURE(seed);
    const Case c(seed, {1 + static_cast<int>(seed % 2), true, true, false, true, false, true});
    const PipelinePlan& pipeline = c.plan.pipelines.front();
    const auto files = files_of(export_mindformers(c.request()));
    const MindFormersJob job = read_mindformers(files.at("mindformers.yaml"), "mf.yaml");
    CHECK(job.layers == block_counts(pipeline, c.model));
    CHECK(job.data * job.batch * job.micro_batches ==
          pipeline.micro_batch * pipeline.micro_batches * static_cast<int>(c.plan.pipelines.size()));
    const std::vector<int> whole = recompute_counts(pipeline, c.model);
    if (!job.recompute.empty()) CHECK(job.recompute == whole);
    int partial = 0;
    for (const StagePlan& stage : pipeline.stages) {
      for (const RecomputeRange& range : stage.recompute)
        partial += range.operators.size() == 1 ? range.layers.size() : 0;
    }
    int read = 0;
    for (const auto& [cell, counts] : job.recompute_cells) {
      for (const int count : counts) read += count;
    }
    CHECK(read == partial);
  }
}

TEST_CASE("metis rows carry one pipeline", "[export][property]") {
  for (unsigned seed = 0; seed < kRounds; ++seed) {
    CAPTURE(seed);
    const Case c(seed, {1, true, false, false, true, true, false});
    const PipelinePlan& pipeline = c.plan.pipelines.front();
    const MetisRow row = read_metis_row(files_of(export_metis(c.request())).at("metis.txt"), "metis.txt");
    CHECK(row.batches == pipeline.micro_batches);
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
      CHECK(row.strategies[s] ==
            std::vector<int>{pipeline.stages[s].data_parallel, pipeline.stages[s].tensor_parallel});
      CHECK(row.layer_partition[s + 1] == pipeline.stages[s].layers.last);
    }
  }
}

TEST_CASE("what a target cannot carry is refused by field and stage, never homogenised", "[export][property]") {
  for (unsigned seed = 0; seed < kRounds; ++seed) {
    CAPTURE(seed);
    Case c(seed, {2, false, false, false, false, false, true});
    c.plan.pipelines[1].micro_batch = c.plan.pipelines[0].micro_batch * 2;
    for (const auto write : {export_megatron, export_flagscale, export_galvatron, export_mindformers, export_metis}) {
      CHECK(is_refused(c.request(), write, "pipelines[1].micro_batch"));
      ExportRequest approximate = c.request();
      approximate.approximate = true;
      CHECK(is_refused(approximate, write, "pipelines[1].micro_batch"));
    }
    // Hetu: the size of a replica counts; one replica each makes it the size of the pipeline.
    for (PipelinePlan& pipeline : c.plan.pipelines) {
      for (StagePlan& stage : pipeline.stages) {
        stage.data_parallel = 1;
        stage.devices.resize(static_cast<std::size_t>(stage.tensor_parallel));
        stage.recompute.clear();
      }
    }
    CHECK(is_refused(c.request(), export_hetu, "pipelines[1].micro_batch"));
  }
}

TEST_CASE("a degree that differs is refused at its stage", "[export][property]") {
  int found = 0;
  for (unsigned seed = 0; seed < kRounds; ++seed) {
    CAPTURE(seed);
    const Case c(seed, {1, true, false, false, true, true, false});
    const auto& stages = c.plan.pipelines.front().stages;
    for (std::size_t s = 1; s < stages.size(); ++s) {
      if (stages[s].tensor_parallel == stages[0].tensor_parallel) continue;
      ++found;
      CHECK(is_refused(c.request(), export_megatron, concat("pipelines[0].stages[", s, "].tensor_parallel")));
      CHECK(is_refused(c.request(), export_mindformers, concat("pipelines[0].stages[", s, "].tensor_parallel")));
    }
  }
  CHECK(found > 20);
}

TEST_CASE("partial recomputation is rounded up only when asked, and at a stated price", "[export][property]") {
  int found = 0;
  for (unsigned seed = 0; seed < kRounds; ++seed) {
    CAPTURE(seed);
    const Case c(seed, {1, true, true, false, true, false, true});
    const auto& stages = c.plan.pipelines.front().stages;
    const bool partial = std::any_of(stages.begin(), stages.end(), [](const StagePlan& stage) {
      return !stage.recompute.empty() && stage.recompute.front().operators.size() == 1;
    });
    if (!partial) continue;
    ++found;
    for (const auto write : {export_flagscale, export_galvatron}) {
      CHECK(is_refused(c.request(), write, "recompute"));
      ExportRequest request = c.request();
      request.approximate = true;
      const ExportResult result = write(request);
      REQUIRE(result.changes.size() == 1);
      CHECK(to_text(result.changes.front()).find("recomputation rounded up to whole layers: predicted") == 0);
      // A change that does not fit is refused.
      request.evaluate = [](std::vector<PipelinePlan> pipelines) {
        Plan plan = priced(std::move(pipelines));
        for (StagePlan& stage : plan.pipelines.front().stages) {
          for (const RecomputeRange& range : stage.recompute) {
            if (range.operators.size() > 1) stage.memory.other = stage.capacity + Bytes{1};
          }
        }
        return plan;
      };
      const bool had_whole = std::any_of(stages.begin(), stages.end(), [](const StagePlan& stage) {
        return !stage.recompute.empty() && stage.recompute.front().operators.size() > 1;
      });
      if (!had_whole) CHECK(is_refused(request, write, "memory_bytes"));
    }
  }
  CHECK(found > 20);
}

TEST_CASE("slurm files list every rank once", "[export][property]") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const Case c(seed, {2, false, false, false, false, false, true});
    const auto files = files_of(export_slurm(c.request()));
    const auto places = detail::places_of(c.plan.pipelines);
    CHECK(std::count(files.at("ranks.tsv").begin(), files.at("ranks.tsv").end(), '\n') ==
          static_cast<long>(places.size()) + 1);
    CHECK(files.at("job.sbatch").find(concat("export WORLD_SIZE=", places.size(), "\n")) != std::string::npos);
  }
}

}  // namespace
}  // namespace hpplan
