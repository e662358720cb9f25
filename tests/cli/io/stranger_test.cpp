// What somebody hands in who knows nothing: files of another kind, broken files, sizes at both ends.
#include <filesystem>
#include <string>

#include "base/text.hpp"
#include "support/catch.hpp"
#include "support/command.hpp"

using namespace hpplan;
using test::CommandResult;
using test::run_hpplan;
using test::ScratchFolder;

namespace {

const char* const kModel =
    "name: tiny\nfamily: gpt\nlayers: 2\nhidden: 64\nheads: 4\nsequence: 128\nvocabulary: 1024\n";

/// A cluster of `nodes` nodes with `devices` devices each.
std::string cluster_text(int nodes, int devices) {
  return concat(
      "name: c\ndevice_types: [{name: x, memory: 80 GB, peak: 100 TFLOPS, memory_bandwidth: 1 TB/s}]\n"
      "node_groups:\n  - name: a\n    device: x\n    nodes: ",
      nodes, "\n    devices_per_node: ", devices,
      "\n    intra_node: {bandwidth: 1536 Gbps, latency: 3 us}\n    inter_node: {bandwidth: 200 Gbps, latency: 5 "
      "us}\n");
}

/// Exit code 2, nothing on standard output, this at the start of standard error.
void check_refused(const std::string& arguments, const std::string& message, const std::string& input = "") {
  const CommandResult result = run_hpplan(arguments, input);
  CAPTURE(arguments, result.out, result.err);
  CHECK(result.code == 2);
  CHECK(result.out.empty());
  CHECK(result.err.rfind(message, 0) == 0);
}

/// A command line for every place that reads a file, with the file called F.
const char* const kReaders[] = {
    "show --model F",
    "show --cluster F",
    "plan --model F --cluster b2-b4-8 --global-batch 8",
    "plan --model gpt3-350m --cluster F --global-batch 8",
    "plan --model gpt3-350m --cluster b2-b4-8 --global-batch 8 --profile F",
    "check F",
    "simulate F",
    "export F --model gpt3-350m --cluster b2-b4-8 --to torch --out o",
    "sweep F --out o",
    "profile show F",
    "profile import F --out o",
    "model import F",
    "model show F",
    "cluster import F --device a100-80gb",
    "cluster show F",
    "schedule --family octopipe --stages 2 --micro-batches 2 --layers F",
};

std::string with_file(std::string command, const std::string& path) {
  command.replace(command.find('F'), 1, path);
  return command;
}

}  // namespace

TEST_CASE("every verb refuses files that hold nothing it can read, with exit code 2 and a message", "[cli][stranger]") {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder.path("folder"));
  folder.write("empty", "");
  folder.write("blank", "\n \n");
  folder.write("binary", std::string("\x7f"
                                     "ELF\0\1\xff\xfe\0",
                                     9));
  folder.write("utf16", std::string("\xff\xfen\0a\0m\0e\0", 10));
  folder.write("deep", std::string(100'000, '['));
  folder.write("prose", "Dear planner, please be fast.\n");
  folder.write("other.json", R"({"scripts": {"build": "make"}, "version": 3})");
  const std::string command = GENERATE(from_range(std::begin(kReaders), std::end(kReaders)));
  for (const char* const name :
       {"missing", "folder", "empty", "blank", "binary", "utf16", "deep", "prose", "other.json"}) {
    const CommandResult result = run_hpplan(with_file(command, folder.path(name)));
    CAPTURE(command, name, result.out, result.err);
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK(result.err.find("error: ") != std::string::npos);
    CHECK(result.err.find(name) != std::string::npos);  // says which file
    CHECK(result.err.find('\0') == std::string::npos);
  }
}

TEST_CASE("a file of another kind is named as what it is", "[cli][stranger]") {
  const std::string cluster = cluster_text(1, 2);
  check_refused("show --model -", "<stdin>:1:1: error: this is a cluster, needed a model\n", cluster);
  check_refused("show --cluster -", "<stdin>:1:1: error: this is a model, needed a cluster\n", kModel);
  check_refused("check -", "<stdin>:1:1: error: this is a model, needed a plan\n", kModel);
  check_refused("simulate -", "<stdin>:1:1: error: this is a cluster, needed a plan\n", cluster);
  check_refused("sweep - --out o", "<stdin>:1:1: error: this is a model, needed a sweep\n", kModel);
  check_refused("profile show -", "<stdin>:1:1: error: this is a model, needed a profile\n", kModel);
  check_refused("check -", "<stdin>:1:1: error: not a plan\n  hint: a plan is a map that begins with", "{\"a\": 1}");
}

TEST_CASE("a byte order mark and Windows line ends change nothing", "[cli][stranger]") {
  const std::string plain = run_hpplan("show --model -", kModel).out;
  std::string windows = "\xEF\xBB\xBF";
  for (const char c : std::string(kModel)) windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
  const CommandResult result = run_hpplan("show --model -", windows);
  CHECK(result.code == 0);
  CHECK(result.out == plain);
}

TEST_CASE("numbers that are none, or beyond all bounds: A16", "[cli][stranger]") {
  const std::string value = GENERATE(".inf", "-.inf", ".nan", "1e999", "99999999999999999999999", "0", "-1", "1.5",
                                     "0x10", "1_000", "'2'", "[2]", "~", "yes");
  std::string model = kModel;
  model.replace(model.find("layers: 2"), 9, "layers: " + value);
  CAPTURE(value);
  check_refused("show --model -", "<stdin>:3:9: error: layers: found ", model);
  std::string cluster = cluster_text(1, 2);
  cluster.replace(cluster.find("80 GB"), 5, value);
  check_refused("show --cluster -", "<stdin>:2:34: error: device_types[0].memory: ", cluster);
}

TEST_CASE("keys and words that are nearly right get the right one as a hint: A28", "[cli][stranger]") {
  const auto [from, to, hint] = GENERATE(table<std::string, std::string, std::string>({
      {"layers", "num_layer", "layers"},
      {"layers", "Layers", "layers"},
      {"hidden", "hiden", "hidden"},
      {"heads", "n_head", "heads"},
      {"family: gpt", "family: GPT", "gpt"},
      {"sequence", "seq_len", "sequence"},
  }));
  CAPTURE(from, to);
  std::string model = kModel;
  model.replace(model.find(from), from.size(), to);
  const CommandResult result = run_hpplan("show --model -", model);
  CHECK(result.code == 2);
  CHECK(result.err.find("hint: did you mean \"" + hint + "\"?") != std::string::npos);
}

TEST_CASE("one device is a cluster, and needs no links", "[cli][stranger]") {
  const ScratchFolder folder;
  std::string cluster = cluster_text(1, 1);
  cluster.erase(cluster.find("    intra_node"));
  const CommandResult result =
      run_hpplan("plan --model " + folder.write("m.yaml", kModel) + " --cluster - --global-batch 4", cluster);
  CHECK(result.code == 0);
  CHECK(result.out.find("a-0:0") != std::string::npos);
}

TEST_CASE("ten thousand devices are a cluster", "[cli][stranger]") {
  CHECK(run_hpplan("show --cluster -", cluster_text(10'000, 1)).out.find("10000 devices") != std::string::npos);
  CHECK(run_hpplan("show --cluster -", cluster_text(1'250, 8)).out.find("10000 devices") != std::string::npos);
  check_refused("show --cluster -",
                "<stdin>:7:23: error: node_groups[0].devices_per_node: found the number 10000, "
                "needed a whole number from 0 to 4096\n",
                cluster_text(1, 10'000));
}

TEST_CASE("a small model on many devices is planned until the time is over", "[cli][stranger]") {
  // Hundreds of equal pipelines can be placed in more ways than anybody could look at.
  const CommandResult result =
      run_hpplan("plan --model gpt3-350m --cluster b2-b4-512 --global-batch 1024 --time-limit 1");
  CAPTURE(result.err);
  CHECK(result.code == 0);
  CHECK(result.out.find("search ended early") != std::string::npos);
}

TEST_CASE("nodes, groups and device types have names of their own", "[cli][stranger]") {
  std::string cluster = cluster_text(2, 2);
  check_refused("show --cluster -",
                "<stdin>:6:17: error: node_groups[0].node_names: a second node called \"n\", first at <stdin>:6:17\n",
                std::string(cluster).replace(cluster.find("nodes: 2"), 8, "node_names: [n, n]\n    nodes: 2"));
}
