#pragma once

#include <string>

#include "domain/cluster.hpp"
#include "domain/job.hpp"
#include "domain/model.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace hpplan {

/// What the command line says about the job, as text; see to_job. Empty: the default of Job.
struct JobOptions {
  int global_batch = 0;
  std::string micro_batch;
  std::string schedule;
  double tolerance = 0.0;
  std::string memory_margin;
  std::string framework_overhead;
  bool shard_optimizer = false;
  bool overlap_gradient_sync = false;
  std::string pipelines;
  std::string stages;
  std::string tensor_parallel;
  bool tensor_parallel_across_nodes = false;
  bool whole_nodes = false;
  bool type_pure = false;
  bool no_recompute = false;
};

/// Adds the options that describe a job to a verb. `options` must live as long as the verb.
void add_job_options(CLI::App& verb, JobOptions& options);

/// The job that the options describe. Throws InputError with everything that contradicts the model or the cluster.
[[nodiscard]] Job to_job(const JobOptions& options, const ModelSpec& model, const ClusterSpec& cluster);

}  // namespace hpplan
