#include <algorithm>
#include <string>

#include "support/catch.hpp"
#include "support/command.hpp"

using namespace hpplan;
using test::CommandResult;
using test::run_hpplan;
using test::ScratchFolder;

namespace {

/// The second point has no device with enough memory, the third no model.
const char* const kSpec =
    "base: {cluster: b2-b4-4, global_batch: 8, micro_batch: [1, 2]}\n"
    "points:\n  - {model: gpt3-350m}\n  - {model: gpt3-70b}\n  - {model: missing-model}\n";

}  // namespace

TEST_CASE("a sweep goes on past what is infeasible or broken, and its exit code tells", "[cli]") {
  const ScratchFolder scratch;
  const CommandResult result = run_hpplan("sweep - --out " + scratch.path("r.jsonl"), kSpec);
  CAPTURE(result.err);
  CHECK(result.code == 2);
  CHECK(result.out.empty());
  CHECK(result.err.find("1 planned, 1 infeasible, 1 broken") != std::string::npos);
  const CommandResult table = run_hpplan("sweep summarize " + scratch.path("r.jsonl"));
  CHECK(table.code == 0);
  CHECK(std::count(table.out.begin(), table.out.end(), '\n') == 4);
  CHECK(table.out.find("missing-model") != std::string::npos);
  const CommandResult again = run_hpplan("sweep - --out " + scratch.path("r.jsonl"), kSpec);
  CHECK(again.err.find("3 lines from before, 0 problems planned now") != std::string::npos);
}

TEST_CASE("a sweep into a device reads nothing from it", "[cli]") {
  CHECK(run_hpplan("sweep - --out /dev/null", kSpec).code == 2);  // of its broken point
  const CommandResult full = run_hpplan("sweep - --out /dev/full", kSpec);
  CHECK(full.code == 2);
  CHECK(full.err.find("No space left on device") != std::string::npos);
}

TEST_CASE("points that are the same problem are planned once, whatever their spelling", "[cli]") {
  const ScratchFolder scratch;
  const std::string model =
      scratch.write("copy.yaml", test::file_text(test::source_path("configs/models/gpt3-350m.yaml")));
  const std::string spec =
      "base: {cluster: b2-b4-4, global_batch: 8}\npoints:\n  - {model: gpt3-350m, micro_batch: [1, 2]}\n  - {model: " +
      model + ", micro_batch: [1, 2]}\n  - {model: gpt3-350m, micro_batch: [1, 2], tolerance: 0}\n";
  const CommandResult result = run_hpplan("sweep - --out " + scratch.path("r.jsonl"), spec);
  CHECK(result.code == 0);
  CHECK(result.err.find("3 points, 0 lines from before, 1 problems planned now") != std::string::npos);
}

TEST_CASE("a sweep plans with the placement rules of each point, and names the place of a wrong one", "[cli]") {
  const std::string base = "base: {cluster: b2-b4-4, global_batch: 8, micro_batch: 1, model: gpt3-350m}\n";
  const CommandResult result = run_hpplan(
      "sweep - --out -", base + "grid:\n  forbid: [[], 'node=b4-0', ['node=b2-0', 'type=ascend-910b4 stage=last']]\n");
  CHECK(result.code == 2);  // the last: nothing is left for the head
  CHECK(result.out.find("\"used_devices\":2") != std::string::npos);
  CHECK(result.out.find("no device may hold layer 25 (head)") != std::string::npos);
  const CommandResult wrong = run_hpplan("sweep - --out -", base + "points:\n  - {forbid: 'nodes=b4-0'}\n");
  CHECK(wrong.code == 2);
  CHECK_THAT(wrong.err, Contains(":3:14: error: points[0].forbid: unknown word \"nodes\""));
}

TEST_CASE("a mended input is planned again with --retry-broken", "[cli]") {
  const ScratchFolder scratch;
  const std::string spec =
      "base: {cluster: b2-b4-4, global_batch: 8, micro_batch: 1, model: " + scratch.path("m.yaml") + "}\n";
  const std::string command = "sweep - --out " + scratch.path("r.jsonl");
  CHECK(run_hpplan(command, spec).code == 2);
  scratch.write("m.yaml", test::file_text(test::source_path("configs/models/gpt3-350m.yaml")));
  CHECK(run_hpplan(command, spec).err.find("--retry-broken plans it again") != std::string::npos);
  const CommandResult mended = run_hpplan(command + " --retry-broken", spec);
  CHECK(mended.code == 0);
  CHECK(mended.err.find("1 broken ones tried again") != std::string::npos);
}

TEST_CASE("a sweep plans with the schedules of each point, and refuses a job that contradicts itself by its numbers",
          "[cli]") {
  const ScratchFolder scratch;
  const std::string spec =
      "base: {model: gpt3-350m, cluster: b2-b4-4, global_batch: 16, micro_batch: [1, 2]}\npoints:\n"
      "  - {schedule: all-synchronous}\n  - {schedule: [paci], max_drift: 1}\n  - {schedule: [paci]}\n"
      "  - {stages: 4, tensor_parallel: 2}\n";
  const CommandResult result = run_hpplan("sweep - --out " + scratch.path("r.jsonl"), spec);
  CAPTURE(result.err);
  CHECK(result.err.find("2 planned, 0 infeasible, 2 broken") != std::string::npos);
  const std::string lines = test::file_text(scratch.path("r.jsonl"));
  CAPTURE(lines);
  CHECK(lines.find(", paci)") != std::string::npos);
  CHECK(lines.find("paci updates the weights while micro-batches are in flight") != std::string::npos);
  CHECK(lines.find("needs 8 devices") != std::string::npos);
}

TEST_CASE("usage faults of sweep", "[cli]") {
  CHECK(run_hpplan("sweep").code == 2);
  CHECK(run_hpplan("sweep - --out r.jsonl --shard 3/2", kSpec).err.find("--shard: \"3/2\" is no part of a whole") !=
        std::string::npos);
  CHECK(run_hpplan("sweep summarize").code == 2);
  CHECK(run_hpplan("sweep summarize missing.jsonl").code == 2);
}
