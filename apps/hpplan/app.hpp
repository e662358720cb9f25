#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/diagnostic.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace hpplan {

/// What scripts can tell apart. `check` uses NoFeasiblePlan for a plan that it found wrong.
enum class ExitCode { Done = 0, OwnFault = 1, BadInput = 2, NoFeasiblePlan = 3 };

enum class ProgressMode { Auto, Always, Never };

/// What the verbs share. A verb sets `run` while the command line is parsed; main calls it afterwards, so that a fault
/// of the command line and a fault of the work never mix.
struct AppContext {
  ProgressMode progress = ProgressMode::Auto;
  bool quiet = false;
  char** arguments = nullptr;  // of main
  std::function<ExitCode()> run;
  std::map<const CLI::App*, std::string> examples;  // a command line of each verb
};

/// What the help of a verb shows besides its options.
struct VerbText {
  std::string name;
  std::string summary;  // one sentence
  std::string example;  // one command line
};

/// Adds a verb below `parent`: the program, or a verb such as `profile` that only groups other verbs and has no `run`.
/// `run` is called when the command line chose the verb. The options that every verb has are added too.
CLI::App& add_verb(CLI::App& parent, AppContext& context, const VerbText& text, std::function<ExitCode()> run);

/// Runs the program: parses the command line, runs the verb, turns faults into messages and exit codes.
[[nodiscard]] int run_app(CLI::App& app, AppContext& context, int argc, const char* const* argv);

/// A SearchOptions::stop that turns true `seconds` after it was made.
[[nodiscard]] std::function<bool()> stop_after(double seconds);

// ---- files

/// A text and the name to show for it in messages.
struct InputText {
  std::string name;
  std::string text;
};

/// The text of a file, or of standard input for "-". Throws InputError for what cannot be read.
[[nodiscard]] InputText read_input(const std::string& path);

/// Writes `text` to a file, or to standard output for "-". A file appears whole or not at all: it is written beside its
/// place and renamed. Devices and pipes are written directly. Throws InputError if the path cannot be written.
void write_output(const std::string& path, const std::string& text);

/// Throws InputError if write_output(path) is bound to fail; to be called before long work.
void check_output(const std::string& path);

/// Folders with the files that hpplan ships, the first that has a file wins: $HPPLAN_DATA alone if it is set; for a
/// program in its build tree the source tree; else the install prefix.
[[nodiscard]] std::vector<std::string> data_folders();

/// Path of a model, cluster or profile named by file ("-" is standard input) or by the name of a shipped one. Throws
/// InputError that lists the nearest shipped names.
[[nodiscard]] std::string find_model(const std::string& name_or_path);
[[nodiscard]] std::string find_cluster(const std::string& name_or_path);
[[nodiscard]] std::string find_profile(const std::string& name_or_path);

/// Names (without suffix) or folders shipped in `folder`, such as "configs/models"; sorted.
[[nodiscard]] std::vector<std::string> shipped_names(const std::string& folder);
/// Path of a shipped file or folder such as "configs/plan.schema.json", or "" if there is none.
[[nodiscard]] std::string shipped_path(const std::string& relative_path);

// ---- what people see

void print_diagnostics(const std::vector<Diagnostic>& diagnostics);

/// A note or summary on standard error; dropped with --quiet.
void print_note(const AppContext& context, const std::string& text);

/// One line on standard error that shows how far the work is. Silent unless the mode and the terminal ask for it.
class Progress {
 public:
  Progress(const AppContext& context, std::string label);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  /// Shows `done` of `total` (0: unknown) and a remark such as the best time so far; at most ten times a second.
  void update(std::size_t done, std::size_t total, const std::string& remark = "");

 private:
  bool enabled_ = false;
  bool rewrites_line_ = false;
  bool line_is_open_ = false;
  std::string label_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace hpplan
