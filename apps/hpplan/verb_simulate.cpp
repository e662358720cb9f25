#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "app.hpp"
#include "emit/plan_simulation.hpp"
#include "io/plan_reader.hpp"
#include "verbs.hpp"

namespace hpplan {

namespace {

struct SimulateOptions {
  std::string plan;
  bool json = false;
  std::string trace;
  std::string svg;
};

ExitCode run_simulate(const SimulateOptions& options) {
  for (const std::string& path : {options.trace, options.svg}) {
    if (!path.empty()) check_output(path);
  }
  const InputText input = read_input(options.plan);
  const PlanFile file = parse_plan(input.text, input.name);
  const PlanSimulation run = simulate_plan(file);
  if (!options.trace.empty()) write_output(options.trace, plan_trace_json(file, run));
  if (!options.svg.empty()) write_output(options.svg, plan_timeline_svg(file, run));
  if (options.trace == "-" || options.svg == "-") return ExitCode::Done;  // the picture is the result
  std::cout << (options.json ? plan_simulation_json(file, run) : plan_simulation_text(file, run));
  return ExitCode::Done;
}

}  // namespace

void add_simulate_verb(CLI::App& app, AppContext& context) {
  const auto options = std::make_shared<SimulateOptions>();
  CLI::App& verb = add_verb(app, context,
                            {"simulate", "Simulates a plan op by op from its stage and link times.",
                             "hpplan simulate plan.json --trace trace.json --svg timeline.svg"},
                            [options] { return run_simulate(*options); });
  verb.add_option("PLAN", options->plan, "plan file; - is standard input")->required()->type_name("FILE");
  verb.add_flag("--json", options->json, "the result as JSON")->group("Output");
  verb.add_option("--trace", options->trace, "write Chrome trace events (open in Perfetto)")
      ->type_name("FILE")
      ->group("Output");
  verb.add_option("--svg", options->svg, "write a picture of the timelines")->type_name("FILE")->group("Output");
}

}  // namespace hpplan
