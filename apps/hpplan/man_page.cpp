#include "man_page.hpp"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "base/text.hpp"
#include "usage.hpp"
#include "value_kinds.hpp"

namespace hpplan {

namespace {

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// Text as roff shows it: a backslash, a hyphen that people copy, and a dot or quote at the start of a line are
/// special.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool at_start = out.empty() || out.back() == '\n';
    if (at_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '`') {
      out += "\\(ga";
    } else if (c == '~') {
      out += "\\(ti";
    } else if (c == '^') {
      out += "\\(ha";
    } else {
      out += c;
    }
  }
  return out;
}

std::string section(const std::string& title) { return concat(".SH ", title, "\n"); }

std::string as_it_stands(const std::string& text) { return concat(".RS 4\n.nf\n", roff(text), "\n.fi\n.RE\n"); }

std::string option_entry(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("\\fB" + roff("-" + name) + "\\fR");
  for (const std::string& name : option.get_lnames()) names.push_back("\\fB" + roff("--" + name) + "\\fR");
  if (option.get_positional()) names = {"\\fI" + roff(option.get_name(true)) + "\\fR"};
  std::string head = join(names, ", ");
  const bool has_value = !option.get_positional() && option.get_items_expected_max() > 0;
  if (has_value) head += concat(" \\fI", roff(option.get_type_name()), "\\fR");
  std::string text = roff(option.get_description());
  std::vector<std::string> remarks;
  if (option.get_required()) remarks.emplace_back("required");
  const bool is_list =
      option.get_delimiter() != '\0' || option.get_description().find("repeatable") != std::string::npos;
  if (has_value && option.get_items_expected_max() > 1 && !is_list) remarks.emplace_back("repeatable");
  if (!remarks.empty()) text += concat(" (", join(remarks, ", "), ")");
  return concat(".TP\n", head, "\n", text, "\n");
}

std::string synopsis(const CLI::App& app) {
  std::string text = concat(section("SYNOPSIS"), "\\fB", roff(full_name(app)), "\\fR");
  const std::vector<const CLI::App*> verbs = app.get_subcommands([](const CLI::App*) { return true; });
  const std::vector<const CLI::Option*> arguments = arguments_of(app);
  if (!verbs.empty() && arguments.empty()) return text + " \\fIVERB\\fR [\\fIoptions\\fR]\n";
  text += " [\\fIoptions\\fR]";
  for (const CLI::Option* argument : arguments) {
    const std::string name = concat("\\fI", roff(argument->get_name(true)), "\\fR");
    const char* const more = argument->get_items_expected_max() > 1 ? "..." : "";
    text += argument->get_required() ? concat(" ", name, more) : concat(" [", name, more, "]");
  }
  return text + "\n";
}

/// Arguments first, then the options of each group as the help has them.
std::string options_text(const CLI::App& app) {
  std::string text;
  const std::vector<const CLI::Option*> arguments = arguments_of(app);
  if (!arguments.empty()) text += section("ARGUMENTS");
  for (const CLI::Option* argument : arguments) text += option_entry(*argument);
  text += section("OPTIONS");
  for (const std::string& group : app.get_groups()) {
    const auto options = app.get_options(
        [&](const CLI::Option* option) { return option->nonpositional() && option->get_group() == group; });
    if (group.empty() || options.empty()) continue;
    if (group != "Options") text += concat(".SS ", roff(group), "\n");
    for (const CLI::Option* option : options) text += option_entry(*option);
  }
  return text;
}

std::string verbs_text(const CLI::App& app) {
  const std::vector<const CLI::App*> verbs = app.get_subcommands([](const CLI::App*) { return true; });
  if (verbs.empty()) return "";
  std::string text = section("VERBS");
  for (const CLI::App* verb : verbs) {
    text += concat(".TP\n\\fB", roff(verb->get_name()), "\\fR\n", roff(verb->get_description()), " See \\fB",
                   roff(man_page_name(*verb)), "\\fR(1).\n");
  }
  return text;
}

/// The lists that the help shows below the options, such as the schedule families: "Title:", then indented lines.
std::string lists_text(const CLI::App& app) {
  std::string text;
  std::string footer = app.get_footer() + "\n\n";
  for (std::size_t end = footer.find("\n\n"); end != std::string::npos; end = footer.find("\n\n")) {
    const std::string block = footer.substr(0, end);
    footer.erase(0, end + 2);
    const std::size_t line = block.find('\n');
    if (line == std::string::npos || block.rfind("Example", 0) == 0) continue;
    text += section(upper(block.substr(0, block.find(':')))) + as_it_stands(block.substr(line + 1));
  }
  return text;
}

std::string long_text(const std::string& name) {
  std::string text;
  for (const auto& [title, paragraphs] : manual_text(name)) {
    if (title != "DESCRIPTION") text += section(title);
    bool first = true;
    for (const std::string& paragraph : paragraphs) {
      const bool is_listing = paragraph.front() == ' ';
      if (!is_listing && (!first || title == "DESCRIPTION")) text += ".PP\n";
      text += is_listing ? as_it_stands(paragraph.substr(1)) : roff(paragraph) + "\n";
      first = false;
    }
  }
  return text;
}

std::string see_also(const CLI::App& app) {
  std::vector<std::string> pages;
  if (const CLI::App* parent = app.get_parent()) {
    pages.push_back(man_page_name(*parent));
    for (const CLI::App* verb : parent->get_subcommands([](const CLI::App*) { return true; })) {
      if (verb != &app) pages.push_back(man_page_name(*verb));
    }
  }
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    pages.push_back(man_page_name(*verb));
  }
  std::string text = section("SEE ALSO");
  for (std::size_t i = 0; i < pages.size(); ++i) {
    text += concat(".BR ", roff(pages[i]), " (1)", i + 1 < pages.size() ? "," : "", "\n");
  }
  return text;
}

std::string first_lower(std::string text) {
  text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  if (!text.empty() && text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

std::string man_page_name(const CLI::App& verb) {
  std::string name = full_name(verb);
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::vector<const CLI::App*> all_verbs(const CLI::App& verb) {
  std::vector<const CLI::App*> verbs{&verb};
  for (const CLI::App* below : verb.get_subcommands([](const CLI::App*) { return true; })) {
    const std::vector<const CLI::App*> more = all_verbs(*below);
    verbs.insert(verbs.end(), more.begin(), more.end());
  }
  return verbs;
}

std::string man_page(const CLI::App& verb, const AppContext& context) {
  const std::string name = full_name(verb);
  std::string summary = verb.get_description();
  // The program's own sentence starts with its name.
  if (const std::string own = name + ": "; summary.rfind(own, 0) == 0) summary.erase(0, own.size());
  std::string text = concat(".TH ", roff(upper(man_page_name(verb))), " 1 ", HPPLAN_RELEASE_DATE, " \"hpplan ",
                            HPPLAN_VERSION, "\" \"hpplan manual\"\n");
  text += concat(section("NAME"), roff(man_page_name(verb)), " \\- ", roff(first_lower(summary)), "\n");
  text += synopsis(verb);
  text += section("DESCRIPTION");
  // The program's own text says what its summary does.
  if (verb.get_parent() != nullptr) text += roff(summary) + "\n";
  std::string details = long_text(name);
  if (verb.get_parent() == nullptr && details.rfind(".PP\n", 0) == 0) details.erase(0, 4);
  const std::size_t titles = details.find(".SH ");
  text += details.substr(0, titles);
  text += verbs_text(verb) + options_text(verb) + lists_text(verb);
  if (titles != std::string::npos) text += details.substr(titles);
  if (const auto example = context.examples.find(&verb); example != context.examples.end()) {
    text += section("EXAMPLE") + as_it_stands(example->second);
  }
  return text + see_also(verb);
}

}  // namespace hpplan
