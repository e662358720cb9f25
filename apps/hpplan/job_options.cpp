#include "job_options.hpp"

#include <variant>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/diagnostic.hpp"
#include "io/job_reader.hpp"
#include "io/quantity.hpp"
#include "schedule/table.hpp"

namespace hpplan {

namespace {

constexpr int kMaxMicroBatch = 4096;
constexpr int kMaxTensorParallel = 4096;

Bytes parse_size(const std::string& option, const std::string& text) {
  const std::variant<Bytes, QuantityFault> parsed = parse_quantity<Bytes>(text);
  if (const auto* fault = std::get_if<QuantityFault>(&parsed)) {
    throw InputError(Diagnostic{"", 0, 0, option, fault->message, fault->hint});
  }
  return std::get<Bytes>(parsed);
}

/// Runs `read` and keeps what it refuses, so that all faults of a command line are shown at once.
template <typename Read>
void collect(std::vector<Diagnostic>& faults, const Read& read) {
  try {
    read();
  } catch (const InputError& error) {
    faults.insert(faults.end(), error.diagnostics().begin(), error.diagnostics().end());
  }
}

}  // namespace

void add_job_options(CLI::App& verb, JobOptions& options) {
  const char* const job = "Job";
  verb.add_option("--global-batch", options.global_batch, "samples of one optimizer step")->required()->group(job);
  verb.add_option("--micro-batch", options.micro_batch, "allowed micro-batch sizes in samples (default 1,2,4,...,64)")
      ->type_name("LIST")
      ->group(job);
  verb.add_option("--schedule", options.schedule,
                  "allowed schedule families (default 1f1b); see hpplan schedule --help")
      ->type_name("LIST")
      ->group(job);
  verb.add_option("--tolerance", options.tolerance,
                  "accept a plan within (1 + ALPHA) of the best, for a faster search (default 0: the best)")
      ->type_name("ALPHA")
      ->group(job);
  verb.add_option("--memory-margin", options.memory_margin, "memory kept free on every device (default 0 B)")
      ->type_name("SIZE")
      ->group(job);
  verb.add_option("--framework-overhead", options.framework_overhead,
                  "memory that the framework takes on every device (default 1 GiB)")
      ->type_name("SIZE")
      ->group(job);
  verb.add_flag("--shard-optimizer", options.shard_optimizer,
                "split optimizer states over the data-parallel replicas of a stage")
      ->group(job);
  verb.add_flag("--overlap-gradient-sync", options.overlap_gradient_sync,
                "hide the gradient All-Reduce in the drain of the pipelines where it fits")
      ->group(job);

  const char* const limits = "Constraints";
  verb.add_option("--pipelines", options.pipelines, "number of pipelines: N, MIN..MAX, MIN.. or ..MAX")
      ->type_name("LIMIT")
      ->group(limits);
  verb.add_option("--stages", options.stages, "stages of each pipeline: N, MIN..MAX, MIN.. or ..MAX")
      ->type_name("LIMIT")
      ->group(limits);
  verb.add_option("--tensor-parallel", options.tensor_parallel, "allowed TP degrees (default: all that fit)")
      ->type_name("LIST")
      ->group(limits);
  verb.add_flag("--tensor-parallel-across-nodes", options.tensor_parallel_across_nodes, "TP groups may span nodes")
      ->group(limits);
  verb.add_flag("--whole-nodes", options.whole_nodes, "stages use whole nodes only")->group(limits);
  verb.add_flag("--type-pure", options.type_pure, "a pipeline uses one device type only")->group(limits);
  verb.add_flag("--no-recompute", options.no_recompute, "no activation is recomputed")->group(limits);
}

Job to_job(const JobOptions& options, const ModelSpec& model, const ClusterSpec& cluster) {
  Job job;
  std::vector<Diagnostic> faults;
  job.global_batch = options.global_batch;
  job.tolerance = options.tolerance;
  job.overlap_gradient_sync = options.overlap_gradient_sync;
  job.optimizer_sharding = options.shard_optimizer ? OptimizerSharding::StageDataParallel : OptimizerSharding::None;
  job.constraints.tensor_parallel_across_nodes = options.tensor_parallel_across_nodes;
  job.constraints.whole_nodes = options.whole_nodes;
  job.constraints.type_pure = options.type_pure;
  job.constraints.allow_recompute = !options.no_recompute;
  collect(faults, [&] {
    if (!options.micro_batch.empty()) {
      job.micro_batches = parse_count_list("--micro-batch", options.micro_batch, kMaxMicroBatch);
    }
  });
  collect(faults, [&] {
    if (!options.schedule.empty()) job.schedules = parse_name_list("--schedule", options.schedule);
    for (const std::string& name : job.schedules) (void)schedule_family(name);
  });
  collect(faults, [&] {
    if (!options.memory_margin.empty()) job.memory_margin = parse_size("--memory-margin", options.memory_margin);
  });
  collect(faults, [&] {
    if (!options.framework_overhead.empty()) {
      job.framework_overhead = parse_size("--framework-overhead", options.framework_overhead);
    }
  });
  collect(faults, [&] {
    if (!options.pipelines.empty()) job.constraints.pipelines = parse_count_limit("--pipelines", options.pipelines);
  });
  collect(faults, [&] {
    if (!options.stages.empty()) job.constraints.stages = parse_count_limit("--stages", options.stages);
  });
  collect(faults, [&] {
    if (!options.tensor_parallel.empty()) {
      job.constraints.tensor_parallel =
          parse_count_list("--tensor-parallel", options.tensor_parallel, kMaxTensorParallel);
    }
  });
  if (faults.empty()) faults = job_faults(job, model, cluster);
  if (!faults.empty()) throw InputError(std::move(faults));
  return job;
}

}  // namespace hpplan
