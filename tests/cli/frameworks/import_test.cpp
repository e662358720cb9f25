#include <string>

#include "support/catch.hpp"
#include "support/command.hpp"

using namespace hpplan;
using test::CommandResult;
using test::run_hpplan;

namespace {

const char* const kConfig = R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
  "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
  "max_position_embeddings": 8192, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})";

}  // namespace

TEST_CASE("an imported model is read by show", "[cli]") {
  const CommandResult imported = run_hpplan("model import - --name llama-3-8b", kConfig);
  CAPTURE(imported.err);
  REQUIRE(imported.code == 0);
  CHECK(imported.err.empty());
  CHECK(imported.out.find("# 8030261248 parameters\n") != std::string::npos);
  const CommandResult shown = run_hpplan("show --model -", imported.out);
  CHECK(shown.code == 0);
  CHECK(shown.out.find("8.03 billion") != std::string::npos);
}

TEST_CASE("a model written to a file repeats its defaults on standard error", "[cli]") {
  const CommandResult imported = run_hpplan("model import - --out model.yaml", kConfig);
  CHECK(imported.code == 0);
  CHECK(imported.out.empty());
  CHECK(imported.err.find("note: sequence: default, the smaller of 4096") != std::string::npos);
  CHECK(run_hpplan("model import - --out model.yaml --quiet", kConfig).err.empty());
}

TEST_CASE("an imported cluster is read by show", "[cli]") {
  const CommandResult imported =
      run_hpplan("cluster import - --device a100-80gb --intra-bandwidth '1536 Gbps' --inter-bandwidth '200 Gbps'",
                 "n1 slots=16\nn2 slots=8\n");
  CAPTURE(imported.err);
  REQUIRE(imported.code == 0);
  CHECK(run_hpplan("show --cluster -", imported.out).out.find("cluster imported: 24 devices") == 0);
}

TEST_CASE("what an import lacks is asked for by option, with exit code 2", "[cli]") {
  const CommandResult cluster = run_hpplan("cluster import -", "n1\n");
  CHECK(cluster.code == 2);
  CHECK(cluster.out.empty());
  CHECK(cluster.err.find("add --device NAME") != std::string::npos);
  CHECK(cluster.err.find("add --devices-per-node N") != std::string::npos);
  CHECK(run_hpplan("cluster import").err.find("give a hostfile") != std::string::npos);
  CHECK(run_hpplan("cluster import - --device h100-80g --intra-bandwidth '1 GB/s'", "n1:2\n")
            .err.find("did you mean \"h100-80gb\"?") != std::string::npos);
  CHECK(run_hpplan("model import -", "--num-layers 2\n").err.find("--hidden-size: missing") != std::string::npos);
  CHECK(run_hpplan("model import missing.json").code == 2);
}

TEST_CASE("case A20: a hostfile that is missing or empty is an error, not a cluster of one machine", "[cli]") {
  const CommandResult missing = run_hpplan("cluster import no-such-hostfile --device a100-80gb");
  CHECK(missing.code == 2);
  CHECK(missing.out.empty());
  CHECK(missing.err.find("no-such-hostfile: error: cannot be opened") == 0);
  CHECK(run_hpplan("cluster import - --device a100-80gb", "\n# none\n")
            .err.find("<stdin>: error: no host in this file") == 0);
}

TEST_CASE("shown models and clusters read back", "[cli]") {
  const CommandResult model = run_hpplan("model show moe-8x7b");
  CHECK(run_hpplan("model show -", model.out).out == model.out);
  const CommandResult cluster = run_hpplan("cluster show rtx-mixed");
  CHECK(run_hpplan("cluster show -", cluster.out).out == cluster.out);
}
