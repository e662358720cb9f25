// Plans from measured profiles that lie beside the sources; skipped, with a warning, where they are absent.
#include <filesystem>
#include <string>

#include "base/text.hpp"
#include "support/catch.hpp"
#include "support/command.hpp"

using hpplan::concat;
using hpplan::test::CommandResult;
using hpplan::test::file_text;
using hpplan::test::run_hpplan;
using hpplan::test::ScratchFolder;
using hpplan::test::source_path;

namespace {

const std::string kProfiles = source_path("../shared/data/sailor/sailor_planner_profiles/OPT-350");

bool absent(const std::string& path) {
  if (std::filesystem::exists(path)) return false;
  WARN("skipped: no " << path);
  return true;
}

/// The measured RTX nodes, `nodes` of each type with `devices` devices each.
std::string rtx_cluster(int nodes, int devices) {
  std::string text = file_text(source_path("configs/clusters/rtx-mixed.yaml"));
  const auto replace_all = [&](const std::string& from, const std::string& to) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  };
  replace_all("    nodes: 3\n", concat("    nodes: ", nodes, "\n"));
  replace_all("    devices_per_node: 8\n", concat("    devices_per_node: ", devices, "\n"));
  return text;
}

}  // namespace

TEST_CASE("OPT-350M is planned from measured times on RTX-3090, RTX-2080 and Titan-RTX, and check agrees",
          "[plan][measured]") {
  if (absent(kProfiles)) return;
  // A node of 8 of each type, and 4 of each.
  const int devices = GENERATE(8, 4);
  const int batch = GENERATE(128, 512);
  CAPTURE(devices, batch);
  const ScratchFolder folder;
  const std::string inputs = concat(" --model opt-350m --cluster ", folder.write("rtx.yaml", rtx_cluster(1, devices)));
  std::string profiles;
  for (const char* const type : {"RTX-3090", "RTX-2080", "Titan-RTX"})
    profiles += concat(" --profile '", kProfiles, "/", type, "'");
  const CommandResult plan =
      run_hpplan(concat("plan", inputs, profiles, " --global-batch ", batch,
                        " --micro-batch 1,2,4,8 --time-limit 4 --out ", folder.path("plan.json")));
  CAPTURE(plan.err);
  REQUIRE(plan.code == 0);
  CHECK_THAT(plan.err, Contains("opt-350m on rtx-mixed"));
  const std::string text = file_text(folder.path("plan.json"));
  CHECK_THAT(text, Contains("\"provenance\": \"measured\""));
  const CommandResult check = run_hpplan(concat("check ", folder.path("plan.json"), inputs, profiles));
  CAPTURE(check.out);
  CHECK(check.code == 0);
}

TEST_CASE("every profile of the Sailor folders is shown, or refused with its place", "[profile][measured]") {
  const std::string data = source_path("../shared/data/sailor");
  if (absent(data)) return;
  int shown = 0;
  int refused = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(data)) {
    const std::string path = entry.path().string();
    const bool is_profile =
        path.find("/metis_format/") != std::string::npos || entry.path().filename() == "profile.json";
    if (entry.path().extension() != ".json" || !is_profile) continue;
    CAPTURE(path);
    const CommandResult result = run_hpplan("profile show '" + path + "'");
    if (result.code == 0) {
      ++shown;
      CHECK_THAT(result.out, Contains("profile of ") && Contains("forward/sample"));
    } else {
      ++refused;
      CHECK(result.code == 2);
      CHECK_THAT(result.err, Contains(path + ":") && Contains(": error: "));
    }
  }
  // Those of LLAMA-3-8 in Metis form, whose lists differ in length, and the copy of OPT-350M in GPT-Neo's folder.
  WARN(shown << " profiles shown, " << refused << " refused");
  CHECK(shown > 100);
  CHECK(refused > 0);
}
