#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <sys/wait.h>

#include "support/files.hpp"

namespace hpplan::test {

/// A folder of its own for one test, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "hpplan-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch folder");
    path_ = name;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::string path(const std::string& name = "") const {
    return name.empty() ? path_ : path_ + "/" + name;
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

 private:
  std::string path_;
};

struct CommandResult {
  int code = -1;
  std::string out;
  std::string err;
};

/// Runs a command of any shell in a scratch folder, with hpplan found on the PATH. `command` is a program with its
/// options that takes a script as its last argument, such as "bash -c".
inline CommandResult run_script(const std::string& command, const std::string& script) {
  const ScratchFolder scratch;
  scratch.write("script", script);
  const std::string program_folder = std::filesystem::path(HPPLAN_BINARY).parent_path().string();
  const std::string line = "cd " + scratch.path() + " && PATH='" + program_folder + "':$PATH " + command +
                           " \"$(cat script)\" </dev/null >out 2>err";
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, file_text(scratch.path("out")), file_text(scratch.path("err"))};
}

/// Whether a program is on the PATH. A test that needs one that is missing says so and passes.
inline bool is_installed(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

/// Runs hpplan with `arguments` (shell syntax) in a scratch folder with `input` as standard input. `environment` holds
/// assignments such as "NO_COLOR=1".
inline CommandResult run_hpplan(const std::string& arguments, const std::string& input = "",
                                const std::string& environment = "") {
  const ScratchFolder scratch;
  scratch.write("in", input);
  const std::string command =
      "cd " + scratch.path() + " && " + environment + " '" + HPPLAN_BINARY + "' " + arguments + " <in >out 2>err";
  const int status = std::system(command.c_str());
  CommandResult result;
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.out = file_text(scratch.path("out"));
  result.err = file_text(scratch.path("err"));
  return result;
}

}  // namespace hpplan::test
