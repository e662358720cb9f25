#include <filesystem>
#include <string>

#include "support/catch.hpp"
#include "support/command.hpp"

using namespace hpplan;
using test::CommandResult;
using test::run_hpplan;

namespace {

/// Bad input or usage: exit code 2, this on standard error, nothing on standard output.
void check_refused(const std::string& arguments, const std::string& message, const std::string& input = "") {
  const CommandResult result = run_hpplan(arguments, input);
  CAPTURE(arguments, result.out);
  CHECK(result.code == 2);
  CHECK(result.err == message);
  CHECK(result.out.empty());
}

const char* const kModel =
    "name: tiny\nfamily: gpt\nlayers: 2\nhidden: 64\nheads: 4\nsequence: 128\nvocabulary: 1024\n";

}  // namespace

TEST_CASE("help and version are results", "[cli]") {
  for (const char* const arguments : {"--help", "-h", "show --help"}) {
    CAPTURE(arguments);
    const CommandResult result = run_hpplan(arguments);
    CHECK(result.code == 0);
    CHECK(result.out.find("Example:\n  hpplan ") != std::string::npos);
    CHECK(result.err.empty());
  }
  CHECK(run_hpplan("--version").out == "0.1.0\n");
  CHECK(run_hpplan("--version").code == 0);
}

TEST_CASE("usage faults take exit code 2 and say what is near", "[cli]") {
  CHECK(run_hpplan("").code == 2);
  CHECK(run_hpplan("").err.rfind("hpplan: error: a verb is missing: hpplan VERB\n  hint: verbs: ", 0) == 0);
  check_refused("shwo", "hpplan: error: unknown verb \"shwo\"\n  hint: did you mean \"show\"?\n");
  check_refused("--versoin", "hpplan: error: unknown option --versoin\n  hint: did you mean \"--version\"?\n");
  check_refused("plan --modle x --cluster y",
                "hpplan: error: unknown option --modle\n  hint: did you mean \"--model\"?\n");
  check_refused("show --modle x", "hpplan: error: unknown option --modle\n  hint: did you mean \"--model\"?\n");
  check_refused("show --model=a b", "hpplan: error: unexpected argument \"b\"\n  hint: see hpplan show --help\n");
  CHECK(run_hpplan("show --model").code == 2);
  CHECK(run_hpplan("show --model a --model b").code == 2);
  CHECK(run_hpplan("show --progress sometimes").code == 2);
  check_refused("show", "hpplan: error: nothing to show\n  hint: give --model, --cluster or both\n");
}

TEST_CASE("numbers on the command line: what was found and what is allowed", "[cli]") {
  const std::string plan = "plan --model gpt3-350m --cluster a100-3090-4 ";
  const std::string schedule = "schedule --family 1f1b --stages 2 --micro-batches 2 --backward 2 ";
  const auto [arguments, fault] = GENERATE_COPY(table<std::string, std::string>({
      {plan + "--global-batch 0", "--global-batch: found \"0\", needed a whole number from 1 to 16777216"},
      {plan + "--global-batch x", "--global-batch: found \"x\", needed a whole number from 1 to 16777216"},
      {plan + "--global-batch 1.5", "--global-batch: found \"1.5\", needed a whole number from 1 to 16777216"},
      {plan + "--global-batch -3", "--global-batch: found \"-3\", needed a whole number from 1 to 16777216"},
      {plan + "--global-batch 99999999999999",
       "--global-batch: found \"99999999999999\", needed a whole number from 1 to 16777216"},
      {plan + "--micro-batch 1,0", "--micro-batch: found \"0\", needed a whole number from 1 to 65536"},
      {plan + "--tensor-parallel a", "--tensor-parallel: found \"a\", needed a whole number of at least 1"},
      {plan + "--tolerance nan", "--tolerance: found \"nan\", needed a number from 0 to 1e+06"},
      {plan + "--tolerance -1", "--tolerance: found \"-1\", needed a number from 0 to 1e+06"},
      {plan + "--time-limit nan", "--time-limit: found \"nan\", needed a number above 0"},
      {plan + "--time-limit 0", "--time-limit: found \"0\", needed a number above 0"},
      {plan + "--effort 0", "--effort: found \"0\", needed a whole number from 1 to 10000"},
      {"sweep s.yaml --out r --effort 1.5", "--effort: found \"1.5\", needed a whole number from 1 to 10000"},
      {plan + "--threads 0", "--threads: found \"0\", needed a whole number from 1 to 1024"},
      {plan + "--top 1e3", "--top: found \"1e3\", needed a whole number from 1 to 1000"},
      {schedule + "--forward inf", "--forward: found \"inf\", needed a number of at least 0"},
      {schedule + "--forward 1,x", "--forward: found \"x\", needed a number of at least 0"},
      {schedule + "--forward 1e999", "--forward: found \"1e999\", needed a number of at least 0"},
      {schedule + "--forward 1 --overlap 0", "--overlap: found \"0\", needed a number from 0.01 to 1"},
      {schedule + "--forward 1 --chunks 0", "--chunks: found \"0\", needed a whole number of at least 1"},
      {"check x --tolerance 2", "--tolerance: found \"2\", needed a number from 0 to 1"},
      {"model import x --sequence 0", "--sequence: found \"0\", needed a whole number from 1 to 16777216"},
      {"cluster import --devices-per-node x", "--devices-per-node: found \"x\", needed a whole number from 1 to 1024"},
      {"profile synthesize --samples 0", "--samples: found \"0\", needed a whole number from 1 to 1048576"},
  }));
  const CommandResult result = run_hpplan(arguments);
  CAPTURE(arguments, result.err);
  CHECK(result.code == 2);
  CHECK(result.err.rfind("hpplan: error: " + fault + "\n  hint: see hpplan ", 0) == 0);
  CHECK(result.err.find('\n') < 200);
  CHECK(result.out.empty());
}

TEST_CASE("words, flags and values that do not go together", "[cli]") {
  const std::string plan = "plan --model gpt3-350m --cluster a100-3090-4 --global-batch 8 ";
  const std::string see = "\n  hint: see hpplan plan --help\n";
  check_refused(plan + "--whole-nodes=maybe",
                "hpplan: error: --whole-nodes: found \"maybe\", but takes no value" + see);
  check_refused(plan + "--global-batch 9", "hpplan: error: --global-batch: given 2 times\n  hint: give it once\n");
  check_refused(plan + "--top", "hpplan: error: --top: a value is missing" + see);
  check_refused(plan + "--out --quiet", "hpplan: error: --out: a value is missing: --quiet follows" + see);
  check_refused(plan + "--out ''", "hpplan: error: --out: the value is empty" + see);
  check_refused(plan + "--progress nevr",
                "hpplan: error: --progress: found \"nevr\", needed one of auto, always, never; "
                "did you mean \"never\"?" +
                    see);
}

TEST_CASE("everything that is missing is named at once, with its help", "[cli]") {
  check_refused(
      "plan --cluster a100-3090-4",
      "hpplan: error: --model: missing\n  hint: model: a file or the name of a shipped one, such as gpt3-13b\n"
      "hpplan: error: --global-batch: missing\n  hint: samples per optimizer step\n");
  check_refused("check", "hpplan: error: PLAN: missing\n  hint: plan file; - is standard input\n");
}

TEST_CASE("a schedule too large to hold is refused, not tried", "[cli]") {
  check_refused("schedule --family 1f1b --stages 200000 --micro-batches 2000000 --forward 1 --backward 2",
                "hpplan: error: micro-batches: stages x micro-batches x chunks = 400000000000, allowed are 16777216\n"
                "  hint: simulate fewer micro-batches: the steady state repeats\n");
}

TEST_CASE("files that cannot be read", "[cli]") {
  check_refused(
      "show --model gtp3-13b",
      "gtp3-13b: error: neither a file nor the name of a shipped model\n  hint: did you mean \"gpt3-13b\"?\n");
  check_refused("show --cluster .", ".: error: is a folder, needed a cluster file\n");
  check_refused("show --model /dev/null", "/dev/null:1:1: error: the file is empty\n");
  check_refused("show --model -", "<stdin>:1:1: error: the file is empty\n");
  check_refused("show --model -", "<stdin>:1:1: error: the file is empty\n", "# only a remark\n");
}

TEST_CASE("models and clusters are read from standard input, from a file and by name", "[cli]") {
  const CommandResult from_input = run_hpplan("show --model -", kModel);
  CHECK(from_input.code == 0);
  CHECK(from_input.err.empty());
  CHECK(from_input.out.find("model tiny (gpt, bf16)\n") == 0);
  const test::ScratchFolder folder;
  CHECK(run_hpplan("show --model " + folder.write("m.json", kModel)).out == from_input.out);
  CHECK(run_hpplan("show --model gpt3-70b").code == 0);
  CHECK(run_hpplan("show --cluster a100-3090-512").out.find("512 devices") != std::string::npos);
  CHECK(run_hpplan("show --cluster odd-nodes").out.find("note: node n0 has no devices and was skipped") !=
        std::string::npos);
}

TEST_CASE("a fault in a file is shown with its place, without colour away from a terminal", "[cli]") {
  std::string text = kModel;
  text.replace(text.find("hidden: 64"), 10, "hiden: 64 ");
  check_refused("show --model -",
                "<stdin>:1:1: error: hidden: missing key\n<stdin>:4:1: error: hiden: unknown key\n"
                "  hint: did you mean \"hidden\"?\n",
                text);
}

TEST_CASE("shipped files are found in $HPPLAN_DATA", "[cli]") {
  const test::ScratchFolder folder;
  std::filesystem::create_directories(folder.path("configs/models"));
  folder.write("configs/models/mine.yaml", kModel);
  CHECK(run_hpplan("show --model mine", "", "HPPLAN_DATA=" + folder.path()).code == 0);
  const CommandResult other = run_hpplan("show --model gpt3-13b", "", "HPPLAN_DATA=" + folder.path());
  CHECK(other.code == 2);
  CHECK(other.err.find("hint: shipped: mine\n") != std::string::npos);
}

TEST_CASE("a result that cannot be written is not success", "[cli]") {
  for (const char* const arguments : {"show --model gpt3-13b", "--help"}) {
    CAPTURE(arguments);
    const std::string command = std::string("'") + HPPLAN_BINARY + "' " + arguments + " >/dev/full 2>/dev/null";
    const int status = std::system(command.c_str());
    CHECK(WEXITSTATUS(status) == 2);
  }
}

TEST_CASE("lists do not hold empty items", "[cli]") {
  const std::string plan = "plan --model gpt3-350m --cluster b2-b4-4 --global-batch 64 --micro-batch";
  for (const char* const list : {" 1,,2", "=1,,2", " ,", "=1,"}) {
    CAPTURE(list);
    const CommandResult result = run_hpplan(plan + list);
    CHECK(result.code == 2);
    CHECK(result.err.find("--micro-batch: an item of the list \"") != std::string::npos);
  }
}

TEST_CASE("profiles that fit nothing are named in the plan", "[cli]") {
  const CommandResult result =
      run_hpplan("plan --model gpt3-350m --cluster b2-b4-4 --global-batch 64 --profile gpt3-1.3b.ascend-910b2");
  CAPTURE(result.err);
  CHECK(result.code == 0);
  CHECK(result.out.find("none of the profiles given is used: they are of gpt3-1.3b on ascend-910b2") !=
        std::string::npos);
}

TEST_CASE("a name is one line", "[cli]") {
  const CommandResult result = run_hpplan("cluster import - --device a100-80gb --name '\ta'", "h1 slots=8\n");
  CHECK(result.code == 2);
  CHECK(result.err.find("--name: the name holds a control character") != std::string::npos);
}
