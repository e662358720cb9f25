#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace hpplan {

struct AppContext;

// One file per verb, verb_<name>.cpp; main.cpp lists them in the order of the help.
void add_profile_verb(CLI::App& app, AppContext& context);
void add_schedule_verb(CLI::App& app, AppContext& context);
void add_plan_verb(CLI::App& app, AppContext& context);
void add_check_verb(CLI::App& app, AppContext& context);
void add_simulate_verb(CLI::App& app, AppContext& context);
void add_explain_verb(CLI::App& app, AppContext& context);
void add_show_verb(CLI::App& app, AppContext& context);
void add_model_verb(CLI::App& app, AppContext& context);
void add_cluster_verb(CLI::App& app, AppContext& context);
void add_export_verb(CLI::App& app, AppContext& context);
void add_sweep_verb(CLI::App& app, AppContext& context);
void add_completion_verb(CLI::App& app, AppContext& context);
void add_man_verb(CLI::App& app, AppContext& context);

}  // namespace hpplan
