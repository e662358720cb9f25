#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/command.hpp"

using hpplan::test::CommandResult;
using hpplan::test::file_text;
using hpplan::test::run_hpplan;
using hpplan::test::source_path;

namespace {

std::vector<std::string> golden_cases() {
  std::vector<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("tests/golden/plans"))) {
    if (entry.is_directory()) folders.push_back(entry.path().string());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::string arguments_of(const std::string& folder) {
  std::string text = file_text(folder + "/arguments");
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

}  // namespace

// A difference is shown by scripts/update_golden; the commit that changes a golden plan says why.
TEST_CASE("golden plans do not change, whatever the number of threads", "[golden]") {
  REQUIRE(golden_cases().size() >= 3);
  for (const std::string& folder : golden_cases()) {
    CAPTURE(folder);
    for (const char* threads : {" --threads 1", " --threads 3"}) {
      CAPTURE(threads);
      const CommandResult plan = run_hpplan("plan " + arguments_of(folder) + threads + " --out - --quiet");
      CHECK(plan.code == 0);
      CHECK((plan.out == file_text(folder + "/plan.json")));
    }
  }
}

TEST_CASE("the judge agrees with every golden plan", "[golden]") {
  for (const std::string& folder : golden_cases()) {
    CAPTURE(folder);
    const CommandResult check = run_hpplan("check -", file_text(folder + "/plan.json"));
    CHECK(check.out.substr(0, 4) == "ok: ");
    CHECK(check.code == 0);
  }
}
