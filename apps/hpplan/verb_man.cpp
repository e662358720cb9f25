#include <algorithm>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "app.hpp"
#include "base/text.hpp"
#include "emit/report_json.hpp"
#include "folder.hpp"
#include "man_page.hpp"
#include "value_kinds.hpp"
#include "verbs.hpp"

namespace hpplan {

namespace {

struct ManOptions {
  std::vector<std::string> verb;
  std::string out;
  bool json = false;
};

const CLI::App& find_page(const CLI::App& program, const std::vector<std::string>& words) {
  const CLI::App* at = &program;
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> verbs = at->get_subcommands([](const CLI::App*) { return true; });
    const auto found =
        std::find_if(verbs.begin(), verbs.end(), [&](const CLI::App* verb) { return verb->get_name() == word; });
    if (found == verbs.end()) {
      std::vector<std::string> names;
      for (const CLI::App* verb : verbs) names.push_back(verb->get_name());
      const std::string nearest = nearest_name(word, names);
      throw InputError(Diagnostic{
          "", 0, 0, "", concat("unknown verb \"", word, "\""),
          nearest.empty() ? concat("verbs: ", join(names, ", ")) : concat("did you mean \"", nearest, "\"?")});
    }
    at = *found;
  }
  return *at;
}

Report option_report(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  if (option.get_positional()) names = {option.get_name(true)};
  Report report;
  report.add("names", names).add("help", option.get_description()).add("required", option.get_required());
  if (option.get_items_expected_max() == 0) return report;
  report.add("value", option.get_type_name()).add("repeatable", option.get_items_expected_max() > 1);
  return report.add("choices", choices_in(option.get_type_name()));
}

/// The command line as the parser has it, for other programs that build on it.
Report verb_report(const CLI::App& verb, const AppContext& context) {
  Report report;
  report.add("name", verb.get_name()).add("summary", verb.get_description());
  const auto example = context.examples.find(&verb);
  if (example != context.examples.end()) report.add("example", example->second);
  std::vector<Report> arguments;
  std::vector<Report> options;
  for (const CLI::Option* option : verb.get_options()) {
    (option->get_positional() ? arguments : options).push_back(option_report(*option));
  }
  std::vector<Report> verbs;
  for (const CLI::App* below : verb.get_subcommands([](const CLI::App*) { return true; })) {
    verbs.push_back(verb_report(*below, context));
  }
  return report.add("arguments", arguments).add("options", options).add("verbs", verbs);
}

ExitCode run_man(const CLI::App& program, const AppContext& context, const ManOptions& options) {
  const CLI::App& verb = find_page(program, options.verb);
  if (!options.out.empty()) {
    std::vector<std::pair<std::string, std::string>> pages;
    for (const CLI::App* each : all_verbs(verb))
      pages.emplace_back(man_page_name(*each) + ".1", man_page(*each, context));
    write_folder(options.out, pages);
    return ExitCode::Done;
  }
  std::cout << (options.json ? report_json(verb_report(verb, context)) : man_page(verb, context));
  return ExitCode::Done;
}

}  // namespace

void add_man_verb(CLI::App& app, AppContext& context) {
  const auto options = std::make_shared<ManOptions>();
  CLI::App& verb = add_verb(
      app, context, {"man", "Writes the manual page of hpplan or of one verb.", "hpplan man profile import | man -l -"},
      [&app, &context, options] { return run_man(app, context, *options); });
  verb.add_option("VERB", options->verb, "the verb, such as plan or profile import; default: hpplan itself")
      ->type_name("VERB");
  verb.add_option("--out", options->out,
                  "folder for the pages of the verb and of all below it; it appears whole or not at all")
      ->type_name("FOLDER")
      ->group("Output");
  verb.add_flag("--json", options->json, "verbs, options and choices as JSON instead")->group("Output");
}

}  // namespace hpplan
