#include "app.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <new>
#include <utility>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "base/check.hpp"
#include "base/text.hpp"
#include "option_checks.hpp"
#include "usage.hpp"

namespace hpplan {

namespace {

bool has_text(const char* value) { return value != nullptr && *value != '\0'; }

/// https://no-color.org: colour only on a terminal, and never if NO_COLOR is set.
bool colour_wanted() {
  const char* const terminal = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && !has_text(std::getenv("NO_COLOR")) && has_text(terminal) &&
         std::string(terminal) != "dumb";
}

void flush_result() {
  std::cout.flush();
  if (!std::cout) throw InputError(Diagnostic{"<stdout>", 0, 0, "", "cannot be written", ""});
}

ExitCode parse_and_run(CLI::App& app, AppContext& context, int argc, const char* const* argv) {
  try {
    check_command_line(app, std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {
    app.exit(wanted, std::cout, std::cerr);  // --help, --version
    flush_result();
    return ExitCode::Done;
  } catch (const CLI::ParseError& error) {
    throw usage_error(app, error);
  }
  check_option_values(app);
  check_invariant(static_cast<bool>(context.run), "every verb sets what to run");
  const ExitCode code = context.run();
  flush_result();
  return code;
}

ExitCode report_own_fault(const std::string& text) {
  std::cerr << "hpplan: " << text << "\n  hint: this is a fault of hpplan itself; please report it with your input\n";
  return ExitCode::OwnFault;
}

}  // namespace

CLI::App& add_verb(CLI::App& parent, AppContext& context, const VerbText& text, std::function<ExitCode()> run) {
  CLI::App* const verb = parent.add_subcommand(text.name, text.summary);
  verb->footer(concat("Example:\n  ", text.example));
  context.examples[verb] = text.example;
  if (!run) return *verb;
  const auto set_progress = [&context](const std::string& mode) {
    context.progress = mode == "always"  ? ProgressMode::Always
                       : mode == "never" ? ProgressMode::Never
                                         : ProgressMode::Auto;
  };
  verb->add_option_function<std::string>("--progress", set_progress,
                                         "show progress on standard error; auto (the default): on a terminal only")
      ->check(one_of({"auto", "always", "never"}))
      ->type_name("auto|always|never");
  verb->add_flag("--quiet", context.quiet, "no notes and no summary on standard error");
  verb->callback([&context, run = std::move(run)] { context.run = run; });
  return *verb;
}

int run_app(CLI::App& app, AppContext& context, int argc, const char* const* argv) {
  ExitCode code = ExitCode::OwnFault;
  try {
    // A file beyond the size that is allowed is then an error like a full disk, which cleans up behind itself.
    std::signal(SIGXFSZ, SIG_IGN);
    app.require_subcommand(1);
    app.footer("Example:\n  hpplan plan --model gpt3-13b --cluster b2-b4-64 --global-batch 1024");
    code = parse_and_run(app, context, argc, argv);
  } catch (const InputError& error) {
    print_diagnostics(error.diagnostics());
    code = ExitCode::BadInput;
  } catch (const InternalError& error) {
    code = report_own_fault(error.what());
  } catch (const std::bad_alloc&) {
    code = report_own_fault("internal error: out of memory");
  } catch (const std::exception& error) {
    code = report_own_fault(concat("internal error: ", error.what()));
  }
  return static_cast<int>(code);
}

void print_diagnostics(const std::vector<Diagnostic>& diagnostics) {
  const bool in_colour = colour_wanted();
  for (const Diagnostic& diagnostic : diagnostics) {
    std::string text = to_text(diagnostic);
    const std::size_t at = text.find(": error: ");
    if (in_colour && at != std::string::npos) text.replace(at + 2, 6, "\033[31merror:\033[0m");
    std::cerr << text << '\n';
  }
}

void print_note(const AppContext& context, const std::string& text) {
  if (!context.quiet) std::cerr << text << '\n';
}

Progress::Progress(const AppContext& context, std::string label) : label_(std::move(label)) {
  const bool on_terminal = ::isatty(STDERR_FILENO) == 1;
  enabled_ = context.progress == ProgressMode::Always ||
             (context.progress == ProgressMode::Auto && on_terminal && !context.quiet);
  rewrites_line_ = on_terminal;
}

Progress::~Progress() {
  if (line_is_open_) std::cerr << "\r\033[K" << std::flush;
}

void Progress::update(std::size_t done, std::size_t total, const std::string& remark) {
  if (!enabled_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::milliseconds(100) && done != total) return;
  last_ = now;
  std::string line = concat(label_, ": ", done);
  if (total > 0) line += concat(" of ", total, " (", 100 * done / total, " %)");
  if (!remark.empty()) line += concat(", ", remark);
  if (rewrites_line_) {
    std::cerr << "\r\033[K" << line << std::flush;
    line_is_open_ = true;
  } else {
    std::cerr << line << '\n';
  }
}

std::function<bool()> stop_after(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  return [end] { return Clock::now() >= end; };
}

}  // namespace hpplan
