#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include "support/catch.hpp"

namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code = -1;
  std::string text;  // standard output and error together
};

Outcome run(const std::string& command) {
  Outcome outcome;
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) outcome.text += buffer.data();
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

Outcome hpplan_profile(const std::string& arguments) {
  return run(std::string(HPPLAN_BINARY) + " profile " + arguments);
}

bool contains(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

std::string content(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// A folder that is gone when the test is over.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("hpplan_profile_" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] fs::path operator/(const std::string& name) const { return path_ / name; }
  [[nodiscard]] std::string text() const { return path_.string(); }

 private:
  fs::path path_;
};

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

const char* const kMetis = R"({"model": {"model_name": "m", "num_layers": 4, "parameters": {}},
 "execution_time": {"optimizer_time_ms": 0, "layer_compute_total_ms": [1, 9, 9, 2]},
 "execution_memory": {"layer_memory_total_mb": [1, 2, 2, 1]}})";

}  // namespace

TEST_CASE("shipped profiles are what make_profiles writes", "[cli][profile]") {
  const Folder folder;
  const Outcome made =
      run(std::string(HPPLAN_SOURCE_DIR) + "/scripts/make_profiles " + HPPLAN_BINARY + " " + folder.text());
  CAPTURE(made.text);
  REQUIRE(made.code == 0);
  int count = 0;
  for (const auto& entry : fs::directory_iterator(folder.text())) {
    const fs::path shipped = fs::path(HPPLAN_SOURCE_DIR) / "profiles" / entry.path().filename();
    CAPTURE(shipped.string());
    CHECK(content(shipped) == content(entry.path()));
    ++count;
  }
  CHECK(count == 30);
}

TEST_CASE("an imported profile is shown as a table and as it was written", "[cli][profile]") {
  const Folder folder;
  write(folder / "DeviceType.X_tp2_bs4.json", kMetis);
  const std::string out = (folder / "out.json").string();
  const Outcome import = hpplan_profile("import " + (folder / "DeviceType.X_tp2_bs4.json").string() + " --out " + out);
  CHECK(import.code == 0);
  CHECK(contains(import.text, "m on X, imported from Metis files"));
  CHECK(contains(import.text, "note: "));
  CHECK(hpplan_profile("show " + out + " --json").text == content(out));
  const Outcome shown = hpplan_profile("show " + out);
  CHECK(shown.code == 0);
  CHECK(contains(shown.text, "block       2        4"));
  CHECK(contains(shown.text, "3.00 ms"));
}

TEST_CASE("faults of profile commands are usage faults with a hint", "[cli][profile]") {
  const Folder folder;
  write(folder / "a.json", "{}");
  CHECK(hpplan_profile("").code == 2);
  CHECK(hpplan_profile("import " + (folder / "a.json").string() + " --out " + (folder / "b").string()).code == 2);
  CHECK(hpplan_profile("import " + (folder / "none").string() + " --out " + (folder / "b").string()).code == 2);
  CHECK_FALSE(fs::exists(folder / "b"));
  const Outcome device = hpplan_profile("synthesize --device ascend-910b --model gpt3-13b");
  CHECK(device.code == 2);
  CHECK(contains(device.text, "unknown device type \"ascend-910b\""));
  CHECK(contains(device.text, "did you mean"));
  CHECK(hpplan_profile("synthesize --device a100-80gb --model gpt3-13b --samples 0").code == 2);
  CHECK(hpplan_profile("synthesize --device a100-80gb --model gpt3-13b --intra-node 25").code == 2);
  CHECK(hpplan_profile("--help").code == 0);
}

TEST_CASE("profiles of Galvatron and timers of Megatron-LM are imported from a folder", "[cli][profile]") {
  const Folder folder;
  write(folder / "computation_profiling_bf16_m_all.json",
        "{\"layernum[2]_bsz1_seq2048\": 9.0, \"layernum[4]_bsz1_seq2048\": 15.0, \"layernum[2]_bsz2_seq2048\": 17.0,\n"
        " \"layernum[4]_bsz2_seq2048\": 29.0}");
  const Outcome galvatron = hpplan_profile("import " + folder.text() + " --device a100-80gb --model gpt3-350m --out " +
                                           (folder / "p.json").string());
  CAPTURE(galvatron.text);
  CHECK(galvatron.code == 0);
  CHECK(contains(galvatron.text,
                 "note: Galvatron measures the forward alone: the backward is taken as twice the forward"));
  const Outcome shown = hpplan_profile("show " + (folder / "p.json").string());
  CHECK(shown.code == 0);
  CHECK(contains(shown.text, "note: what Galvatron measures outside the layers is taken as the head"));
  const Outcome plan =
      run(std::string(HPPLAN_BINARY) +
          " plan --model gpt3-350m --cluster a100-3090-4 --global-batch 8 --micro-batch 1,2 --profile " +
          (folder / "p.json").string());
  CAPTURE(plan.text);
  CHECK(plan.code == 0);
  CHECK(contains(plan.text, "note: a100-80gb: the profile has no embedding; modelled instead"));
  CHECK(contains(plan.text, "note: a100-80gb: the profile lacks tp2 bs1, tp2 bs2; these are modelled"));
  fs::remove(folder / "computation_profiling_bf16_m_all.json");
  fs::remove(folder / "p.json");
  write(folder / "run.log", "(min, max) time across ranks (ms):\n    forward-compute ....: (1.0, x)\n");
  const Outcome broken = hpplan_profile("import " + folder.text() + " --device a100 --model gpt3-350m --out " +
                                        (folder / "p.json").string());
  CHECK(broken.code == 2);
  CHECK(contains(broken.text, "run.log:2:27: error: forward-compute: found \"(1.0, x)\", needed a time in ms"));
  CHECK(contains(broken.text, "run.log:1:1: error: num_layers: the log does not state it"));
}
