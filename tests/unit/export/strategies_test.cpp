#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "io/framework_strategies.hpp"
#include "support/catch.hpp"

namespace hpplan {
namespace {

template <typename Call>
std::string outcome(const Call& call) {
  try {
    (void)call();
  } catch (const InputError& error) {
    std::string text;
    for (const Diagnostic& diagnostic : error.diagnostics()) text += to_text(diagnostic) + "\n";
    return text;
  }
  return "accepted";
}

std::string megatron(const std::string& text, int world = 4) {
  return outcome([&] { return read_megatron_arguments("--num-layers 12 " + text, "args", world); });
}

std::string flagscale(const std::string& meshes, const std::string& split, int stages, int layers,
                      const std::string& more = "", int global = 16, int micro = 1) {
  const int mesh_count = static_cast<int>(std::count(meshes.begin(), meshes.end(), ',') + 1) / 5;
  std::string types;
  for (int i = 0; i < mesh_count; ++i) types += concat(i > 0 ? ", " : "", "m", i);
  const std::string text =
      concat("system:\n  pipeline_model_parallel_size: ", stages, "\n  hetero:\n    enable_hetero: true\n",
             "    hetero_process_meshes: [", meshes, "]\n    hetero_pipeline_layer_split: [", split,
             "]\n    hetero_device_types: [", types, "]\n", more, "model:\n  num_layers: ", layers,
             "\n  micro_batch_size: ", micro, "\n  global_batch_size: ", global, "\ndata: {}\n");
  return outcome([&] { return read_flagscale_train(text, "train.yaml"); });
}

TEST_CASE("Megatron arguments: accepted and refused as Megatron does", "[export]") {
  const char* const accepted[] = {
      "--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout Et*3|t*2|t*2|t*5L",
      "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 2 --decoder-last-pipeline-num-layers 4",
      "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et|t*5|t*4|t*2L",
      "--recompute-granularity full --recompute-method block --recompute-num-layers 3",
      "--recompute-granularity full --recompute-method block --recompute-num-layers 0",
      "--recompute-granularity full --recompute-method block --recompute-num-layers 99",
      "--recompute-granularity selective --recompute-modules core_attn mlp layernorm",
      "--recompute-activations",
  };
  for (const char* text : accepted) {
    CAPTURE(text);
    CHECK(megatron(text) == "accepted");
  }
  const char* const layout = "--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout Et*3|t*3|t*3|t*3L ";
  CHECK(megatron(std::string(layout) + "--decoder-first-pipeline-num-layers 2").find("excludes") != std::string::npos);
  CHECK(megatron(std::string(layout) + "--account-for-loss-in-pipeline-split").find("excludes") != std::string::npos);
  CHECK(
      megatron(
          "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 2 --decoder-last-pipeline-num-layers 3")
          .find("7 layers do not divide over the 2 other stages") != std::string::npos);
  CHECK(megatron("--pipeline-model-parallel-size 4 --account-for-loss-in-pipeline-split "
                 "--account-for-embedding-in-pipeline-split")
            .find("12 + 2 layers do not divide over 4") != std::string::npos);
  CHECK(megatron("--global-batch-size 32 --micro-batch-size 3").find("--global-batch-size: 32 is not a multiple") !=
        std::string::npos);
  CHECK(megatron("--tensor-model-parallel-size 4", 6).find("needs 4 devices or a multiple, have 6") !=
        std::string::npos);
  CHECK(megatron("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et|t*5|t*4|t*2L "
                 "--no-overlap-p2p-communication")
            .find("chunks need 3") != std::string::npos);
  CHECK(megatron("--recompute-granularity full --recompute-num-layers 3").find("full needs") != std::string::npos);
  CHECK(megatron("--recompute-granularity full --recompute-method block").find("full needs") != std::string::npos);
  CHECK(megatron("--recompute-granularity selective --recompute-modules attn").find("unknown module \"attn\"") !=
        std::string::npos);
  CHECK(megatron("--recompute-granularity selective --recompute-method block").find("takes no method") !=
        std::string::npos);
  CHECK(megatron("--distribute-saved-activations").find("needs full") != std::string::npos);
}

TEST_CASE("case A02: chunks that would lose layers are refused with the sizes that work", "[export]") {
  const std::string text = outcome([] {
    return read_megatron_arguments(
        "--num-layers 80 --pipeline-model-parallel-size 16 --num-layers-per-virtual-pipeline-stage 2", "args", 16);
  });
  CHECK(text.find("80 layers over 16 stages are 5 per stage, not a multiple of 2") != std::string::npos);
  CHECK(text.find("1 (5 chunks), 5 (1 chunks)") != std::string::npos);
}

TEST_CASE("case A10: degrees that need more devices than there are", "[export]") {
  CHECK(megatron("--pipeline-model-parallel-size 4 --tensor-model-parallel-size 2", 4)
            .find("needs 8 devices or a multiple, have 4") != std::string::npos);
  const std::string experts = megatron(
      "--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --num-experts 64 "
      "--expert-model-parallel-size 8 --expert-tensor-parallel-size 1",
      8);
  CHECK(experts.find("is 16, have 8 devices") != std::string::npos);
  CHECK(experts.find("possible: 1, 2, 4") != std::string::npos);
}

TEST_CASE("case A23: the expert degree divides experts and devices", "[export]") {
  const auto run = [](const std::string& text) {
    return outcome([&] { return read_megatron_arguments("--num-layers 12 " + text, "args", 8); });
  };
  CHECK(run("--num-experts 64 --expert-model-parallel-size 8") == "accepted");
  CHECK(run("--num-experts 64 --expert-model-parallel-size 3").find("possible: 1, 2, 4, 8") != std::string::npos);
  CHECK(run("--num-experts 64 --expert-model-parallel-size 16").find("possible: 1, 2, 4, 8") != std::string::npos);
  CHECK(run("--expert-model-parallel-size 1") == "accepted");
  CHECK(run("--expert-model-parallel-size 2").find("no experts") != std::string::npos);
}

TEST_CASE("case A29: meshes, stages, layers and batches of FlagScale add up", "[export]") {
  // G1 tp 2 dp 2 over two stages, G2 tp 4 dp 2: 4 + 4 + 8 = 16 devices, 3 stages, 16 / (2 * 1) = 8 micro-batches.
  CHECK(flagscale("2,1,1,2,1, 2,1,1,2,1, 4,1,1,2,1", "6, 6, 8", 3, 20) == "accepted");
  CHECK(flagscale("2,1,1,2,1, 2,1,1,2,1, 4,1,1,2,1", "6, 6, 9", 3, 20).find("are 21, but the model has 20") !=
        std::string::npos);
  CHECK(flagscale("2,1,1,2,1, 2,1,1,2,1, 4,1,1,3,1", "6, 6, 8", 3, 20)
            .find("dp 3, which does not divide the 2 samples") != std::string::npos);
  CHECK(flagscale("2,1,1,2,1, 2,1,1,2,1", "6, 6, 8", 3, 20).find("3, but the meshes have 2 stages") !=
        std::string::npos);
}

TEST_CASE("FlagScale files: what it forgets to check is refused", "[export]") {
  CHECK(flagscale("1,1,1,2,2, 1,1,1,2,1", "2, 2, 2", 3, 6).find("links come out crossed") != std::string::npos);
  CHECK(flagscale("1,1,1,1,1, 1,1,1,1,1", "6, 0", 2, 6) != "accepted");
  CHECK(flagscale("1,2,1,1,1, 1,2,1,1,1", "3, 3", 2, 6).find("cp has to be 1") != std::string::npos);
  CHECK(flagscale("1,1,1,1", "6", 1, 6).find("a mesh has five") != std::string::npos);
  CHECK(
      flagscale("1,1,1,1,1", "6", 1, 6, "  recompute:\n    recompute_num_layers_per_stage_micro_batch: [[1, 16, 2]]\n")
          .find("write all three lists") != std::string::npos);
  CHECK(flagscale("1,1,1,1,1", "6", 1, 6, "  other: null\n").find("leave the key out") != std::string::npos);
}

const char* const kFlagScaleExample = R"(
system:
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 3
  hetero:
    enable_hetero: true
    hetero_pipeline_layer_split: [2, 4, 2]
    hetero_process_meshes: [2,1,1,1,1, 2,1,1,2,1, 1,1,1,2,1]
    hetero_device_types: [A, B, C]
    hetero_current_device_type: A
    standalone_embedding_stage: false
  recompute:
    recompute_granularity: full
    recompute_method: uniform
    recompute_num_layers: 1
    recompute_granularity_per_stage_micro_batch: [[1, 14, 0, 2, 0], [1, 14, 1, 2, 1], [1, 14, 1, 2, 1]]
model:
  num_layers: 8
  micro_batch_size: 4
  global_batch_size: 64
  untie_embeddings_and_output_weights: true
data: {}
)";

TEST_CASE("a FlagScale file known to run is accepted", "[export]") {
  const FlagScaleJob job = read_flagscale_train(kFlagScaleExample, "train.yaml");
  CHECK(job.device_count() == 8);
  CHECK(job.micro_batches == 16);
  check_flagscale_hosts(job, "a slots=2 type=A\nb slots=4 type=B\nc slots=2 type=C\n", "hostfile");
  // Ranks go by labels: hosts out of order would land on the wrong mesh.
  CHECK_THROWS_AS(check_flagscale_hosts(job, "b slots=4 type=B\na slots=2 type=A\nc slots=2 type=C\n", "h"),
                  InputError);
  CHECK_THROWS_AS(check_flagscale_hosts(job, "a slots=2 type=A\nb slots=4 type=B\n", "h"), InputError);
}

std::string hetu(const std::string& change, const std::string& with) {
  std::string text =
      "ds_parallel:\n  hetero: true\n  dp: 2\n  cp: 1\n  tp: 1\n  pp: 2\n  zero: true\n  num_layers: 4\n  num_gpus: 4\n"
      "  gpus_per_stage: 1\n  rank_to_device_mapping: {0: 0, 1: 1, 2: 2, 3: 3}\n  unused_rank: []\n"
      "  hetero_layers: [[2, 2], [1, 3]]\n  micro_batch_num_list: [3, 5]\n  seq_len_list: [128, 128]\n  cp_list: [1, "
      "1]\n"
      "  recompute:\n    recompute_granularity: full\n    recompute_layer_idxs_list: [[0], []]\n";
  if (!change.empty()) text.replace(text.find(change), change.size(), with);
  return outcome([&] { return read_hetu_strategy(text, "strategy.yaml"); });
}

TEST_CASE("Hetu strategies: accepted, refused, and refused although Hetu takes them", "[export]") {
  CHECK(hetu("", "") == "accepted");
  CHECK(hetu("[1, 3]", "[1, 4]").find("a pipeline has 5 layers, but the model has 4") != std::string::npos);
  CHECK(hetu("[3, 5]", "[3, 5, 1]").find("3 entries, but 2 are needed") != std::string::npos);
  CHECK(hetu("  rank_to_device_mapping: {0: 0, 1: 1, 2: 2, 3: 3}\n", "").find("rank_to_device_mapping") !=
        std::string::npos);
  CHECK(hetu("granularity: full", "granularity: selective\n    recompute_method: uniform").find("has no method") !=
        std::string::npos);
  CHECK(hetu("3: 3}", "3: 2}").find("device 2 is used twice") != std::string::npos);
  CHECK(hetu("[2, 2]", "[4, 0]").find("stage 1 has no layer") != std::string::npos);
  CHECK(hetu("unused_rank: []", "unused_rank: [2]").find("stage 0 has no rank left") != std::string::npos);
  CHECK(hetu("cp: 1\n  tp", "cp: null\n  tp") != "accepted");
}

std::string galvatron(const std::string& change, const std::string& with) {
  std::string text = R"({"pp_deg": 2, "tp_sizes_enc": "1,1,2,2", "tp_consecutive_flags": "1,1,1,1",
    "dp_types_enc": "0,0,0,0", "global_bsz": 16, "chunks": 4, "pp_division": "2,2", "pipeline_type": "pipedream_flush",
    "default_dp_type": "ddp", "checkpoint": "0,1,1,1"})";
  if (!change.empty()) text.replace(text.find(change), change.size(), with);
  return outcome([&] { return read_galvatron_strategy(text, "galvatron.json", 8); });
}

TEST_CASE("Galvatron strategies: accepted and refused", "[export]") {
  CHECK(galvatron("", "") == "accepted");
  CHECK(galvatron("\"1,1,2,2\"", "[1, 1, 2, 2]").find("written as a text") != std::string::npos);
  CHECK(galvatron("1,1,2,2", "1,1,2,3").find("degree 3 does not divide the 4 devices") != std::string::npos);
  CHECK(galvatron("\"2,2\"", "\"2,3\"").find("sums to 5") != std::string::npos);
  CHECK(galvatron("\"0,1,1,1\"", "\"0,1,1\"").find("3 entries, but 4") != std::string::npos);
  CHECK(galvatron("\"0,1,1,1\"", "\"0,1,1,2\"") != "accepted");
  CHECK(galvatron(": 16", ": 6").find("global_bsz") != std::string::npos);
  CHECK(galvatron("\"chunks\": 4", "\"chunks\": 3").find("not a multiple of 3 chunks") != std::string::npos);
  CHECK(galvatron("default_dp_type", "embed_sdp") != "accepted");
}

std::string mindformers(const std::string& offset, int layers) {
  const std::string text =
      concat("parallel_config: {data_parallel: 2, model_parallel: 2, pipeline_stage: 4, micro_batch_num: 8}\n",
             "runner_config: {batch_size: 1}\nrecompute_config: {recompute: [1, 0, 0, 2]}\n",
             "model: {model_config: {num_layers: ", layers, ", offset: ", offset, "}}\n");
  return outcome([&] { return read_mindformers(text, "mf.yaml"); });
}

TEST_CASE("MindFormers offsets sum to what division leaves over", "[export]") {
  CHECK(mindformers("[-1, -1, 1, 1]", 64) == "accepted");  // 15, 15, 17, 17
  CHECK(mindformers("0", 64) == "accepted");
  CHECK(mindformers("0", 66) != "accepted");
  CHECK(mindformers("[1, 1, 0, 0]", 66) == "accepted");
  CHECK(mindformers("[1, 1, 1, 0]", 66).find("gives 67 layers, but the model has 66") != std::string::npos);
  CHECK(mindformers("[1, 1, 0]", 66) != "accepted");
  CHECK(mindformers("[-16, 0, 0, 16]", 64).find("without layers") != std::string::npos);
}

}  // namespace
}  // namespace hpplan
