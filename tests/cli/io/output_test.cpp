#include <filesystem>
#include <string>

#include <unistd.h>

#include "support/catch.hpp"
#include "support/command.hpp"

using namespace hpplan;
using test::CommandResult;
using test::run_hpplan;
namespace fs = std::filesystem;

namespace {

const std::string kShow = "schedule --family 1f1b --stages 2 --micro-batches 2 --forward 1 --backward 2 --svg ";

std::size_t file_count(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("an output file appears whole, with ordinary permissions and nothing beside it", "[cli][output]") {
  const test::ScratchFolder folder;
  const std::string path = folder.path("out.svg");
  REQUIRE(run_hpplan(kShow + path).code == 0);
  CHECK(test::file_text(path).find("</svg>") != std::string::npos);
  CHECK(file_count(folder.path()) == 1);
  const fs::perms written = fs::status(path).permissions();
  CHECK((written & fs::perms::owner_exec) == fs::perms::none);
  const std::string other = folder.write("plain", "");
  CHECK(written == fs::status(other).permissions());  // what the umask leaves, not what a temporary file has
}

TEST_CASE("an output file is replaced, through a link as well", "[cli][output]") {
  const test::ScratchFolder folder;
  const std::string target = folder.write("target", "old");
  fs::permissions(target, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink(target, folder.path("link"));
  REQUIRE(run_hpplan(kShow + folder.path("link")).code == 0);
  CHECK(fs::is_symlink(folder.path("link")));
  CHECK(test::file_text(target).find("<svg") != std::string::npos);
  CHECK(fs::status(target).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(file_count(folder.path()) == 2);
}

TEST_CASE("a link to a file that does not exist yet creates that file", "[cli][output]") {
  const test::ScratchFolder folder;
  fs::create_symlink("new", folder.path("link"));
  REQUIRE(run_hpplan(kShow + folder.path("link")).code == 0);
  CHECK(fs::is_symlink(folder.path("link")));
  CHECK(fs::is_regular_file(folder.path("new")));
}

TEST_CASE("a device stays a device", "[cli][output]") {
  CHECK(run_hpplan(kShow + "/dev/null").code == 0);
  CHECK(fs::is_character_file("/dev/null"));
  const CommandResult full = run_hpplan(kShow + "/dev/full");
  CHECK(full.code == 2);
  CHECK(full.err == "/dev/full: error: cannot be written: No space left on device\n");
}

TEST_CASE("a file holds one result", "[cli][output]") {
  const test::ScratchFolder folder;
  const std::string trace = " --trace " + folder.path("./both");
  const CommandResult both = run_hpplan(kShow + folder.path("both") + trace);
  CHECK(both.code == 2);
  CHECK(both.err.find("is written by --") != std::string::npos);
  CHECK(file_count(folder.path()) == 0);
  CHECK(run_hpplan(kShow + "/dev/null --trace /dev/null").code == 0);
}

TEST_CASE("places that cannot be written are refused and left as they were", "[cli][output]") {
  const test::ScratchFolder folder;
  const CommandResult into_folder = run_hpplan(kShow + folder.path());
  CHECK(into_folder.code == 2);
  CHECK(into_folder.err == folder.path() + ": error: is a folder, needed a file to write to\n");
  const CommandResult nowhere = run_hpplan(kShow + folder.path("no/out.svg"));
  CHECK(nowhere.code == 2);
  CHECK(nowhere.err == folder.path("no/out.svg") + ": error: there is no folder " + folder.path("no") + "\n");
  CHECK(file_count(folder.path()) == 0);
  if (::geteuid() != 0) {  // root may write anywhere
    fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
    CHECK(run_hpplan(kShow + folder.path("out.svg")).code == 2);
    fs::permissions(folder.path(), fs::perms::owner_all);
  }
}
