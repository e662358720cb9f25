#include <CLI/CLI.hpp>

#include "app.hpp"
#include "verbs.hpp"

namespace hpplan {

void add_show_verb(CLI::App& app, AppContext& context) {
  add_verb(app, context, {"show", "Shows a model or a cluster as hpplan reads it.", "hpplan show --model gpt3-13b"},
           [] { return ExitCode::Done; });
}

}  // namespace hpplan
