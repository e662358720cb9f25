#pragma once

#include <string>
#include <utility>
#include <vector>

#include "app.hpp"

namespace hpplan {

/// "hpplan-profile-import": the name of the page of a verb, and "hpplan" for the program.
[[nodiscard]] std::string man_page_name(const CLI::App& verb);

/// The manual page of the program or of one verb, for man(1): its options from the table that also parses and helps,
/// with the long text of `manual_text`. Holds no date but that of the release.
[[nodiscard]] std::string man_page(const CLI::App& verb, const AppContext& context);

/// `verb` and every verb below it, in the order of the help.
[[nodiscard]] std::vector<const CLI::App*> all_verbs(const CLI::App& verb);

/// Titles and paragraphs that the page of "hpplan", "hpplan plan", ... has beyond summary and options. A paragraph that
/// starts with a space is shown as it stands.
[[nodiscard]] std::vector<std::pair<std::string, std::vector<std::string>>> manual_text(const std::string& full_name);

}  // namespace hpplan
