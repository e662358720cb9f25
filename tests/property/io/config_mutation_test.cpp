// Every shipped file, broken in every simple way: hpplan either accepts the result or says where the fault is. A crash,
// a hang or a message without a place fails.
#include <random>
#include <string>

#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "domain/operators.hpp"
#include "io/cluster_reader.hpp"
#include "io/model_reader.hpp"
#include "io/sweep_reader.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/mutation.hpp"

using namespace hpplan;
using namespace hpplan::test;

namespace {

std::vector<DeviceType> shipped_types() {
  return parse_device_types(test::file_text(test::source_path("profiles/devices.yaml")), "devices.yaml");
}

std::string parse_as_model(const std::string& text) {
  const ModelSpec model = parse_model(text, "f");
  // What was accepted must be usable: under the sanitizers this also finds overflow.
  for (const LayerKind& kind : model.kinds) {
    for (const OperatorCost& cost : layer_operators(model, kind, 1, 1)) {
      if (cost.saved < Bytes{}) throw std::logic_error("negative size of " + cost.name);
    }
  }
  if (!(total_parameters(model) > 0.0)) throw std::logic_error("no parameters");
  return model.digest;
}

std::string parse_as_cluster(const std::string& text) {
  static const std::vector<DeviceType> types = shipped_types();
  const ClusterSpec cluster = parse_cluster(text, "f", types);
  if (cluster.device_count() < 1) throw std::logic_error("no devices");
  return cluster.digest;
}

void check_mutations(const std::string& path, const Parse& parse) {
  CAPTURE(path);
  const json good = as_json(test::file_text(path));
  REQUIRE(mishandled(parse, good.dump()) == "");
  CHECK(mishandled_mutant(good, parse) == "");
}

void check_lines(const std::string& path, const Parse& parse) {
  CAPTURE(path);
  std::vector<std::string> lines;
  std::istringstream stream(test::file_text(path));
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::vector<std::vector<std::string>> mutants(6, lines);
    mutants[0].erase(mutants[0].begin() + static_cast<std::ptrdiff_t>(i));
    mutants[1].insert(mutants[1].begin() + static_cast<std::ptrdiff_t>(i), lines[i]);
    mutants[2][i] = "\t" + lines[i];
    mutants[3][i] = " " + lines[i];
    mutants[4][i] += " : - {";
    mutants[5][i] = "- " + lines[i];
    for (const std::vector<std::string>& mutant : mutants) {
      const std::string text = join(mutant, "\n") + "\n";
      const std::string fault = mishandled(parse, text);
      if (!fault.empty()) FAIL(text + "\n" + fault);
    }
    // A line with a key and a value, given twice, is never accepted.
    const std::size_t colon = lines[i].find(": ");
    const bool is_field = colon != std::string::npos && lines[i].find_first_of("#-{") == std::string::npos;
    if (is_field) CHECK_THROWS_AS(parse(join(mutants[1], "\n")), InputError);
  }
}

void check_bytes(const std::string& text, const Parse& parse) {
  for (std::size_t length = 0; length < text.size(); ++length) {
    const std::string fault = mishandled(parse, text.substr(0, length));
    if (!fault.empty()) FAIL(text.substr(0, length) + "\n" + fault);
  }
  std::mt19937 random(7);
  const std::string bytes =
      std::string("{}[]:,-#&*!|>'\"%@`?\t\n \\\r", 25) + std::string("\0\x04\x1b\xff\xc3", 5) + "019aZ~=.";
  for (int i = 0; i < 1000; ++i) {
    std::string broken = text;
    for (int k = 0; k < 1 + i % 4; ++k) {
      const std::size_t at = random() % broken.size();
      const char byte = bytes[random() % bytes.size()];
      if (random() % 2 == 0) {
        broken[at] = byte;
      } else {
        broken.insert(at, 1, byte);
      }
    }
    const std::string fault = mishandled(parse, broken);
    if (!fault.empty()) FAIL(broken + "\n" + fault);
  }
}

}  // namespace

TEST_CASE("every shipped model loads, and every mutation of a field is handled", "[io][property]") {
  for (const std::string& path : test::files_in("configs/models", ".yaml")) {
    CAPTURE(path);
    CHECK_NOTHROW(parse_as_model(test::file_text(path)));
    check_mutations(path, parse_as_model);
  }
}

TEST_CASE("every shipped cluster loads, and every mutation of a field is handled", "[io][property]") {
  const std::string reference = "b2-b4-64.yaml";  // the others of scripts/generate_clusters differ in numbers only
  for (const std::string& path : test::files_in("configs/clusters", ".yaml")) {
    const std::string text = test::file_text(path);
    CAPTURE(path);
    CHECK_NOTHROW(parse_as_cluster(text));
    const bool is_generated = text.find("Printed in the paper") != std::string::npos;
    if (!is_generated || path.find(reference) != std::string::npos) check_mutations(path, parse_as_cluster);
  }
}

TEST_CASE("every shipped sweep loads, and every mutation of a field is handled", "[io][property]") {
  for (const std::string& path : test::files_in("configs/sweeps", ".yaml")) {
    const Parse parse = [](const std::string& text) {
      std::string all;
      for (const SweepPoint& point : parse_sweep(text, "f")) all += concat(point.model, " ", point.cluster, "\n");
      return all;
    };
    CAPTURE(path);
    CHECK_NOTHROW(parse(test::file_text(path)));
    check_mutations(path, parse);
  }
}

TEST_CASE("lines deleted, doubled, shifted and spoilt", "[io][property]") {
  for (const std::string& path : test::files_in("configs/models", ".yaml")) check_lines(path, parse_as_model);
  for (const char* const name : {"b2-b4-64", "odd-nodes", "rtx-mixed"}) {
    check_lines(test::source_path(concat("configs/clusters/", name, ".yaml")), parse_as_cluster);
  }
}

TEST_CASE("files cut at every byte, and with random bytes", "[io][property]") {
  const std::string model = test::file_text(test::source_path("configs/models/nemotron-like-8b.yaml"));
  const std::string cluster = test::file_text(test::source_path("configs/clusters/rtx-mixed.yaml"));
  check_bytes(model, parse_as_model);
  check_bytes(as_json(model).dump(1), parse_as_model);
  check_bytes(cluster, parse_as_cluster);
  check_bytes(as_json(cluster).dump(), parse_as_cluster);
}

TEST_CASE("random bytes alone", "[io][property]") {
  std::mt19937 random(11);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    const std::size_t length = 1 + random() % 60;
    for (std::size_t k = 0; k < length; ++k)
      text += static_cast<char>(i % 2 == 0 ? random() % 256 : 32 + random() % 96);
    const std::string fault = mishandled(parse_as_model, text);
    if (!fault.empty()) FAIL(text + "\n" + fault);
  }
}

TEST_CASE("sorted keys and JSON give the same digest as the file", "[io][property]") {
  for (const std::string& path : test::files_in("configs/models", ".yaml")) {
    CAPTURE(path);
    const std::string text = test::file_text(path);
    CHECK(parse_as_model(as_json(text).dump()) == parse_as_model(text));
  }
  for (const std::string& path : test::files_in("configs/clusters", ".yaml")) {
    CAPTURE(path);
    const std::string text = test::file_text(path);
    CHECK(parse_as_cluster(as_json(text).dump(2)) == parse_as_cluster(text));
  }
}
