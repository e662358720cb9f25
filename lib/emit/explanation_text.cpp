#include "emit/explanation_text.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "emit/json_text.hpp"

namespace hpplan {

namespace {

std::string left_aligned(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

/// "3.1 % slower", "0.4 % faster", "no difference".
std::string difference(double change) {
  if (change > -5e-5 && change < 5e-5) return "no difference";
  return concat(percent(std::abs(change), 2), change > 0.0 ? " slower" : " faster");
}

double change_of(const PlanFile& file, const Alternative& alternative) {
  return *alternative.time / file.plan.iteration_time - 1.0;
}

std::string certainty(const Alternative& alternative) {
  const double gap = *alternative.time / alternative.lower_bound - 1.0;
  if (gap < 5e-5) return "proved optimal";
  return concat("at most ", percent(gap), " above its optimum", alternative.ended_early ? ", ended early" : "");
}

std::string stage_name(int pipeline, int stage) { return concat(pipeline, ".", stage); }

std::string parts_text(const PlanFile& file, const TimeParts& parts) {
  const Seconds whole = file.plan.pipelines[static_cast<std::size_t>(parts.pipeline)].time;
  std::string text = concat("\nwhere the ", pretty(whole), " of pipeline ", parts.pipeline, " go\n");
  const auto line = [&](const std::string& name, Seconds part, const std::string& meaning) {
    if (part < whole * 1e-9) part = Seconds{};  // the rest of a subtraction
    text += concat("  ", left_aligned(name, 15), left_aligned(pretty(part), 10), left_aligned(percent(part / whole), 8),
                   meaning, "\n");
  };
  line("work", parts.work, "micro-batches times the mean stage");
  line("recomputation", parts.recompute, "of operators that memory does not hold");
  line("imbalance", parts.imbalance, "between the stages");
  line("links", parts.links, "transfers that are not hidden");
  line("fill and drain", parts.fill, "idle at both ends of the step");
  return text;
}

std::string alternatives_text(const PlanFile& file, const Explanation& explanation) {
  std::string text = "\nwhat would change, each a search of its own\n";
  std::size_t width = 0;
  for (const Alternative& alternative : explanation.alternatives) width = std::max(width, alternative.change.size());
  for (const Alternative& alternative : explanation.alternatives) {
    text += concat("  ", left_aligned(alternative.change, width + 2));
    if (alternative.time) {
      text += concat(left_aligned(pretty(*alternative.time), 10),
                     left_aligned(difference(change_of(file, alternative)), 16), certainty(alternative), "\n");
    } else {
      text += alternative.ended_early ? "none found in time\n" : "no plan is feasible\n";
    }
  }
  return text;
}

nlohmann::ordered_json alternative_json(const PlanFile& file, const Alternative& alternative) {
  nlohmann::ordered_json json;
  json["change"] = alternative.change;
  json["feasible"] = alternative.time.has_value();
  if (alternative.time) {
    json["iteration_time_s"] = alternative.time->value();
    json["lower_bound_s"] = alternative.lower_bound.value();
    json["relative"] = change_of(file, alternative);
  }
  json["complete"] = !alternative.ended_early;
  return json;
}

}  // namespace

std::string explanation_text(const PlanFile& file, const Explanation& explanation) {
  const Plan& plan = file.plan;
  std::string text = concat(file.problem.model.name, " on ", file.problem.cluster.name, ", global batch ",
                            file.problem.job.global_batch, ": ", pretty(plan.iteration_time), "\n");
  const double change = explanation.again.time ? change_of(file, explanation.again) : 0.0;
  text += concat("searched again: ",
                 explanation.again.time ? concat(difference(change), ", ", certainty(explanation.again))
                                        : std::string("no plan in time"),
                 "\n");
  text += "\nwhat binds\n";
  text += concat("  time    stage ", stage_name(explanation.slowest_pipeline, explanation.slowest_stage), ": ",
                 pretty(explanation.slowest_stage_time), " per micro-batch, ",
                 percent(explanation.slowest_stage_time / explanation.mean_stage_time - 1.0),
                 " above the mean; one layer is ", pretty(explanation.layer_time), ", ",
                 percent(explanation.layer_time / explanation.slowest_stage_time), " of it\n");
  text += concat("  memory  stage ", stage_name(explanation.tight_pipeline, explanation.tight_stage), ": ",
                 pretty(explanation.free_memory), " free\n");
  text += concat("  batch   one micro-batch more on pipeline ", explanation.slowest_pipeline, " is ",
                 pretty(explanation.slowest_stage_time), ", ",
                 percent(explanation.slowest_stage_time / plan.iteration_time), " of the iteration\n");
  text += concat("  after   gradient sync ", percent(plan.gradient_sync_time / plan.iteration_time), ", optimizer ",
                 percent(plan.optimizer_time / plan.iteration_time), "\n");
  if (explanation.parts) text += parts_text(file, *explanation.parts);
  text += "\nwhat was rejected\n";
  for (const OptionCensus& census : explanation.census) {
    text += concat("  ", census.device_type, ": of ", census.options, " stage options ", census.memory,
                   " do not fit in memory, ", census.recompute, " only with recomputation\n");
  }
  text += concat("  ", explanation.branches, " parts of the search space, ", explanation.skipped,
                 " dropped by a bound; ", explanation.candidates, " sets of pipelines scored\n");
  if (!explanation.alternatives.empty()) text += alternatives_text(file, explanation);
  return text;
}

std::string explanation_json(const PlanFile& file, const Explanation& explanation) {
  nlohmann::ordered_json json;
  json["iteration_time_s"] = file.plan.iteration_time.value();
  json["searched_again"] = alternative_json(file, explanation.again);
  json["slowest_stage"] = {{"pipeline", explanation.slowest_pipeline},
                           {"stage", explanation.slowest_stage},
                           {"time_s", explanation.slowest_stage_time.value()},
                           {"mean_s", explanation.mean_stage_time.value()},
                           {"layer_s", explanation.layer_time.value()}};
  json["tightest_memory"] = {{"pipeline", explanation.tight_pipeline},
                             {"stage", explanation.tight_stage},
                             {"free_bytes", explanation.free_memory.count()}};
  if (explanation.parts) {
    const TimeParts& parts = *explanation.parts;
    json["pipeline_time"] = {{"pipeline", parts.pipeline},
                             {"work_s", parts.work.value()},
                             {"recompute_s", parts.recompute.value()},
                             {"imbalance_s", parts.imbalance.value()},
                             {"links_s", parts.links.value()},
                             {"fill_s", parts.fill.value()}};
  }
  json["rejected"] = nlohmann::ordered_json::array();
  for (const OptionCensus& census : explanation.census) {
    json["rejected"].push_back({{"device_type", census.device_type},
                                {"stage_options", census.options},
                                {"memory", census.memory},
                                {"only_with_recompute", census.recompute}});
  }
  json["search"] = {
      {"branches", explanation.branches}, {"skipped", explanation.skipped}, {"candidates", explanation.candidates}};
  json["alternatives"] = nlohmann::ordered_json::array();
  for (const Alternative& alternative : explanation.alternatives) {
    json["alternatives"].push_back(alternative_json(file, alternative));
  }
  return json_text(json);
}

}  // namespace hpplan
