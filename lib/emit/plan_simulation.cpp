#include "emit/plan_simulation.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "emit/json_text.hpp"
#include "emit/timeline_svg.hpp"
#include "emit/trace.hpp"
#include "schedule/table.hpp"

namespace hpplan {

namespace {

using Json = nlohmann::ordered_json;

SimulatedPipeline simulate_one(const PipelinePlan& pipeline, const std::vector<StagePlacement>& placements) {
  SimulatedPipeline run;
  run.schedule = make_schedule_of(pipeline.schedule, schedule_request_of(pipeline));
  run.simulation = simulate(run.schedule);
  run.planned = run_planned(pipeline);
  const PipelineSimulation& step = run.planned.simulation;
  double busy = 0.0;
  double devices = 0.0;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const auto width = static_cast<double>(placements[s].devices.size());
    busy += width * step.busy[s].value();
    devices += width;
  }
  const double total = devices * step.makespan.value();
  run.bubble = total > 0.0 ? 1.0 - busy / total : 0.0;
  return run;
}

/// Memory at the simulated peak: activations by the micro-batches that the run really held.
Bytes peak_memory(const StagePlan& stage, int peak_in_flight) {
  if (peak_in_flight == stage.in_flight) return stage.memory.total();
  return stage.memory.total() - stage.memory.activations +
         Bytes{stage.memory.activations.count() / stage.in_flight * peak_in_flight};
}

std::string right_aligned(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

Json stage_json(const PipelinePlan& pipeline, const SimulatedPipeline& run, std::size_t s) {
  const StagePlan& stage = pipeline.stages[s];
  const PipelineSimulation& step = run.planned.simulation;
  Json json{{"busy_s", step.busy[s].value()},
            {"idle_s", (step.makespan - step.busy[s]).value()},
            {"first_start_s", run.simulation.first_start[s].value()},
            {"last_end_s", run.simulation.last_end[s].value()},
            {"peak_in_flight", step.peak_in_flight[s]},
            {"peak_memory_bytes", peak_memory(stage, step.peak_in_flight[s]).count()},
            {"capacity_bytes", stage.capacity.count()}};
  if (pipeline.accumulation > 0) {
    json["drift"] = run.planned.drift[s];
    json["weight_copies"] = run.planned.weight_copies[s];
  }
  return json;
}

/// What an asynchronous pipeline's time stands for.
std::string asynchronous_text(const PipelinePlan& pipeline) {
  if (pipeline.accumulation == 0) return "";
  int drift = 0;
  for (const StagePlan& stage : pipeline.stages) drift = std::max(drift, stage.drift);
  return concat(", steady state: an update every ", pipeline.accumulation, " micro-batches, drift at most ", drift,
                ", ", significant(steady_samples_per_second(pipeline), 4), " samples/s");
}

/// Width or height of a picture, from its first tag.
double attribute(const std::string& svg, const std::string& name) {
  const std::size_t at = svg.find(name + "=\"");
  return at == std::string::npos ? 0.0 : std::stod(svg.substr(at + name.size() + 2));
}

}  // namespace

PlanSimulation simulate_plan(const PlanFile& file) {
  PlanSimulation run;
  for (std::size_t p = 0; p < file.plan.pipelines.size(); ++p) {
    run.pipelines.push_back(simulate_one(file.plan.pipelines[p], file.placements[p]));
    run.pipeline_time = std::max(run.pipeline_time, run.pipelines.back().planned.simulation.makespan);
  }
  run.iteration_time = run.pipeline_time + file.plan.gradient_sync_time + file.plan.optimizer_time;
  return run;
}

std::string plan_simulation_text(const PlanFile& file, const PlanSimulation& run) {
  std::string out =
      concat("iteration ", pretty(run.iteration_time), ": pipelines ", pretty(run.pipeline_time), ", gradient sync ",
             pretty(file.plan.gradient_sync_time), ", optimizer ", pretty(file.plan.optimizer_time), "\n");
  for (std::size_t p = 0; p < run.pipelines.size(); ++p) {
    const PipelinePlan& pipeline = file.plan.pipelines[p];
    const PipelineSimulation& simulation = run.pipelines[p].planned.simulation;
    out +=
        concat("\npipeline ", p, ": ", pipeline.schedule, ", ", pipeline.micro_batches, " micro-batches of ",
               pipeline.micro_batch, ", ", pretty(simulation.makespan), ", bubble ", percent(run.pipelines[p].bubble),
               asynchronous_text(pipeline), "\n  stage        busy        idle  in flight  memory GiB\n");
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
      const StagePlan& stage = pipeline.stages[s];
      const int peak = simulation.peak_in_flight[s];
      out += concat("  ", right_aligned(concat(p, ".", s), 5), right_aligned(pretty(simulation.busy[s]), 12),
                    right_aligned(percent(1.0 - simulation.busy[s] / simulation.makespan), 12),
                    right_aligned(concat(peak), 11), "  ", fixed(peak_memory(stage, peak).value() / (1LL << 30), 1),
                    " / ", fixed(stage.capacity.value() / (1LL << 30), 1), "\n");
    }
  }
  return out;
}

std::string plan_simulation_json(const PlanFile& file, const PlanSimulation& run) {
  Json pipelines = Json::array();
  for (std::size_t p = 0; p < run.pipelines.size(); ++p) {
    const PipelinePlan& pipeline = file.plan.pipelines[p];
    Json stages = Json::array();
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
      stages.push_back(stage_json(pipeline, run.pipelines[p], s));
    }
    pipelines.push_back({{"schedule", pipeline.schedule},
                         {"time_s", run.pipelines[p].planned.simulation.makespan.value()},
                         {"bubble", run.pipelines[p].bubble},
                         {"stages", std::move(stages)}});
  }
  return json_text({{"iteration_time_s", run.iteration_time.value()},
                    {"pipeline_time_s", run.pipeline_time.value()},
                    {"gradient_sync_time_s", file.plan.gradient_sync_time.value()},
                    {"optimizer_time_s", file.plan.optimizer_time.value()},
                    {"pipelines", std::move(pipelines)}});
}

std::string plan_trace_json(const PlanFile& file, const PlanSimulation& run) {
  std::vector<TracedPipeline> traced;
  for (std::size_t p = 0; p < run.pipelines.size(); ++p) {
    traced.push_back({concat("pipeline ", p), &run.pipelines[p].schedule, &run.pipelines[p].simulation});
  }
  constexpr double kMicroseconds = 1e6;
  Json trace = Json::parse(trace_json(traced, kMicroseconds));
  const int process = static_cast<int>(traced.size());
  Json& events = trace["traceEvents"];
  events.push_back(
      {{"ph", "M"}, {"name", "process_name"}, {"pid", process}, {"tid", 0}, {"args", {{"name", "all devices"}}}});
  Seconds start = run.pipeline_time;
  const auto add = [&](const char* name, Seconds time) {
    if (time > Seconds{0.0}) {
      events.push_back({{"ph", "X"},
                        {"name", name},
                        {"cat", "iteration"},
                        {"pid", process},
                        {"tid", 0},
                        {"ts", start.value() * kMicroseconds},
                        {"dur", time.value() * kMicroseconds}});
    }
    start += time;
  };
  add("gradient All-Reduce", file.plan.gradient_sync_time);
  add("optimizer", file.plan.optimizer_time);
  return trace.dump() + "\n";
}

std::string plan_timeline_svg(const PlanFile& file, const PlanSimulation& run) {
  // Pictures show one step from empty to empty, which an asynchronous pipeline's time leaves out.
  Seconds drained;
  for (const SimulatedPipeline& pipeline : run.pipelines) drained = std::max(drained, pipeline.simulation.makespan);
  const Seconds synced = drained + file.plan.gradient_sync_time;
  TimelineFrame frame;
  frame.end = synced + file.plan.optimizer_time;
  if (file.plan.gradient_sync_time > Seconds{})
    frame.tails.push_back({drained, synced, "gradient All-Reduce", "#b03a6f"});
  if (file.plan.optimizer_time > Seconds{}) frame.tails.push_back({synced, frame.end, "optimizer", "#6d5a3f"});
  for (const SimulatedPipeline& pipeline : run.pipelines) {
    frame.chart_width = std::max(frame.chart_width, timeline_width(pipeline.schedule, pipeline.simulation, frame.end));
  }
  // A screen or two: numbers of short ops are left out rather than the picture made too wide to be seen as one.
  constexpr double kMostPixels = 3600.0;
  frame.chart_width = std::min(frame.chart_width, kMostPixels);
  std::string body;
  double top = 0.0;
  double width = 600.0;
  for (std::size_t p = 0; p < run.pipelines.size(); ++p) {
    const PipelinePlan& pipeline = file.plan.pipelines[p];
    const std::string title = concat("pipeline ", p, ": ", pipeline.schedule, ", ", pipeline.stages.size(), " stages, ",
                                     pipeline.micro_batches, " micro-batches of ", pipeline.micro_batch);
    frame.names.clear();
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) frame.names.push_back(concat("stage ", p, ".", s));
    const std::string svg =
        timeline_svg(run.pipelines[p].schedule, run.pipelines[p].simulation, title, "ms", 1000.0, frame);
    width = std::max(width, attribute(svg, "width"));
    body += concat("<g transform=\"translate(0 ", fixed(top, 0), ")\">\n", svg.substr(svg.find("<svg")), "</g>\n");
    top += attribute(svg, "height");
  }
  body += concat("<text x=\"78\" y=\"", fixed(top + 16, 0), "\">iteration ", pretty(run.iteration_time),
                 ": slowest pipeline ", pretty(run.pipeline_time), ", gradient All-Reduce ",
                 pretty(file.plan.gradient_sync_time), ", optimizer ", pretty(file.plan.optimizer_time), "</text>\n");
  return concat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", fixed(width, 0), "\" height=\"",
                fixed(top + 32, 0), "\" font-family=\"sans-serif\" font-size=\"12\">\n",
                "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n", body, "</svg>\n");
}

}  // namespace hpplan
