#include "simulate/plan_schedule.hpp"

#include <algorithm>
#include <cstddef>

#include "base/text.hpp"
#include "simulate/simulate.hpp"

namespace hpplan {

namespace {

/// A long run is this many times as long as the pipeline is deep: what happens at its start has faded then.
constexpr int kSettledDepths = 16;

int stage_count_of(const PipelinePlan& pipeline) { return static_cast<int>(pipeline.stages.size()); }

/// All parts of an octopipe pipeline in model order.
std::vector<PartPlace> parts_by_layer(const PipelinePlan& pipeline) {
  std::vector<PartPlace> parts;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    for (std::size_t c = 0; c < pipeline.stages[s].chunks.size(); ++c) {
      parts.push_back({static_cast<int>(s), static_cast<int>(c)});
    }
  }
  const auto first = [&](const PartPlace& part) {
    return pipeline.stages[static_cast<std::size_t>(part.device)]
        .chunks[static_cast<std::size_t>(part.chunk)]
        .layers.first;
  };
  std::sort(parts.begin(), parts.end(), [&](const PartPlace& a, const PartPlace& b) { return first(a) < first(b); });
  return parts;
}

StageTime split_time(Seconds forward, Seconds backward, Seconds weight_gradient, Seconds link) {
  return {forward, backward - weight_gradient, weight_gradient, link};
}

StageTime time_of(const StagePlan& stage, int chunk) {
  if (stage.chunks.empty()) return split_time(stage.forward, stage.backward, stage.weight_gradient, stage.link);
  const ChunkPlan& part = stage.chunks[static_cast<std::size_t>(chunk)];
  return split_time(part.forward, part.backward, part.weight_gradient, part.link);
}

bool exceeds(const std::vector<int>& a, const std::vector<int>& b) {
  for (std::size_t c = 0; c < a.size(); ++c) {
    if (a[c] < b[c]) return false;
  }
  return true;
}

/// Throws InputError unless every stage has as many chunks as the schedule runs on it.
void check_chunk_counts(const PipelinePlan& pipeline) {
  const Arrangement arrangement = schedule_family(pipeline.schedule).arrangement;
  int count = arrangement == Arrangement::OnePerDevice ? 0 : chunks_of(arrangement, stage_count_of(pipeline));
  if (arrangement == Arrangement::Loop) count = std::max(1, static_cast<int>(pipeline.stages.front().chunks.size()));
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const int found = static_cast<int>(pipeline.stages[s].chunks.size());
    if (found == count || (arrangement == Arrangement::Free && found > 0)) continue;
    refuse_schedule(
        concat("stages[", s, "].chunks"), concat(found, " chunks"),
        concat(pipeline.schedule, arrangement == Arrangement::Free ? " needs at least 1 on every stage"
                                                                   : concat(" runs ", count, " per stage here")));
  }
}

/// The chunk that each of Schedule::stages is on its device.
std::vector<int> chunks_by_stage(const std::vector<std::vector<PartPlace>>& paths) {
  std::vector<int> chunks;
  for (const std::vector<PartPlace>& path : paths) {
    for (const PartPlace& part : path) chunks.push_back(part.chunk);
  }
  return chunks;
}

void add_holdings(const Schedule& schedule, const PipelinePlan& pipeline, PlannedRun& run) {
  const std::vector<int> chunks = chunks_by_stage(part_paths(pipeline));
  for (const std::vector<Op>& program : schedule.programs) run.holdings.push_back(peak_holdings(program, chunks));
}

PipelineSimulation facts_of(const Simulation& simulation) {
  PipelineSimulation facts;
  facts.makespan = simulation.makespan;
  facts.span = simulation.span;
  facts.bubble = simulation.idle_share;
  facts.span_bubble = simulation.bubble_rate;
  facts.busy = simulation.busy;
  facts.last_end = simulation.last_end;
  facts.peak_in_flight = simulation.peak_in_flight;
  return facts;
}

PlannedRun run_step(const PipelinePlan& pipeline, ScheduleRequest request) {
  PlannedRun run;
  const std::size_t stages = pipeline.stages.size();
  if (request.micro_batches < kExtrapolateFrom) {
    const Schedule schedule = make_schedule_of(pipeline.schedule, request);
    run.simulation = facts_of(simulate(schedule));
    add_holdings(schedule, pipeline, run);
  } else {
    run.simulation = simulate_pipeline(pipeline.schedule, request);
    // What is held repeats with the groups of every family (see simulate_pipeline): a short step shows all of it.
    const int period = 4 * request.stage_count;
    request.micro_batches -= (request.micro_batches - kSettledDepths * request.stage_count) / period * period;
    add_holdings(make_schedule_of(pipeline.schedule, request), pipeline, run);
  }
  run.drift.assign(stages, 0);
  run.weight_copies.assign(stages, 1);
  return run;
}

/// From two runs, one twice as long as the other, whose difference is `steps` steps.
PlannedRun run_steady(const PipelinePlan& pipeline, ScheduleRequest request) {
  const int m = pipeline.micro_batches;
  const int steps = std::max(1, (kSettledDepths * request.stage_count + m - 1) / m);
  request.micro_batches = steps * m;
  const Simulation head = simulate(make_schedule_of(pipeline.schedule, request));
  request.micro_batches = 2 * steps * m;
  const Schedule schedule = make_schedule_of(pipeline.schedule, request);
  const Simulation whole = simulate(schedule);

  PlannedRun run;
  run.simulation = facts_of(whole);
  run.simulation.makespan = (whole.makespan - head.makespan) / static_cast<double>(steps);
  run.simulation.span = run.simulation.makespan;
  Seconds total;
  for (std::size_t s = 0; s < run.simulation.busy.size(); ++s) {
    run.simulation.busy[s] = (whole.busy[s] - head.busy[s]) / static_cast<double>(steps);
    run.simulation.last_end[s] = run.simulation.makespan;
    total += run.simulation.busy[s];
  }
  const double devices = static_cast<double>(run.simulation.busy.size());
  run.simulation.bubble = 1.0 - total / (run.simulation.makespan * devices);
  run.simulation.span_bubble = run.simulation.bubble;
  add_holdings(schedule, pipeline, run);
  const std::vector<VersionReport> reports = version_reports(schedule);
  for (const VersionReport& report : reports) {
    run.drift.push_back(report.drift);
    run.weight_copies.push_back(report.versions);
  }
  return run;
}

}  // namespace

std::vector<std::vector<PartPlace>> part_paths(const PipelinePlan& pipeline) {
  const Arrangement arrangement = schedule_family(pipeline.schedule).arrangement;
  if (arrangement == Arrangement::Free) return {parts_by_layer(pipeline)};
  const int chunks = std::max(1, static_cast<int>(pipeline.stages.front().chunks.size()));
  return paths_of(arrangement, stage_count_of(pipeline), chunks);
}

ScheduleRequest schedule_request_of(const PipelinePlan& pipeline) {
  const ScheduleFamily& family = schedule_family(pipeline.schedule);
  check_chunk_counts(pipeline);
  ScheduleRequest request;
  request.stage_count = stage_count_of(pipeline);
  request.micro_batches = pipeline.micro_batches;
  for (const std::vector<PartPlace>& path : part_paths(pipeline)) {
    for (const PartPlace& part : path) {
      const StagePlan& stage = pipeline.stages[static_cast<std::size_t>(part.device)];
      request.times.push_back(time_of(stage, part.chunk));
      if (family.arrangement == Arrangement::Free) {
        request.placement.push_back({stage.chunks[static_cast<std::size_t>(part.chunk)].layers, part.device});
      }
    }
  }
  const std::string name = pipeline.schedule;
  if (family.arrangement == Arrangement::Loop) request.chunks = static_cast<int>(pipeline.stages.front().chunks.size());
  if (name == "dualpipe-v") request.stage_count *= 2;  // it counts parts, two on each device
  if (name == "zb-auto") {
    request.weight_gradient_memory = 1.0;
    if (pipeline.memory_limit > 0.0) request.memory_limit = pipeline.memory_limit;
  }
  for (const StagePlan& stage : pipeline.stages) {
    if (name == "1f1b-adaptive") request.in_flight.push_back(stage.in_flight);
    if (stage.activation_cap > 0.0) request.activation_caps.push_back(stage.activation_cap);
  }
  if (family.stepping == Stepping::Asynchronous) request.accumulation = pipeline.accumulation;
  return request;
}

Holdings peak_holdings(const std::vector<Op>& program, const std::vector<int>& chunk_of) {
  const std::size_t chunks = static_cast<std::size_t>(*std::max_element(chunk_of.begin(), chunk_of.end())) + 1;
  std::vector<int> held(chunks, 0);
  Holdings peaks;
  for (const Op& op : program) {
    int& count = held[static_cast<std::size_t>(chunk_of[static_cast<std::size_t>(op.stage)])];
    if (op.kind == OpKind::Backward || op.kind == OpKind::WeightGradient) --count;
    if (op.kind != OpKind::Forward) continue;
    ++count;
    const auto covers = [&](const std::vector<int>& peak) { return exceeds(peak, held); };
    if (std::any_of(peaks.begin(), peaks.end(), covers)) continue;
    std::erase_if(peaks, [&](const std::vector<int>& peak) { return exceeds(held, peak); });
    peaks.push_back(held);
  }
  return peaks;
}

PlannedRun run_planned(const PipelinePlan& pipeline) {
  const ScheduleRequest request = schedule_request_of(pipeline);
  const bool steady = schedule_family(pipeline.schedule).stepping == Stepping::Asynchronous;
  return steady ? run_steady(pipeline, request) : run_step(pipeline, request);
}

}  // namespace hpplan
