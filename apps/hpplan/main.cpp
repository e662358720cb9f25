#include <CLI/CLI.hpp>

#include "app.hpp"
#include "memory_policy.hpp"
#include "verbs.hpp"

int main(int argc, char** argv) {
  hpplan::keep_freed_memory();
  CLI::App app{"hpplan: finds the fastest way to train a model on a mix of accelerators", "hpplan"};
  app.set_version_flag("--version", HPPLAN_VERSION);
  hpplan::AppContext context;
  context.arguments = argv;
  hpplan::add_plan_verb(app, context);
  hpplan::add_check_verb(app, context);
  hpplan::add_simulate_verb(app, context);
  hpplan::add_explain_verb(app, context);
  hpplan::add_schedule_verb(app, context);
  hpplan::add_profile_verb(app, context);
  hpplan::add_show_verb(app, context);
  hpplan::add_model_verb(app, context);
  hpplan::add_cluster_verb(app, context);
  hpplan::add_export_verb(app, context);
  hpplan::add_sweep_verb(app, context);
  hpplan::add_completion_verb(app, context);
  hpplan::add_man_verb(app, context);
  return hpplan::run_app(app, context, argc, argv);
}
