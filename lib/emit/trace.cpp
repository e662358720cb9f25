#include "emit/trace.hpp"

#include <cstddef>

#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace hpplan {

namespace {

using Json = nlohmann::ordered_json;

const char* category(OpKind kind) {
  switch (kind) {
    case OpKind::Forward: return "forward";
    case OpKind::Backward: return "backward";
    case OpKind::BackwardInput: return "input_gradient";
    case OpKind::WeightGradient: return "weight_gradient";
    case OpKind::Update: return "update";
  }
  return "";
}

Json name_event(const char* what, int process, int thread, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

Json op_event(const Schedule& schedule, const Op& op, const OpTime& time, int process, int device, double scale) {
  Json args = {{"stage", schedule.stage(op.stage).model_stage}, {"part", op.stage}};
  if (op.kind != OpKind::Update) args["micro_batch"] = op.micro_batch;
  const std::string text = to_text(op);
  return {{"ph", "X"},
          {"name", text.substr(0, text.find('@'))},
          {"cat", category(op.kind)},
          {"pid", process},
          {"tid", device},
          {"ts", time.start.value() * scale},
          {"dur", (time.end - time.start).value() * scale},
          {"args", args}};
}

void add_pipeline(Json& events, const TracedPipeline& pipeline, int process, double scale) {
  const Schedule& schedule = *pipeline.schedule;
  events.push_back(name_event("process_name", process, 0, pipeline.name));
  for (int device = 0; device < schedule.device_count; ++device) {
    events.push_back(name_event("thread_name", process, device, concat("device ", device)));
    const std::vector<OpTime>& times = pipeline.simulation->times[static_cast<std::size_t>(device)];
    for (std::size_t k = 0; k < times.size(); ++k) {
      events.push_back(op_event(schedule, schedule.program(device)[k], times[k], process, device, scale));
    }
    for (const MemoryPoint& point : memory_curve(schedule, *pipeline.simulation, device)) {
      events.push_back({{"ph", "C"},
                        {"name", concat("activations of device ", device)},
                        {"pid", process},
                        {"ts", point.time.value() * scale},
                        {"args", {{"stages", point.activations}}}});
    }
  }
}

}  // namespace

std::string trace_json(std::span<const TracedPipeline> pipelines, double microseconds) {
  Json events = Json::array();
  for (std::size_t k = 0; k < pipelines.size(); ++k) {
    add_pipeline(events, pipelines[k], static_cast<int>(k), microseconds);
  }
  const Json trace = {{"traceEvents", events}, {"displayTimeUnit", "ms"}};
  return trace.dump() + "\n";
}

}  // namespace hpplan
