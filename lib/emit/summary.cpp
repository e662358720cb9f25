#include "emit/summary.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "emit/json_text.hpp"

namespace hpplan {

namespace {

constexpr std::size_t kWidth = 120;

enum class Align { Left, Right };

/// Rows of cells, padded to the widest cell of each column.
class Table {
 public:
  explicit Table(std::vector<Align> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  [[nodiscard]] std::string text(std::size_t indent) const {
    std::vector<std::size_t> widths(columns_.size(), 0);
    for (const auto& row : rows_) {
      for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
    }
    std::string out;
    for (const auto& row : rows_) {
      std::string line(indent, ' ');
      for (std::size_t c = 0; c < row.size(); ++c) {
        const std::string pad(widths[c] - row[c].size(), ' ');
        line += columns_[c] == Align::Right ? pad + row[c] : row[c] + pad;
        if (c + 1 < row.size()) line += "  ";
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + '\n';
    }
    return out;
  }

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;
};

std::string bold(const std::string& text, TextStyle style) {
  return style == TextStyle::Coloured ? concat("\x1b[1m", text, "\x1b[0m") : text;
}

/// "0-3,6": ascending numbers as ranges.
std::string compact(const std::vector<int>& numbers) {
  std::string out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t j = i;
    while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
    out += concat(out.empty() ? "" : ",", numbers[i]);
    if (j > i) out += concat("-", numbers[j]);
    i = j + 1;
  }
  return out;
}

/// "b2-0:0-3", or "b2-0..3:0-7" for several nodes with the same devices each: at most `limit` characters where nodes
/// have names of usual length.
std::string devices_text(const std::vector<DeviceName>& devices, std::size_t limit) {
  std::vector<std::pair<std::string, std::vector<int>>> nodes;
  for (const DeviceName& device : devices) {
    if (nodes.empty() || nodes.back().first != device.node) nodes.push_back({device.node, {}});
    nodes.back().second.push_back(device.device);
  }
  std::vector<std::string> parts;
  for (const auto& [node, numbers] : nodes) parts.push_back(node + ":" + compact(numbers));
  const std::string all = join(parts, " ");
  if (nodes.size() == 1 && all.size() <= limit) return all;
  const bool alike =
      std::all_of(nodes.begin(), nodes.end(), [&](const auto& node) { return node.second == nodes.front().second; });
  if (nodes.size() < 2 || !alike) return all.size() <= limit ? all : all.substr(0, limit - 3) + "...";
  // "b2-0..3:0-7": the last name without what it shares with the first up to a dash.
  const std::string& first = nodes.front().first;
  const std::string& last = nodes.back().first;
  const std::size_t dash = last.rfind('-');
  const bool shared = dash != std::string::npos && first.compare(0, dash + 1, last, 0, dash + 1) == 0;
  return concat(first, "..", shared ? last.substr(dash + 1) : last, ":", compact(nodes.front().second));
}

std::string recompute_text(const StagePlan& stage) {
  if (stage.recompute.empty()) return "-";
  std::map<std::vector<std::string>, int> layers;
  for (const RecomputeRange& range : stage.recompute) layers[range.operators] += range.layers.size();
  std::vector<std::string> parts;
  for (const auto& [operators, count] : layers) {
    const std::string what =
        operators.size() > 3 ? concat(operators.front(), "..", operators.back()) : join(operators, "+");
    parts.push_back(concat(count, "x ", what));
  }
  const std::string text = join(parts, ", ");
  return text.size() <= 30 ? text : concat(text.substr(0, 27), "...");
}

std::string layers_text(LayerRange layers) {
  return layers.size() == 1 ? concat(layers.first) : concat(layers.first, "-", layers.last - 1);
}

double fill(const StagePlan& stage) {
  return stage.capacity > Bytes{0} ? stage.memory.total().value() / stage.capacity.value() : 0.0;
}

/// The stage with the least memory left, by share.
std::pair<std::size_t, std::size_t> tightest(const Plan& plan) {
  std::pair<std::size_t, std::size_t> best{0, 0};
  double most = -1.0;
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    for (std::size_t s = 0; s < plan.pipelines[p].stages.size(); ++s) {
      if (fill(plan.pipelines[p].stages[s]) <= most) continue;
      most = fill(plan.pipelines[p].stages[s]);
      best = {p, s};
    }
  }
  return best;
}

std::string gibibytes(Bytes size) { return fixed(size.value() / (1024.0 * 1024.0 * 1024.0), 1); }

void add_stages(const PlanFile& file, std::size_t p, Table& table) {
  const auto tight = tightest(file.plan);
  const PipelinePlan& pipeline = file.plan.pipelines[p];
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const StagePlan& stage = pipeline.stages[s];
    const bool is_tight = tight == std::pair{p, s};
    table.add({concat(p, ".", s), devices_text(file.placements[p][s].devices, 24), layers_text(stage.layers),
               concat(stage.tensor_parallel), concat(stage.data_parallel), recompute_text(stage), pretty(stage.forward),
               pretty(stage.backward), s + 1 < pipeline.stages.size() ? pretty(stage.link) : "",
               concat(stage.in_flight), concat(gibibytes(stage.memory.total()), " / ", gibibytes(stage.capacity)),
               concat(percent(fill(stage), 0), is_tight ? " <" : "")});
  }
}

/// Whether two pipelines differ in nothing but which devices they use.
bool is_alike(const PipelinePlan& a, const PipelinePlan& b) {
  const auto same_stage = [](const StagePlan& x, const StagePlan& y) {
    return x.node_group == y.node_group && x.layers == y.layers && x.tensor_parallel == y.tensor_parallel &&
           x.data_parallel == y.data_parallel && x.forward == y.forward && x.backward == y.backward &&
           x.link == y.link && x.in_flight == y.in_flight && x.memory.total() == y.memory.total();
  };
  return a.micro_batch == b.micro_batch && a.micro_batches == b.micro_batches && a.schedule == b.schedule &&
         a.time == b.time && std::equal(a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end(), same_stage);
}

/// Pipelines that are shown, and how many more are like each: all of a few, of many one of each kind.
std::vector<std::pair<std::size_t, int>> shown_pipelines(const Plan& plan) {
  constexpr std::size_t kFewStages = 32;
  std::size_t stages = 0;
  for (const PipelinePlan& pipeline : plan.pipelines) stages += pipeline.stages.size();
  std::vector<std::pair<std::size_t, int>> shown;
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    const auto kind = std::find_if(shown.begin(), shown.end(), [&](const auto& other) {
      return stages > kFewStages && is_alike(plan.pipelines[other.first], plan.pipelines[p]);
    });
    if (kind == shown.end()) {
      shown.emplace_back(p, 0);
    } else {
      ++kind->second;
    }
  }
  return shown;
}

std::string pipelines_text(const PlanFile& file) {
  const Plan& plan = file.plan;
  const double batch = file.problem.job.global_batch;
  Table table({Align::Left, Align::Right, Align::Left, Align::Right, Align::Right, Align::Right});
  table.add({"pipeline", "share of the batch", "schedule", "time", "bubble", "stage imbalance"});
  for (const auto& [p, alike] : shown_pipelines(plan)) {
    const PipelinePlan& pipeline = plan.pipelines[p];
    const std::int64_t samples = static_cast<std::int64_t>(pipeline.micro_batch) * pipeline.micro_batches;
    table.add({alike == 0 ? concat(p) : concat(p, " and ", alike, " alike"),
               concat(pipeline.micro_batches, " x ", pipeline.micro_batch, " = ", samples, " (",
                      percent(static_cast<double>(samples) / batch), ")"),
               pipeline.schedule, pretty(pipeline.time), percent(pipeline.bubble),
               percent(plan.intra_pipeline_imbalance[p])});
  }
  return table.text(2);
}

std::string stages_text(const PlanFile& file) {
  Table table({Align::Left, Align::Left, Align::Right, Align::Right, Align::Right, Align::Left, Align::Right,
               Align::Right, Align::Right, Align::Right, Align::Right, Align::Left});
  table.add(
      {"stage", "devices", "layers", "TP", "DP", "recompute", "forward", "backward", "link", "held", "GiB", "full"});
  const auto shown = shown_pipelines(file.plan);
  for (const auto& [p, alike] : shown) add_stages(file, p, table);
  const bool all = shown.size() == file.plan.pipelines.size();
  return table.text(2) + (all ? "" : "  of pipelines that are alike the first is shown; the plan file has all\n");
}

std::string times_text(const PlanFile& file) {
  const Plan& plan = file.plan;
  const auto share = [&](Seconds part) { return percent(part / plan.iteration_time); };
  Table table({Align::Left, Align::Right, Align::Right, Align::Left});
  const auto pipelines = plan.pipelines.size();
  table.add({"pipelines", pretty(plan.pipeline_time), share(plan.pipeline_time),
             pipelines == 1 ? "" : concat("the slowest; they differ by ", percent(plan.inter_pipeline_imbalance))});
  table.add({"gradient sync", pretty(plan.gradient_sync_time), share(plan.gradient_sync_time),
             plan.gradient_sync.groups.empty()
                 ? "nothing to reduce"
                 : concat(to_text(plan.gradient_sync.method), ", ", plan.gradient_sync.groups.size(), " groups")});
  table.add({"optimizer", pretty(plan.optimizer_time), share(plan.optimizer_time), ""});
  return table.text(2);
}

std::string provenance_text(const Plan& plan) {
  std::map<Provenance, std::vector<std::string>> stages;
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    for (std::size_t s = 0; s < plan.pipelines[p].stages.size(); ++s) {
      stages[plan.pipelines[p].stages[s].provenance].push_back(concat(p, ".", s));
    }
  }
  if (stages.size() == 1) return concat("all stage times are ", to_text(stages.begin()->first));
  std::vector<std::string> parts;
  for (const auto& [provenance, names] : stages) {
    parts.push_back(
        concat(to_text(provenance), ": ", names.size() <= 12 ? join(names, " ") : concat(names.size(), " stages")));
  }
  return "stage times " + join(parts, "; ");
}

/// Breaks a note at spaces; later lines are indented.
std::string wrapped(const std::string& note, std::size_t indent) {
  std::string out;
  std::string line(indent, ' ');
  std::size_t start = 0;
  while (start <= note.size()) {
    const std::size_t end = std::min(note.find(' ', start), note.size());
    const std::string word = note.substr(start, end - start);
    if (line.size() > indent + 2 && line.size() + 1 + word.size() > kWidth) {
      out += line + '\n';
      line = std::string(indent + 2, ' ') + word;
    } else {
      line += (line.size() > indent ? " " : "") + word;
    }
    start = end + 1;
  }
  return out + line + '\n';
}

/// Faults of the format say all in `found`.
std::string difference_line(const Difference& difference) {
  std::string line = difference.remark.empty() && difference.expected.empty()
                         ? concat(difference.field, ": ", difference.found)
                         : concat(difference.field, ": found ", difference.found, ", expected ", difference.expected);
  if (!difference.remark.empty()) line += concat(" (", difference.remark, ")");
  return line;
}

}  // namespace

std::string plan_headline(const PlanFile& file) {
  const Plan& plan = file.plan;
  const std::string quality = file.figures.gap <= 1e-9
                                  ? "proved optimal"
                                  : concat("at most ", percent(file.figures.gap, 2), " above the optimum (bound ",
                                           pretty(plan.lower_bound), ")");
  return concat("iteration ", pretty(plan.iteration_time), ", ", quality, plan.complete ? "" : "; search ended early");
}

std::string plan_summary(const PlanFile& file, TextStyle style) {
  const Plan& plan = file.plan;
  const PlanProblem& problem = file.problem;
  std::string out =
      bold(concat(problem.model.name, " on ", problem.cluster.name, ", global batch ", problem.job.global_batch),
           style) +
      '\n';
  out += bold(plan_headline(file), style) + '\n';
  out += concat(significant(file.figures.samples_per_s, 4), " samples/s, ", significant(file.figures.tokens_per_s, 4),
                " tokens/s, MFU ", percent(file.figures.mfu), "\n\n");
  out += times_text(file) + '\n';
  out += pipelines_text(file) + '\n';
  out += stages_text(file) + '\n';
  out +=
      "  layers: embedding 0, then blocks, head last; times per micro-batch; held: micro-batches in flight; "
      "< tightest memory\n";
  if (!file.idle_devices.empty()) {
    out +=
        wrapped(concat("idle: ", file.idle_devices.size(),
                       file.idle_devices.size() == 1 ? " device: " : " devices: ", devices_text(file.idle_devices, 90)),
                2);
  }
  out += wrapped(provenance_text(plan), 2);
  for (const std::string& note : plan.notes) out += wrapped("note: " + note, 2);
  return out;
}

namespace {

/// What of the bound was proved again.
std::string bound_line(const PlanFile& file, const Judgement& judgement) {
  const std::string bound = concat("bound ", pretty(file.plan.lower_bound), ": ");
  const std::string work =
      concat("the work of the batch over the best rates of all devices, ", pretty(judgement.work_bound));
  switch (judgement.bound) {
    case BoundVerdict::NotLookedAt: return bound + "at most the plan's time; the job leaves nothing to prove it by\n";
    case BoundVerdict::Derived: return concat(bound, "proved again, by ", work, "\n");
    case BoundVerdict::Accepted:
      return concat(bound, "accepted, not proved again: it lies between ", work, ", and the plan's time\n");
    case BoundVerdict::Wrong: return "";  // a difference says so
  }
  return "";
}

}  // namespace

std::string judgement_text(const PlanFile& file, const Judgement& judgement) {
  if (judgement.ok()) return concat("ok: ", plan_headline(file), "\n", bound_line(file, judgement));
  std::string out;
  for (const Difference& difference : judgement.differences) {
    out += difference_line(difference) + '\n';
  }
  const auto count = judgement.differences.size();
  out += concat(count, count == 1 ? " difference" : " differences",
                judgement.recomputed ? "\n" : "; predicted numbers were not recomputed\n");
  return out;
}

std::string judgement_json(const Judgement& judgement) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Difference& difference : judgement.differences) {
    list.push_back({{"field", difference.field},
                    {"found", difference.found},
                    {"expected", difference.expected},
                    {"remark", difference.remark}});
  }
  nlohmann::ordered_json json = {{"ok", judgement.ok()}, {"recomputed", judgement.recomputed}};
  json["bound"] = {{"verdict", to_text(judgement.bound)}, {"work_bound_s", judgement.work_bound.value()}};
  json["differences"] = std::move(list);
  return json_text(json);
}

}  // namespace hpplan
