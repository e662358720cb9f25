#include <algorithm>

#include "base/diagnostic.hpp"
#include "emit/profile_writer.hpp"
#include "io/profile_import.hpp"
#include "io/profile_reader.hpp"
#include "profile/synthesize.hpp"
#include "support/catch.hpp"
#include "support/models.hpp"

using namespace hpplan;
using namespace hpplan::testing;

namespace {

/// A native profile whose forward times, backward times and saved bytes are the given lists.
std::string native(const std::string& forward, const std::string& saved = "[10, 20]") {
  return R"({"format": "hpplan-profile", "version": 1, "device": "x", "model": "m",
 "series": [{"kind": "block", "tensor_parallel": 1, "samples": [1, 2], "forward_s": )" +
         forward + R"(, "backward_s": [0.02, 0.04], "saved_bytes": )" + saved + "}]}";
}

std::string metis(const std::string& times, const std::string& memory) {
  return R"({"model": {"model_name": "m", "num_layers": 10, "parameters": {}},
 "execution_time": {"optimizer_time_ms": 0.0, "layer_compute_total_ms": )" +
         times + R"(}, "execution_memory": {"layer_memory_total_mb": )" + memory + "}}";
}

const std::string kTimes = "[1.5, 10, 10, 10, 10, 10, 10, 10, 10, 0.5]";
const std::string kMemory = "[5, 9, 9, 9, 9, 9, 9, 9, 9, 5]";

template <typename Read>
std::vector<std::string> faults_of(const Read& read) {
  std::vector<std::string> lines;
  try {
    (void)read();
  } catch (const InputError& error) {
    for (const Diagnostic& diagnostic : error.diagnostics())
      lines.push_back(diagnostic.field + ": " + diagnostic.message);
  }
  return lines;
}

std::vector<std::string> native_faults(const std::string& text) {
  return faults_of([&] { return parse_profile(text, "f"); });
}

std::vector<DeviceProfile> import_metis(const std::string& times, const std::string& memory,
                                        const std::string& path = "DeviceType.X_tp1_bs1.json") {
  return import_profiles({{path, metis(times, memory)}}, {});
}

bool mentions(const std::vector<std::string>& lines, const std::string& words) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(words) != std::string::npos; });
}

}  // namespace

TEST_CASE("a profile reads back as it was written", "[profile][io]") {
  const ModelSpec model = gpt_model(2, 1024, 16);
  const DeviceType type = a100();
  const Link link = fast_link();
  DeviceProfile profile = synthesize_profile({model, type, link, {1, 2}, {1, 2, 4}});
  profile.notes = {"a \"note\""};
  profile.optimizer_per_parameter = {{1, Seconds{0.1e-10}}, {2, Seconds{0.0}}};
  profile.links["intra_node"] = {{Bytes{1024}, BytesPerSecond{1e9}}, {Bytes{4096}, BytesPerSecond{3.3e9}}};
  const std::string text = emit_profile(profile);
  const DeviceProfile again = parse_profile(text, "f");
  CHECK(emit_profile(again) == text);
  CHECK(again.points.at("block").at(2).at(4).forward == profile.points.at("block").at(2).at(4).forward);
  CHECK(again.basis == profile.basis);
  CHECK(again.shape == profile.shape);
  CHECK(again.links == profile.links);
  CHECK(again.optimizer_per_parameter == profile.optimizer_per_parameter);
}

TEST_CASE("A16: times that cannot be are refused with key and index", "[profile][io]") {
  for (const char* const value : {"-1", "0.0", "0", "1e999", "null", "\"0.1\"", "-0.0"}) {
    CAPTURE(value);
    const auto faults = native_faults(native(std::string("[0.01, ") + value + "]"));
    REQUIRE(faults.size() == 1);
    CHECK(faults.front().find("series[0].forward_s[1]: ") == 0);
  }
  CHECK_FALSE(native_faults(native("[0.01, NaN]")).empty());
  CHECK(mentions(native_faults(native("[]")), "series[0].forward_s"));
}

TEST_CASE("A15: a list of another length is refused and names both", "[profile][io]") {
  CHECK(native_faults(native("[0.01]")) ==
        std::vector<std::string>{"series[0].forward_s: 1 values, but \"samples\" has 2"});
}

TEST_CASE("A15: saved bytes that do not grow are noted", "[profile][io]") {
  CHECK(mentions(parse_profile(native("[0.01, 0.02]", "[10, 10]"), "f").notes, "do not grow"));
  CHECK(parse_profile(native("[0.01, 0.02]"), "f").notes.empty());
}

TEST_CASE("unknown keys of a profile are refused", "[profile][io]") {
  CHECK_FALSE(native_faults(R"({"format": "hpplan-profile", "version": 1, "device": "x", "model": "m", "serie": [],
    "series": [{"kind": "b", "tensor_parallel": 1, "samples": [1], "forward_s": [1], "backward_s": [1]}]})")
                  .empty());
}

TEST_CASE("Metis files are read and their sums split 1 to 2", "[profile][import]") {
  // first 1.5, eight of 10, last 0.5 ms
  const std::vector<DeviceProfile> profiles = import_metis(kTimes, kMemory);
  REQUIRE(profiles.size() == 1);
  const DeviceProfile& profile = profiles.front();
  CHECK(profile.device_type == "X");
  CHECK(profile.model == "m");
  CHECK(profile.shape.layers == 10);
  const ProfilePoint& block = profile.points.at("block").at(1).at(1);
  CHECK(block.forward.value() == Approx(0.010 / 3));
  CHECK((block.forward + block.backward).value() == 0.010);
  CHECK(mentions(profile.notes, "split as 1 to 2"));
  CHECK(import_metis(kTimes, kMemory, "A/mbs4_tmp2.json").front().points.at("head").at(2).count(4) == 1);
  CHECK(import_metis(kTimes, kMemory, "A/mbs4_tmp2.json").front().device_type == "A");
}

TEST_CASE("A15: Metis lists of another length are refused and name both", "[profile][import]") {
  const auto faults = faults_of([] { return import_metis(kTimes, "[5, 9, 9, 9, 9, 9, 9, 9, 5]"); });
  REQUIRE(faults.size() == 1);
  CHECK(faults.front() == "execution_memory.layer_memory_total_mb: 9 values, but num_layers is 10");
}

TEST_CASE("A16: Metis times that cannot be are refused, an overhead of 0 is not", "[profile][import]") {
  for (const char* const value : {"-1", "0.0", "1e999"}) {
    CAPTURE(value);
    const std::string times = std::string("[1.5, 10, ") + value + ", 10, 10, 10, 10, 10, 10, 0.5]";
    const auto faults = faults_of([&] { return import_metis(times, kMemory); });
    REQUIRE(faults.size() == 1);
    CHECK(faults.front().find("execution_time.layer_compute_total_ms[2]: ") == 0);
  }
}

TEST_CASE("A15: memory that does not grow with the batch is noted", "[profile][import]") {
  const auto profiles = import_profiles(
      {{"DeviceType.X_tp1_bs1.json", metis(kTimes, kMemory)}, {"DeviceType.X_tp1_bs2.json", metis(kTimes, kMemory)}},
      {});
  REQUIRE(profiles.size() == 1);
  CHECK(mentions(profiles.front().notes, "memory at TP 1 does not grow"));
}

TEST_CASE("A15: interior layers that differ are not one kind", "[profile][import]") {
  CHECK(mentions(faults_of([] { return import_metis("[1.5, 10, 10, 10, 20, 10, 10, 10, 10, 0.5]", kMemory); }),
                 "layer 4 takes"));
}

TEST_CASE("a Sailor profile gets its device and model from the folders", "[profile][import]") {
  const std::string text =
      R"({"2": {"1": {"0": [0.1, 0.0, 0.5], "1": [1, 2, 0.5], "2": [1, 2, 0.5], "3": [0.3, 0.6, 0.5]}}})";
  const auto profiles = import_profiles({{"a/M/D/profile.json", text}}, {});
  REQUIRE(profiles.size() == 1);
  CHECK(profiles.front().device_type == "D");
  CHECK(profiles.front().model == "M");
  CHECK(profiles.front().points.at("block").at(1).at(2).backward == Seconds{2.0});
  CHECK(profiles.front().points.at("embedding").at(1).at(2).backward == Seconds{0.2});
  CHECK(mentions(profiles.front().notes, "the backward of the embedding is given as about 0"));
  CHECK(mentions(profiles.front().notes, "nothing tells the number of parameters"));
}

TEST_CASE("a file of no known layout is refused", "[profile][import]") {
  for (const char* const text : {"[]", "{}", "3", R"({"a": 1})", R"({"1": {"1": 2}})"}) {
    CAPTURE(text);
    CHECK_FALSE(faults_of([&] { return import_profiles({{"a/b/c.json", text}}, {}); }).empty());
  }
}
