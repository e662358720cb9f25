#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/command.hpp"

using namespace hpplan;
using test::CommandResult;
using test::is_installed;
using test::run_hpplan;
using test::ScratchFolder;
using Json = nlohmann::json;

namespace {

/// Every verb that runs, as words of the command line, with its entry in the table.
void collect(const Json& verb, const std::string& words, std::vector<std::pair<std::string, Json>>& verbs) {
  for (const Json& below : verb["verbs"]) {
    collect(below, words + (words.empty() ? "" : " ") + below["name"].get<std::string>(), verbs);
  }
  if (!words.empty()) verbs.emplace_back(words, verb);
}

std::vector<std::pair<std::string, Json>> all_verbs() {
  std::vector<std::pair<std::string, Json>> verbs;
  collect(Json::parse(run_hpplan("man --json").out), "", verbs);
  return verbs;
}

std::string plain(std::string text) {
  for (std::size_t at = text.find('\\'); at != std::string::npos; at = text.find('\\')) {
    text.erase(at, text.compare(at, 2, "\\f") == 0 ? 3 : 1);
  }
  return text;
}

}  // namespace

TEST_CASE("each verb has a page with each of its options", "[cli][man]") {
  const auto verbs = all_verbs();
  CHECK(verbs.size() > 15);
  for (const auto& [words, verb] : verbs) {
    CAPTURE(words);
    const CommandResult page = run_hpplan("man " + words);
    REQUIRE(page.code == 0);
    const std::string text = plain(page.out);
    CHECK(text.find(".SH NAME\nhpplan-") != std::string::npos);
    CHECK(text.find(verb["example"].get<std::string>().substr(0, 20)) != std::string::npos);
    for (const Json& option : verb["options"]) {
      CHECK(text.find(option["names"].back().get<std::string>()) != std::string::npos);
    }
  }
}

TEST_CASE("pages of all verbs are written to a folder, and the usage faults of man", "[cli][man]") {
  const ScratchFolder scratch;
  REQUIRE(run_hpplan("man --out " + scratch.path("pages")).code == 0);
  CHECK(std::filesystem::exists(scratch.path("pages/hpplan.1")));
  CHECK(std::filesystem::exists(scratch.path("pages/hpplan-profile-import.1")));
  const auto count = std::distance(std::filesystem::directory_iterator(scratch.path("pages")), {});
  CHECK(static_cast<std::size_t>(count) == all_verbs().size() + 1);
  CHECK(run_hpplan("man plam").err.find("did you mean \"plan\"?") != std::string::npos);
  CHECK(run_hpplan("man plam").code == 2);
}

TEST_CASE("man, groff and mandoc take the pages without a warning", "[cli][man]") {
  const ScratchFolder scratch;
  REQUIRE(run_hpplan("man --out " + scratch.path("pages")).code == 0);
  const auto silent = [&](const std::string& program, const std::string& command) {
    if (!is_installed(program)) {
      WARN("skipped: no " << program);
      return;
    }
    const CommandResult result = test::run_script("bash -c", command);
    CAPTURE(command, result.out);
    CHECK(result.code == 0);
    CHECK(result.err.empty());
    CHECK(result.out.find("HPPLAN") == 0);
  };
  const std::string pages = scratch.path("pages") + "/*.1";
  silent("groff", "for page in " + pages + "; do groff -man -Tascii -ww $page; done");
  silent("man", "for page in " + pages + "; do LC_ALL=C man --warnings -l $page; done");
  if (is_installed("mandoc")) {  // warnings and worse; its remarks of style are about long lines
    CHECK(test::run_script("bash -c", "mandoc -Tlint -Wwarning " + pages).out.empty());
  }
}
