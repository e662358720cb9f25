#include "effort_option.hpp"

#include <CLI/CLI.hpp>

#include "option_checks.hpp"
#include "search/engine.hpp"

namespace hpplan {

CLI::Option* add_effort_option(CLI::App& verb, int& effort) {
  return verb
      .add_option("--effort", effort,
                  "work after which a gap that is left stays open, as a multiple of the usual (default 1)")
      ->type_name("N")
      ->check(whole_number(1, kMostEffort));
}

}  // namespace hpplan
