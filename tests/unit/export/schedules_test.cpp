#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "io/framework_schedules.hpp"
#include "support/catch.hpp"

namespace hpplan {
namespace {

template <typename Call>
std::string outcome(const Call& call) {
  try {
    (void)call();
  } catch (const InputError& error) {
    return to_text(error.diagnostics().front());
  }
  return "accepted";
}

std::string torch(const std::string& csv, int ranks = 2, int stages = 2, int micro_batches = 2) {
  return outcome([&] { return read_torch_schedule(csv, "s.csv", {ranks, stages, micro_batches}); });
}

std::string layout(const std::string& text, int layers, int stages, int predictions = 0) {
  return outcome([&] { return read_megatron_layout(text, "layout", {layers, stages, predictions}); });
}

TEST_CASE("PyTorch schedules that run are accepted", "[export]") {
  const char* const accepted[] = {
      "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n",                  // plain
      "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1\n",               // idle cells, ragged
      " 0F0 ,0F1,0B0, 0B1\r\n1F0,1B0,1F1,1B1\r\n",           // spaces, CR LF
      "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n",  // split backward
      "0F0,0F1,0B0,0I1,0W1\n1F0,1B0,1F1,1B1\n",              // both forms
      "0F1,0F0,0B1,0B0\n1F1,1B1,1F0,1B0\n",                  // another order
  };
  for (const char* csv : accepted) {
    CAPTURE(csv);
    CHECK(torch(csv) == "accepted");
  }
  // Stages placed in a V, contiguously, and unevenly.
  CHECK(torch("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n", 2, 4, 1) == "accepted");
  CHECK(torch("0F0,1F0,1B0,0B0\n2F0,3F0,3B0,2B0\n", 2, 4, 1) == "accepted");
  CHECK(torch("0F0,2F0,2B0,0B0\n1F0,1B0\n", 2, 3, 1) == "accepted");
}

TEST_CASE("PyTorch schedules that cannot run are refused", "[export]") {
  CHECK(torch("0F0,0B0\n1F0,1B0,1F1,1B1\n").find("stage 0: 1 forwards, 1 input") != std::string::npos);
  CHECK(torch("0B0,0F0,0F1,0B1\n1F0,1B0,1F1,1B1\n").find("s.csv:1:1: error: backward before its forward") == 0);
  CHECK(torch("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n").find("waits for") != std::string::npos);
  CHECK(torch("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n0F0\n").find("error") != std::string::npos);
  CHECK(torch("rank0,rank0\n0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n").find("s.csv:1:1: error: unknown op: \"rank0\"") == 0);
  CHECK(torch("0F0,0F1,0B0,0B1\n2F0,2B0,2F1,2B1\n").find("stage out of 0 to 1") != std::string::npos);
  CHECK(torch("0f0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n").find("unknown op") != std::string::npos);
  CHECK(torch("0F0,0F1,0B0,0B1\n\n").find("a rank without any op") != std::string::npos);
  CHECK(torch("0F0,0SEND_F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n").find("unknown op") != std::string::npos);
  CHECK(torch("0F0,0F1,0B0,0B1,1F0\n1F0,1B0,1F1,1B1\n").find("stage 1: on 2 ranks") != std::string::npos);
}

TEST_CASE("PyTorch schedules that PyTorch takes by mistake are refused", "[export]") {
  CHECK(torch("0F0xyz,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n").find("s.csv:1:1: error: unknown op: \"0F0xyz\"") == 0);
  CHECK(torch("0F0,0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n").find("s.csv:1:5: error: op twice") == 0);
  CHECK(torch("0F1,0F2,0B1,0B2\n1F1,1B1,1F2,1B2\n").find("micro-batch out of 0 to 1") != std::string::npos);
  CHECK(torch("0F99999999999,0F1,0B0,0B1\n1F0\n").find("unknown op") != std::string::npos);
}

TEST_CASE("Megatron layouts: the forms that parse", "[export]") {
  CHECK(layout("Ettt|(tt|)*2,tttttL", 12, 4) == "accepted");
  CHECK(layout("Et*10|t*12L", 22, 2) == "accepted");
  CHECK(layout("E|t*6|t*6|L", 12, 4) == "accepted");
  CHECK(layout("Ett|tt|m|L", 4, 4, 1) == "accepted");
  CHECK(layout("Et*4||t*4|t*4L", 12, 4) == "accepted");
  CHECK(layout("(t|)*0EttL", 2, 1) == "accepted");
  const auto entries = read_megatron_layout("Ettt|(tt|)*2,tttttL", "layout", {12, 4, 0});
  CHECK(entries ==
        std::vector<LayoutEntry>{{true, 3, 0, false}, {false, 2, 0, false}, {false, 2, 0, false}, {false, 5, 0, true}});
  // Two chunks per rank: entry k lives on rank k % 2, so rank 0 holds layers {0} and {3, 4, 5}.
  CHECK(read_megatron_layout("Et|tt|ttt|tL", "layout", {7, 2, 0}).size() == 4);
}

TEST_CASE("Megatron layouts: the forms that do not", "[export]") {
  CHECK(layout("ett|ttL", 4, 2).find("layout:1:1: error: unexpected \"e\"") == 0);
  CHECK(layout("Ett | ttL", 4, 2).find("layout:1:4: error: unexpected \" \"") == 0);
  CHECK(layout("'Ett|ttL'", 4, 2).find("unexpected") != std::string::npos);
  CHECK(layout("E((t|)*2)*2L", 4, 2).find("unexpected \"(\"") != std::string::npos);
  CHECK(layout("tt|ttL", 4, 2).find("begin with E") != std::string::npos);
  CHECK(layout("Ett|tt", 4, 2).find("end with L") != std::string::npos);
  CHECK(layout("Ett|ttL|", 4, 2).find("3 stages do not divide over 2") != std::string::npos);
  CHECK(layout("Ett|tL", 4, 2).find("3 decoder layers (t), but the model has 4") != std::string::npos);
  CHECK(layout("Etm|tL", 2, 2, 1).find("before a decoder layer") != std::string::npos);
  CHECK(layout("Ettm|mL", 2, 2, 2).find("several stages") != std::string::npos);
  CHECK(layout("Et*999999999L", 4, 1).find("million") != std::string::npos);
  CHECK(layout("", 4, 1) != "accepted");
  CHECK(layout("Et*L", 4, 1).find("a number is missing") != std::string::npos);
}

TEST_CASE("MindSpeed splits must hold all layers", "[export]") {
  const auto split = [](const std::string& text, int layers) {
    return outcome([&] { return read_mindspeed_split(text, "split", {layers, 4, 0}); });
  };
  CHECK(split("[[3],[3],[4],[2]]", 12) == "accepted");
  CHECK(split("[[3*1],[3],[4],[2]]", 12) == "accepted");
  // MindSpeed itself takes 11 of 12 layers.
  CHECK(split("[[3],[3],[3],[2]]", 12).find("11 layers in all stages, but the model has 12") != std::string::npos);
  CHECK(split("[3,3,4,2]", 12).find("missing before the layers of a stage") != std::string::npos);
  CHECK(split("[[3],[3],[4]]", 10).find("3 stages for 4") != std::string::npos);
  CHECK(split("[[3],[3],[4],[2]", 12) != "accepted");
}

TEST_CASE("Metis rows are read whole", "[export]") {
  const MetisRow row = read_metis_row("1, 123.5, (A100, T4), [4, 4], [(2, 2), (1, 4)], 16, [0, 12, 26]\n", "m");
  CHECK(row.node_sequence == std::vector<std::string>{"A100", "T4"});
  CHECK(row.strategies[1] == std::vector<int>{1, 4});
  CHECK(row.layer_partition == std::vector<int>{0, 12, 26});
  const auto refused = [](const std::string& text) { return outcome([&] { return read_metis_row(text, "m"); }); };
  CHECK(refused("1, 1, (A), [4], [(2, 3)], 16, [0, 12]").find("does not use its 4 devices") != std::string::npos);
  CHECK(refused("1, 1, (A), [4], [(2, 2)], 16, [0, 0]").find("holds no layer") != std::string::npos);
  CHECK(refused("1, 1, (A), [4], [(2, 2)], 16") != "accepted");
  CHECK(refused("") != "accepted");
}

}  // namespace
}  // namespace hpplan
