#include "predict/judge.hpp"

#include <algorithm>
#include <functional>
#include <string>

#include "predict/evaluate.hpp"
#include "predict/plan_stamp.hpp"
#include "support/builders.hpp"
#include "support/catch.hpp"

using namespace hpplan;
using namespace hpplan::testing;

namespace {

PlanFile good_file() {
  const Problem problem = mixed_problem();
  return make_plan_file(problem, mixed_plan(problem));
}

/// The judge's view of a file: the problem is made from what the file says, as the command does.
Judgement judge(PlanFile file) {
  const Problem made = mixed_problem();
  const Problem problem = make_problem(made.model, made.cluster, made.profiles, job_to_judge(file));
  return judge_plan(problem, file);
}

std::string fields(const Judgement& judgement) {
  std::string all;
  for (const Difference& difference : judgement.differences) all += difference.field + ";";
  return all;
}

struct Corruption {
  const char* name;
  std::function<void(PlanFile&)> damage;
  const char* field;  // at least one difference must be here
};

StagePlan& stage(PlanFile& file, std::size_t p, std::size_t s) { return file.plan.pipelines[p].stages[s]; }

const std::vector<Corruption>& corruptions() {
  static const std::vector<Corruption> all = {
      {"model name", [](PlanFile& f) { f.problem.model.name = "other"; }, "problem.model.name"},
      {"model digest", [](PlanFile& f) { f.problem.model.digest = "other"; }, "problem.model.digest"},
      {"cluster digest", [](PlanFile& f) { f.problem.cluster.digest = "other"; }, "problem.cluster.digest"},
      {"profile digest", [](PlanFile& f) { f.problem.profile_digest = "other"; }, "problem.profile.digest"},
      {"profile names", [](PlanFile& f) { f.problem.profiles.pop_back(); }, "problem.profile.names"},
      {"global batch", [](PlanFile& f) { f.problem.job.global_batch = 25; }, "problem.global_batch"},
      {"micro-batches", [](PlanFile& f) { f.plan.pipelines[1].micro_batches = 7; }, "problem.global_batch"},
      {"micro-batch size", [](PlanFile& f) { f.plan.pipelines[0].micro_batch = 3; },
       "pipelines[0].stages[1].data_parallel"},
      {"huge micro-batch", [](PlanFile& f) { f.plan.pipelines[1].micro_batch = 1 << 30; }, "problem.global_batch"},
      {"micro-batch not allowed", [](PlanFile& f) { f.problem.job.micro_batches = {2}; }, "pipelines[1].micro_batch"},
      {"layer hole", [](PlanFile& f) { stage(f, 0, 1).layers.first = 6; }, "pipelines[0].stages[1].layers"},
      {"layer twice", [](PlanFile& f) { stage(f, 0, 1).layers.first = 4; }, "pipelines[0].stages[1].layers"},
      {"embedding left out", [](PlanFile& f) { stage(f, 0, 0).layers.first = 1; }, "pipelines[0].stages[0].layers"},
      {"head left out", [](PlanFile& f) { stage(f, 0, 1).layers.last = 7; }, "pipelines[0]"},
      {"layer too many", [](PlanFile& f) { stage(f, 0, 1).layers.last = 9; }, "pipelines[0]"},
      {"layers moved", [](PlanFile& f) { stage(f, 1, 0).layers.last = stage(f, 1, 1).layers.first = 5; },
       "pipelines[1].stages[0].forward_s"},
      {"schedule name", [](PlanFile& f) { f.plan.pipelines[0].schedule = "1f2b"; }, "pipelines[0].schedule"},
      {"schedule not allowed", [](PlanFile& f) { f.plan.pipelines[0].schedule = "gpipe"; }, "pipelines[0].schedule"},
      {"device of no node", [](PlanFile& f) { f.placements[0][0].devices[0].node = "none"; },
       "pipelines[0].stages[0].devices[0]"},
      {"device index", [](PlanFile& f) { f.placements[0][0].devices[0].device = 4; },
       "pipelines[0].stages[0].devices[0]"},
      {"device twice",
       [](PlanFile& f) {
         f.placements[1][0].devices[0] = {"fast-0", 0};
         f.placements[1][0].ranks[0] = 0;
       },
       "pipelines[1].stages[0].devices"},
      {"device missing",
       [](PlanFile& f) {
         f.placements[0][0].devices.pop_back();
         f.placements[0][0].ranks.pop_back();
       },
       "pipelines[0].stages[0].devices"},
      {"rank", [](PlanFile& f) { f.placements[0][1].ranks[0] = 7; }, "pipelines[0].stages[1].ranks[0]"},
      {"rank missing", [](PlanFile& f) { f.placements[0][1].ranks.pop_back(); }, "pipelines[0].stages[1].ranks"},
      {"node group", [](PlanFile& f) { f.placements[0][1].node_group = "fast"; }, "pipelines[0].stages[1].devices[0]"},
      {"unknown node group", [](PlanFile& f) { f.placements[0][1].node_group = "fist"; },
       "pipelines[0].stages[1].node_group"},
      {"tensor parallel", [](PlanFile& f) { stage(f, 0, 0).tensor_parallel = 1; }, "pipelines[0].stages[0].devices"},
      {"heads", [](PlanFile& f) { stage(f, 0, 0).tensor_parallel = 3; }, "pipelines[0].stages[0].tensor_parallel"},
      {"degrees swapped", [](PlanFile& f) { std::swap(stage(f, 0, 1).tensor_parallel, stage(f, 0, 1).data_parallel); },
       "pipelines[0].stages[1].memory_bytes.parameters"},
      {"recompute range",
       [](PlanFile& f) {
         stage(f, 0, 0).recompute[0].layers = {4, 6};
       },
       "pipelines[0].stages[0].recompute"},
      {"recompute operators", [](PlanFile& f) { stage(f, 0, 0).recompute[0].operators = {"score"}; },
       "pipelines[0].stages[0].recompute"},
      {"recompute dropped", [](PlanFile& f) { stage(f, 0, 0).recompute.clear(); },
       "pipelines[0].stages[0].memory_bytes.activations"},
      {"recompute forbidden", [](PlanFile& f) { f.problem.job.constraints.allow_recompute = false; },
       "pipelines[0].stages[0].recompute"},
      {"forward", [](PlanFile& f) { stage(f, 1, 0).forward = stage(f, 1, 0).forward * 1.001; },
       "pipelines[1].stages[0].forward_s"},
      {"backward", [](PlanFile& f) { stage(f, 1, 1).backward = stage(f, 1, 1).backward * 0.999; },
       "pipelines[1].stages[1].backward_s"},
      {"link", [](PlanFile& f) { stage(f, 0, 0).link = stage(f, 0, 0).link * 2.0; }, "pipelines[0].stages[0].link_s"},
      {"in flight", [](PlanFile& f) { stage(f, 0, 0).in_flight = 1; }, "pipelines[0].stages[0].in_flight"},
      {"provenance", [](PlanFile& f) { stage(f, 0, 0).provenance = Provenance::Modelled; },
       "pipelines[0].stages[0].provenance"},
      {"parameters", [](PlanFile& f) { stage(f, 0, 0).memory.parameters += Bytes{1}; },
       "pipelines[0].stages[0].memory_bytes.parameters"},
      {"gradients", [](PlanFile& f) { stage(f, 0, 0).memory.gradients -= Bytes{1}; },
       "pipelines[0].stages[0].memory_bytes.gradients"},
      {"optimizer", [](PlanFile& f) { stage(f, 0, 1).memory.optimizer += Bytes{1}; },
       "pipelines[0].stages[1].memory_bytes.optimizer"},
      {"activations", [](PlanFile& f) { stage(f, 0, 1).memory.activations += Bytes{1}; },
       "pipelines[0].stages[1].memory_bytes.activations"},
      {"workspace", [](PlanFile& f) { stage(f, 0, 1).memory.workspace += Bytes{1}; },
       "pipelines[0].stages[1].memory_bytes.workspace"},
      {"other", [](PlanFile& f) { stage(f, 0, 1).memory.other += Bytes{1}; },
       "pipelines[0].stages[1].memory_bytes.other"},
      {"capacity", [](PlanFile& f) { stage(f, 0, 1).capacity += Bytes{1}; },
       "pipelines[0].stages[1].memory_bytes.capacity"},
      {"margin", [](PlanFile& f) { f.problem.job.memory_margin = Bytes{1}; },
       "pipelines[0].stages[0].memory_bytes.capacity"},
      {"does not fit", [](PlanFile& f) { f.problem.job.framework_overhead = Bytes{33LL << 30}; },
       "pipelines[0].stages[1].memory_bytes.total"},
      {"pipeline time", [](PlanFile& f) { f.plan.pipelines[1].time = Seconds{1.0}; }, "pipelines[1].time_s"},
      {"bubble", [](PlanFile& f) { f.plan.pipelines[1].bubble = 0.0; }, "pipelines[1].bubble"},
      {"sync method", [](PlanFile& f) { f.plan.gradient_sync.method = GradientSyncMethod::TensorWise; },
       "gradient_sync.method"},
      {"sync time", [](PlanFile& f) { f.plan.gradient_sync_time = f.plan.gradient_sync_time * 0.5; },
       "gradient_sync_time_s"},
      {"tensor-wise time", [](PlanFile& f) { f.plan.gradient_sync.tensor_wise = Seconds{0.0}; },
       "gradient_sync.tensor_wise_s"},
      {"group missing", [](PlanFile& f) { f.plan.gradient_sync.groups.pop_back(); }, "gradient_sync.groups"},
      {"group rank", [](PlanFile& f) { f.plan.gradient_sync.groups[0].ranks.back() += 1; },
       "gradient_sync.groups[0].ranks"},
      {"group bytes", [](PlanFile& f) { f.plan.gradient_sync.groups[0].bytes += Bytes{1}; },
       "gradient_sync.groups[0].bytes"},
      {"block", [](PlanFile& f) { f.plan.gradient_sync.groups[0].blocks[0].end *= 0.5; },
       "gradient_sync.groups[0].blocks[0]"},
      {"block missing", [](PlanFile& f) { f.plan.gradient_sync.groups[0].blocks.pop_back(); },
       "gradient_sync.groups[0].blocks"},
      {"optimizer time", [](PlanFile& f) { f.plan.optimizer_time = Seconds{1.0}; }, "optimizer_time_s"},
      {"slowest pipeline", [](PlanFile& f) { f.plan.pipeline_time = f.plan.pipelines[1].time * 0.9; },
       "pipeline_time_s"},
      {"iteration time", [](PlanFile& f) { f.plan.iteration_time = f.plan.iteration_time * 1.01; }, "iteration_time_s"},
      {"bound above the time", [](PlanFile& f) { f.plan.lower_bound = f.plan.iteration_time * 1.001; },
       "lower_bound_s"},
      {"no bound", [](PlanFile& f) { f.plan.lower_bound = Seconds{0.0}; }, "lower_bound_s"},
      {"gap", [](PlanFile& f) { f.figures.gap = 0.0; }, "gap"},
      {"samples per second", [](PlanFile& f) { f.figures.samples_per_s *= 2.0; }, "samples_per_s"},
      {"tokens per second", [](PlanFile& f) { f.figures.tokens_per_s *= 2.0; }, "tokens_per_s"},
      {"utilisation", [](PlanFile& f) { f.figures.mfu *= 2.0; }, "mfu"},
      {"balance of pipelines", [](PlanFile& f) { f.plan.inter_pipeline_imbalance += 0.1; }, "balance.inter_pipeline"},
      {"balance of stages", [](PlanFile& f) { f.plan.intra_pipeline_imbalance[1] += 0.1; },
       "balance.intra_pipeline[1]"},
      {"idle device left out", [](PlanFile& f) { f.idle_devices.clear(); }, "idle_devices"},
      {"busy device called idle",
       [](PlanFile& f) {
         f.idle_devices.push_back({"fast-0", 0});
       },
       "idle_devices"},
      {"idle device of no node", [](PlanFile& f) { f.idle_devices[0].node = "none"; }, "idle_devices[0]"},
      {"too many pipelines",
       [](PlanFile& f) {
         f.problem.job.constraints.pipelines = {1, 1};
       },
       "pipelines"},
      {"too few stages",
       [](PlanFile& f) {
         f.problem.job.constraints.stages = {3, -1};
       },
       "pipelines[0].stages"},
      {"degree not allowed", [](PlanFile& f) { f.problem.job.constraints.tensor_parallel = {1}; },
       "pipelines[0].stages[0].tensor_parallel"},
      {"parts of nodes", [](PlanFile& f) { f.problem.job.constraints.whole_nodes = true; },
       "pipelines[0].stages[0].devices"},
      {"types mixed", [](PlanFile& f) { f.problem.job.constraints.type_pure = true; },
       "pipelines[0].stages[1].node_group"},
  };
  return all;
}

}  // namespace

TEST_CASE("the judge finds nothing wrong with a good plan", "[judge]") {
  const Judgement judgement = judge(good_file());
  CHECK(judgement.recomputed);
  CHECK(fields(judgement).empty());
}

TEST_CASE("the judge finds every kind of corruption", "[judge]") {
  for (const Corruption& corruption : corruptions()) {
    CAPTURE(corruption.name);
    PlanFile file = good_file();
    corruption.damage(file);
    const Judgement judgement = judge(std::move(file));
    const auto& differences = judgement.differences;
    INFO(fields(judgement));
    CHECK(std::any_of(differences.begin(), differences.end(),
                      [&](const Difference& difference) { return difference.field == corruption.field; }));
  }
}

TEST_CASE("a tensor-parallel group over two nodes is refused unless the job allows it", "[judge]") {
  // Two nodes of two devices; one stage with TP 4 over both.
  ProblemSpec spec;
  spec.groups[0].nodes = 2;
  spec.groups[0].devices_per_node = 2;
  spec.job.constraints.tensor_parallel_across_nodes = true;
  const Problem problem = problem_of(spec);
  Plan plan = evaluate(problem, {pipeline_of(problem, 1, 8, {{0, 0, 0, 4, 1, {0, 6}}})});
  plan.lower_bound = plan.iteration_time;
  PlanFile file = make_plan_file(problem, plan);
  CHECK(fields(judge_plan(problem, file)).empty());
  file.problem.job.constraints.tensor_parallel_across_nodes = false;
  CHECK(fields(judge_plan(problem, file)) == "pipelines[0].stages[0].tensor_parallel;");
}

TEST_CASE("numbers of a plan written by hand may be rounded as far as the tolerance says", "[judge]") {
  PlanFile file = good_file();
  file.plan.pipelines[0].time = file.plan.pipelines[0].time * (1.0 + 5e-4);
  const Problem problem = mixed_problem();
  CHECK_FALSE(judge_plan(problem, file).ok());
  CHECK(judge_plan(problem, file, {1e-3}).ok());
}
