#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "io/import_hosts.hpp"
#include "support/catch.hpp"

namespace hpplan {
namespace {

using Names = std::vector<std::string>;

std::string refusal(const std::string& hostfile) {
  try {
    (void)read_hostfile(hostfile, "hosts");
  } catch (const InputError& error) {
    std::string text;
    for (const Diagnostic& diagnostic : error.diagnostics()) text += to_text(diagnostic) + "\n";
    return text;
  }
  return "accepted";
}

int device_count(const std::string& hostfile) {
  int count = 0;
  for (const Host& host : read_hostfile(hostfile, "hosts")) count += host.devices;
  return count;
}

std::string list_refusal(const std::string& list) {
  try {
    (void)expand_node_list(list, "list");
  } catch (const InputError& error) {
    return to_text(error.diagnostics().front());
  }
  return "accepted";
}

TEST_CASE("case A20: two-digit slots are whole numbers", "[import]") {
  CHECK(device_count("n1 slots=16\nn2 slots=8\n") == 24);
  CHECK(device_count("# hosts\r\n\r\nn1 slots=16\r\n  n2 slots=8  # spare\r\n") == 24);
}

TEST_CASE("case A20: a host named twice is refused with both lines", "[import]") {
  const std::string text = refusal("n1 slots=16\nn1 slots=8\n");
  CHECK(text.find("hosts:2:1: error: host n1 was named before, in line 1") == 0);
}

TEST_CASE("case A20: a malformed line is quoted", "[import]") {
  CHECK(refusal("n1 slots=16\nn2 lots=8\n").find("hosts:2:4: error: unknown word \"lots=8\" in \"n2 lots=8\"") == 0);
  CHECK(refusal("n2 slots = 8\n").find("hosts:1:4") == 0);
  CHECK(refusal("n2 slots=eight\n").find("\"eight\" is not a number of slots") != std::string::npos);
  CHECK(refusal("n2 slots=0\n").find("\"0\" is not a number of slots") != std::string::npos);
  CHECK(refusal("n2 slots=8 slots=4\n").find("stated twice") != std::string::npos);
}

TEST_CASE("case A20: a byte order mark is no part of a name, and a binary file no list of hosts", "[import]") {
  CHECK(read_hostfile("\xEF\xBB\xBFn1 slots=2\r\n", "hosts").front().name == "n1");
  CHECK(refusal(std::string("n1\0n2", 5)) == "hosts: error: not a text file: it holds a zero byte\n");
}

TEST_CASE("case A20: an empty file is no silent single-machine run", "[import]") {
  CHECK(refusal("").find("hosts: error: no host in this file") == 0);
  CHECK(refusal("# nothing\n\n").find("no host in this file") != std::string::npos);
}

TEST_CASE("hostfiles of MPI are read", "[import]") {
  CHECK(device_count("n1:8\nn2 8\n") == 16);
  CHECK(device_count("a:8,b:4\n") == 12);
  CHECK(device_count("n1 slots=4 max_slots=8\n") == 4);
  CHECK(read_hostfile("n1\n", "hosts").front().devices == 0);  // not stated: the caller asks for it
}

TEST_CASE("a type is given on all hosts or on none", "[import]") {
  CHECK(read_hostfile("a slots=8 type=A100\nb slots=8 type=V100\n", "hosts")[1].type == "V100");
  CHECK(refusal("a slots=8 type=A100\nb slots=8\n").find("host b has no type, but a has") != std::string::npos);
}

TEST_CASE("a hostfile may name nodes by a Slurm list", "[import]") {
  CHECK(device_count("node[01-04] slots=8\n") == 32);
}

TEST_CASE("Slurm lists expand in the order of the text", "[import]") {
  // As scontrol show hostnames prints them.
  CHECK(expand_node_list("node[01-04,07],b[1-2]r[1-2]", "list") ==
        Names{"node01", "node02", "node03", "node04", "node07", "b1r1", "b1r2", "b2r1", "b2r2"});
  CHECK(expand_node_list("node[098-101]", "list") == Names{"node098", "node099", "node100", "node101"});
  CHECK(expand_node_list("node[9-11]", "list") == Names{"node9", "node10", "node11"});
  CHECK(expand_node_list("login", "list") == Names{"login"});
}

TEST_CASE("broken Slurm lists are refused at their column", "[import]") {
  CHECK(list_refusal("node[01-04").find("list:1:5: error: this bracket is never closed") == 0);
  CHECK(list_refusal("node[04-01]").find("runs backwards") != std::string::npos);
  CHECK(list_refusal("node[a]").find("list:1:6") == 0);
  CHECK(list_refusal("a,,b").find("list:1:3: error: a node name is missing") == 0);
  CHECK(list_refusal("").find("a node name is missing") != std::string::npos);
  CHECK(list_refusal("n[0-999999999]").find("more than 100000 nodes") != std::string::npos);
  CHECK(list_refusal("n[1-999][1-999]").find("more than 100000 nodes") != std::string::npos);
  CHECK(list_refusal("a b").find("list:1:2") == 0);
}

TEST_CASE("Slurm counts repeat", "[import]") {
  CHECK(expand_task_counts("8(x4),4", "tasks") == std::vector<int>{8, 8, 8, 8, 4});
  CHECK_THROWS_AS(expand_task_counts("8(x", "tasks"), InputError);
  CHECK_THROWS_AS(expand_task_counts("8(x999999999)", "tasks"), InputError);
  CHECK_THROWS_AS(expand_task_counts("", "tasks"), InputError);
}

TEST_CASE("a Slurm job needs one count per node", "[import]") {
  CHECK(read_slurm_hosts("n[1-2]", "8(x2)")[1].devices == 8);
  CHECK_THROWS_AS(read_slurm_hosts("n[1-2]", "8(x3)"), InputError);
  CHECK_THROWS_AS(read_slurm_hosts("n[1-2],n1", "8(x3)"), InputError);
}

}  // namespace
}  // namespace hpplan
