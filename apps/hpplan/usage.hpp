#pragma once

#include <string>
#include <vector>

#include "base/diagnostic.hpp"

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace hpplan {

/// The verb with those above it: "hpplan sweep summarize".
[[nodiscard]] std::string full_name(const CLI::App& app);

/// What a verb takes without a name, such as PLAN.
[[nodiscard]] std::vector<const CLI::Option*> arguments_of(const CLI::App& app);

/// Throws InputError for what CLI11 would take silently or report badly: a word in the place of a verb that is none,
/// and an option in the place of another option's value.
///   arguments   of the command line, without the program
void check_command_line(const CLI::App& app, const std::vector<std::string>& arguments);

/// Throws InputError for an option whose value is empty; to be called when `app` has parsed the command line.
void check_option_values(const CLI::App& app);

/// What CLI11 found wrong with the command line, in our words.
[[nodiscard]] InputError usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace hpplan
