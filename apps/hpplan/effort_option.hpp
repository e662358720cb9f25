#pragma once

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace hpplan {

/// Adds --effort, for SearchOptions::set_effort().
CLI::Option* add_effort_option(CLI::App& verb, int& effort);

}  // namespace hpplan
