#include "usage.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include <CLI/CLI.hpp>

#include "base/text.hpp"

namespace hpplan {

namespace {

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(verb->get_name());
  }
  return names;
}

Diagnostic usage_fault(const CLI::App& app, const std::string& field, const std::string& message,
                       const std::string& hint = "") {
  return {"", 0, 0, field, message, hint.empty() ? concat("see ", full_name(app), " --help") : hint};
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& names) {
  const std::string nearest = nearest_name(word.substr(0, 64), names);
  return nearest.empty() ? "" : concat("did you mean \"", nearest, "\"?");
}

/// The innermost verb that the command line named.
const CLI::App& chosen_verb(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : chosen_verb(*chosen.back());
}

/// An argument that no option and no positional took.
Diagnostic extra_argument(const CLI::App& app, const std::string& argument) {
  if (argument.rfind('-', 0) != 0) return usage_fault(app, "", concat("unexpected argument \"", argument, "\""));
  const std::string name = argument.substr(0, argument.find('='));
  std::vector<std::string> options;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& long_name : option->get_lnames()) options.push_back("--" + long_name);
  }
  return usage_fault(app, "", concat("unknown option ", name), did_you_mean(name, options));
}

bool takes_arguments(const CLI::App& app) {
  const std::vector<const CLI::Option*> options = app.get_options();
  return std::any_of(options.begin(), options.end(),
                     [](const CLI::Option* option) { return option->get_positional(); });
}

bool asks_for_help(const std::string& argument) {
  return argument == "--help" || argument == "-h" || argument == "--version";
}

/// The verb that the words from `at` name. CLI11 would only say that a subcommand is missing.
const CLI::App& find_verb(const CLI::App& app, const std::vector<std::string>& arguments, std::size_t at) {
  const std::vector<std::string> names = verb_names(app);
  if (names.empty()) return app;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (at < arguments.size() && verb->get_name() == arguments[at]) return find_verb(*verb, arguments, at + 1);
  }
  // A verb that also takes an argument of its own, as in `sweep SPEC` beside `sweep summarize`.
  if (takes_arguments(app)) return app;
  if (at >= arguments.size()) {
    throw InputError(usage_fault(app, "", concat("a verb is missing: ", full_name(app), " VERB"),
                                 concat("verbs: ", join(names, ", "))));
  }
  if (arguments[at].size() > 1 && arguments[at].front() == '-') {
    if (asks_for_help(arguments[at])) return app;
    throw InputError(extra_argument(app, arguments[at]));
  }
  const std::string nearest = did_you_mean(arguments[at], names);
  throw InputError(usage_fault(app, "", concat("unknown verb \"", arguments[at], "\""),
                               nearest.empty() ? concat("verbs: ", join(names, ", ")) : nearest));
}

/// The option of `app` that is exactly called `name`, such as "--model", or null.
const CLI::Option* long_option(const CLI::App& app, const std::string& name) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& long_name : option->get_lnames()) {
      if (name == "--" + long_name) return option;
    }
  }
  return nullptr;
}

/// What is wrong with the number of values that the option named at the start of CLI11's message got.
Diagnostic value_count_fault(const CLI::App& app, const std::string& text) {
  const std::string name = text.substr(0, text.find_first_of(": "));
  const CLI::Option* const option = long_option(app, name);
  if (option == nullptr) return usage_fault(app, "", text);
  const std::size_t count = option->results().size();
  if (count > 1) return usage_fault(app, name, concat("given ", count, " times"), "give it once");
  return usage_fault(app, name, "a value is missing");
}

/// Every option and argument that is required and missing; the hint is its help.
std::vector<Diagnostic> missing_options(const CLI::App& app) {
  std::vector<Diagnostic> faults;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_required() && option->count() == 0) {
      faults.push_back({"", 0, 0, option->get_name(), "missing", option->get_description()});
    }
  }
  return faults;
}

/// A value that an option cannot convert: "Could not convert: --json = maybe".
Diagnostic conversion_fault(const CLI::App& app, const std::string& text) {
  const std::size_t equals = text.find(" = ");
  const std::size_t colon = text.rfind(": ", equals);
  if (equals == std::string::npos || colon == std::string::npos) return usage_fault(app, "", text);
  const std::string name = text.substr(colon + 2, equals - colon - 2);
  const CLI::Option* const option = long_option(app, name);
  const bool is_flag = option != nullptr && option->get_expected_max() == 0;
  return usage_fault(app, name, concat("found \"", text.substr(equals + 3), is_flag ? "\", but takes no value" : "\""));
}

/// CLI11 drops the empty items of a list: "1,,2" may be a value that a script failed to fill in.
void check_list(const CLI::App& verb, const CLI::Option& option, const std::string& name, const std::string& text) {
  const char comma = option.get_delimiter();
  if (comma == '\0' || text.empty()) return;
  if (text.front() != comma && text.back() != comma && text.find({comma, comma}) == std::string::npos) return;
  throw InputError(usage_fault(verb, name, concat("an item of the list \"", text, "\" is empty"),
                               "separate items by single commas"));
}

/// Standard input can be read once, and each file or stream hold one result.
void check_streams(const CLI::App& verb) {
  std::vector<std::string> inputs;
  std::map<std::filesystem::path, std::string> outputs;
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = option->get_name();
    const bool is_output = std::set<std::string>{"--out", "--report", "--trace", "--svg", "--csv"}.count(name) > 0;
    const bool is_path =
        std::set<std::string>{"MODEL", "CLUSTER", "PROFILE", "FILE", "PATH"}.count(option->get_type_name()) > 0;
    if (!is_path) continue;
    for (const std::string& value : option->results()) {
      if (!is_output) {
        if (value == "-") inputs.push_back(name);
        continue;
      }
      if (value != "-" && std::filesystem::is_character_file(value)) continue;  // /dev/null takes all
      const auto [known, is_new] = outputs.emplace(std::filesystem::path(value).lexically_normal(), name);
      if (is_new) continue;
      throw InputError(usage_fault(
          verb, name, concat(value == "-" ? "standard output" : value, " is written by ", known->second, " already"),
          value == "-" ? "give a file" : "give another file"));
    }
  }
  if (inputs.size() > 1) {
    throw InputError(
        usage_fault(verb, inputs[1], concat("standard input is read by ", inputs[0], " already"), "give a file"));
  }
}

}  // namespace

std::string full_name(const CLI::App& app) {
  const CLI::App* const parent = app.get_parent();
  return parent == nullptr ? app.get_name() : full_name(*parent) + " " + app.get_name();
}

std::vector<const CLI::Option*> arguments_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

void check_command_line(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App& verb = find_verb(app, arguments, 0);
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::size_t equals = arguments[i].find('=');
    const std::string name = arguments[i].substr(0, equals);
    const CLI::Option* const option = long_option(verb, name);
    if (option == nullptr || option->get_expected_max() == 0) continue;
    if (equals != std::string::npos) {
      check_list(verb, *option, name, arguments[i].substr(equals + 1));
      continue;
    }
    if (i + 1 == arguments.size()) break;
    for (std::size_t k = i + 1; k < arguments.size() && arguments[k].rfind("--", 0) != 0; ++k)
      check_list(verb, *option, name, arguments[k]);
    if (long_option(verb, arguments[i + 1]) != nullptr) {
      throw InputError(usage_fault(verb, arguments[i], concat("a value is missing: ", arguments[i + 1], " follows")));
    }
  }
}

void check_option_values(const CLI::App& app) {
  const CLI::App& verb = chosen_verb(app);
  check_streams(verb);
  for (const CLI::Option* option : verb.get_options()) {
    const std::vector<std::string>& values = option->results();
    if (option->get_type_name() == "WORD") continue;  // words of a command line to complete, which may be empty
    if (std::find(values.begin(), values.end(), "") != values.end()) {
      throw InputError(usage_fault(verb, option->get_name(), "the value is empty"));
    }
    const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
    const bool is_name = option->get_type_name() == "NAME";
    if (is_name && std::any_of(values.begin(), values.end(), [&](const std::string& value) {
          return std::any_of(value.begin(), value.end(), is_control);
        })) {
      throw InputError(usage_fault(verb, option->get_name(), "the name holds a control character"));
    }
  }
}

InputError usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& verb = chosen_verb(app);
  const std::vector<std::string> extra = app.remaining(true);
  // What is missing may stand there with a typing error: that is named first.
  const bool required = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if ((required || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) && !extra.empty()) {
    return InputError(extra_argument(verb, extra.front()));
  }
  if (required) {
    if (const std::vector<Diagnostic> missing = missing_options(verb); !missing.empty()) return InputError(missing);
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return InputError(value_count_fault(verb, error.what()));
  }
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    return InputError(conversion_fault(verb, error.what()));
  }
  return InputError(usage_fault(verb, "", error.what()));
}

}  // namespace hpplan
