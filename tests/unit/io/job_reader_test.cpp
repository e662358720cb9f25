#include "io/job_reader.hpp"

#include <string>

#include "domain/degrees.hpp"
#include "io/cluster_reader.hpp"
#include "io/model_reader.hpp"
#include "support/catch.hpp"

using namespace hpplan;

namespace {

ModelSpec model_of_heads(int heads) {
  return parse_model("name: g\nfamily: gpt\nlayers: 4\nhidden: " + std::to_string(heads * 64) +
                         "\nheads: " + std::to_string(heads) + "\nsequence: 128\nvocabulary: 1024\n",
                     "m");
}

ClusterSpec node_of(int devices) {
  return parse_cluster(
      "name: c\ndevice_types: [{name: x, memory: 64 GB, peak: 1 TFLOPS, memory_bandwidth: 1 TB/s}]\n"
      "node_groups: [{name: a, device: x, nodes: 1, devices_per_node: " +
          std::to_string(devices) + ", intra_node: {bandwidth: 1 GB/s, latency: 0 s}}]\n",
      "c");
}

/// The faults of a job with these changes, one line each, hints after " | ".
template <typename Change>
std::string faults_of(int devices, const Change& change) {
  Job job;
  job.global_batch = 8;
  change(job);
  std::string text;
  for (const Diagnostic& fault : job_faults(job, model_of_heads(28), node_of(devices))) {
    text += fault.field + ": " + fault.message + " | " + fault.hint + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("lists and limits", "[io][job]") {
  CHECK(parse_count_list("--x", "4,1, 2", 8) == std::vector<int>{1, 2, 4});
  CHECK(parse_count_limit("--x", "4") == CountLimit{4, 4});
  CHECK(parse_count_limit("--x", "2..8") == CountLimit{2, 8});
  CHECK(parse_count_limit("--x", "2..") == CountLimit{2, -1});
  CHECK(parse_count_limit("--x", "..8") == CountLimit{1, 8});
  CHECK(parse_name_list("--x", "1f1b,gpipe") == std::vector<std::string>{"1f1b", "gpipe"});
  for (const char* const text : {"", ",", "1,", "1,1", "0", "-1", "9", "a", "1.5", "99999999999"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_count_list("--x", text, 8), InputError);
  }
  for (const char* const text : {"", "..", "8..2", "0", "a..b", "1...2", "-1..2"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_count_limit("--x", text), InputError);
  }
  CHECK_THROWS_AS(parse_name_list("--x", "a,,b"), InputError);
  CHECK_THROWS_AS(parse_name_list("--x", "a,a"), InputError);
}

TEST_CASE("the global batch is cut into whole micro-batches: A09", "[io][job]") {
  CHECK(batch_fault(4, 1, 8).message ==
        "global batch 4 / (micro-batch 1 x data parallelism 8) = 0.500 micro-batches, needed a whole number of at "
        "least 1");
  const DegreeFault b = batch_fault(12, 2, 4);
  CHECK(b.message.find("= 1.50 micro-batches") != std::string::npos);
  CHECK(b.hint ==
        "use micro-batch 1 (3 micro-batches), or micro-batch 3 (1 micro-batches), or data parallelism 3 (2 "
        "micro-batches), "
        "or data parallelism 6 (1 micro-batches), or global batch 16");
  CHECK(batch_fault(8, 3, 1).message.find("= 2.67 micro-batches") != std::string::npos);
  CHECK(batch_fault(0, 1, 1).message.find("= 0 micro-batches") != std::string::npos);
  CHECK_FALSE(batch_fault(16, 2, 4));
}

TEST_CASE("a job that no split of the batch can serve is bad input", "[io][job]") {
  CHECK(faults_of(4, [](Job&) {}).empty());
  CHECK(faults_of(4, [](Job& job) { job.micro_batches = {3}; }).find("= 2.67 micro-batches") != std::string::npos);
  CHECK(faults_of(4, [](Job& job) { job.micro_batches = {3, 5}; }).empty());  // 3 + 5
  CHECK(faults_of(4,
                  [](Job& job) {
                    job.micro_batches = {5, 7};
                  }) ==
        "--global-batch: 8 samples are no sum of micro-batches of 5, 7 samples | allow a micro-batch of 1 sample, or "
        "change the global batch\n");
  CHECK(faults_of(4, [](Job& job) { job.global_batch = 0; }).find("--global-batch: found 0") == 0);
  CHECK(faults_of(4, [](Job& job) { job.global_batch = -4; }).find("--global-batch: found -4") == 0);
}

TEST_CASE("degrees need devices: A10", "[io][job]") {
  CHECK(faults_of(4, [](Job& job) {
          job.constraints.stages = {4, 4};
          job.constraints.tensor_parallel = {2};
        }) == "--stages: 4 stages x TP 2 needs 8 devices, have 4 | lower one of the degrees\n");
  // The smallest allowed degree counts, in whatever order they are given.
  CHECK(faults_of(4, [](Job& job) {
          job.constraints.stages = {4, 4};
          job.constraints.tensor_parallel = {2, 1};
        }).empty());
  CHECK(
      faults_of(4,
                [](Job& job) {
                  job.constraints.pipelines = {1 << 30, -1};
                  job.constraints.stages = {2, 2};
                  job.constraints.tensor_parallel = {4};
                }) ==
      "--stages: 1073741824 pipelines x 2 stages x TP 4 needs 8589934592 devices, have 4 | lower one of the degrees\n");
  CHECK(device_fault(1 << 30, 1 << 30, 1 << 30, 1 << 30, 8).message.find("needs 1000000000000000 devices") !=
        std::string::npos);
  const DegreeFault fault = expert_device_fault(2, 8, 1, 8);
  CHECK(fault.message == "expert product 2 stages x EP 8 x expert TP 1 needs 16 devices, have 8");
  CHECK(fault.hint == "the largest expert parallelism is 4");
  CHECK_FALSE(expert_device_fault(2, 4, 1, 8));
}

TEST_CASE("TP divides heads: A11", "[io][job]") {
  CHECK(
      faults_of(8, [](Job& job) { job.constraints.tensor_parallel = {8}; }) ==
      "--tensor-parallel: 28 heads are not a multiple of 8 | this model allows 1, 2, 4, 7; the number of stages has no "
      "such limit\n");
  CHECK(faults_of(4, [](Job& job) {
          job.constraints.tensor_parallel = {7};
        }).find("degree 7 needs 7 devices in one node, the largest has 4") != std::string::npos);
}

TEST_CASE("expert parallelism divides experts and the region: A23", "[io][job]") {
  for (const int degree : {3, 16}) {
    CHECK(expert_parallel_fault(64, 8, degree).hint == "use one of 1, 2, 4, 8");
  }
  CHECK_FALSE(expert_parallel_fault(64, 8, 8));
  CHECK_FALSE(expert_parallel_fault(0, 8, 1));
  CHECK(expert_parallel_fault(0, 8, 2).message == "expert parallelism 2 of a model without experts");
}

TEST_CASE("limits that leave nothing", "[io][job]") {
  CHECK(faults_of(8, [](Job& job) {
          job.constraints.stages = {7, 7};
        }).find("7 stages for 6 layers") != std::string::npos);
  CHECK(faults_of(8, [](Job& job) { job.memory_margin = Bytes{64'000'000'000LL}; }).find("leave nothing of") !=
        std::string::npos);
  CHECK(faults_of(8, [](Job& job) { job.tolerance = -0.1; }).find("--tolerance: found -0.1") == 0);
}
