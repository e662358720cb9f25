#include "io/job_reader.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/text.hpp"
#include "domain/degrees.hpp"
#include "io/placement_rule_reader.hpp"

namespace hpplan {

namespace {

[[noreturn]] void refuse(const std::string& option, const std::string& message, const std::string& hint) {
  throw InputError(Diagnostic{"", 0, 0, option, message, hint});
}

/// What lies between commas, without blanks.
std::vector<std::string> list_items(std::string text) {
  std::erase(text, ' ');
  return split(text, ',');
}

/// The count that `text`, a part of `whole`, is; `max` 0 is no limit of ours.
int parse_count(const std::string& option, const std::string& text, const std::string& whole, int max,
                const std::string& hint) {
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool is_count = error == std::errc{} && end == text.data() + text.size() && count >= 1;
  if (is_count && (max == 0 || count <= max)) return count;
  const std::string place = text == whole ? "" : concat(" in \"", whole, "\"");
  refuse(option,
         concat("found \"", text, "\"", place, ", needed a whole number ",
                max == 0 ? "of at least 1" : concat("from 1 to ", max)),
         hint);
}

/// True if `total` is a sum of any numbers of the given sizes.
bool is_sum_of(int total, const std::vector<int>& sizes) {
  if (std::any_of(sizes.begin(), sizes.end(), [&](int size) { return total % size == 0; })) return true;
  std::vector<bool> reached(static_cast<std::size_t>(total) + 1, false);
  reached[0] = true;
  for (const int size : sizes) {
    for (std::size_t sum = static_cast<std::size_t>(size); sum < reached.size(); ++sum) {
      if (reached[sum - static_cast<std::size_t>(size)]) reached[sum] = true;
    }
  }
  return reached.back();
}

std::string listed(const std::vector<int>& numbers) {
  std::vector<std::string> texts;
  for (const int number : numbers) texts.push_back(std::to_string(number));
  return join(texts, ", ");
}

/// Collects faults under the names of options.
class JobFaults {
 public:
  void add(const std::string& option, const std::string& message, const std::string& hint) {
    faults_.push_back({"", 0, 0, option, message, hint});
  }
  [[nodiscard]] std::vector<Diagnostic> take() { return std::move(faults_); }

 private:
  std::vector<Diagnostic> faults_;
};

void check_batch(const Job& job, JobFaults& faults) {
  const std::vector<int>& sizes = job.micro_batches;
  if (sizes.empty() || *std::min_element(sizes.begin(), sizes.end()) < 1) {
    faults.add("--micro-batch", "micro-batch sizes are whole numbers of at least 1", "");
    return;
  }
  if (job.global_batch < 1 || job.global_batch > kMaxGlobalBatch) {
    const std::string formula =
        job.global_batch == 0 && sizes.size() == 1 ? ": " + batch_fault(0, sizes.front(), 1).message : "";
    faults.add("--global-batch", concat("found ", job.global_batch, formula),
               concat("the number of samples of one optimizer step, from 1 to ", kMaxGlobalBatch));
    return;
  }
  if (is_sum_of(job.global_batch, sizes)) return;
  if (sizes.size() == 1) {
    const DegreeFault fault = batch_fault(job.global_batch, sizes.front(), 1);
    faults.add("--global-batch", fault.message, fault.hint);
  } else {
    faults.add("--global-batch",
               concat(job.global_batch, " samples are no sum of micro-batches of ", listed(sizes), " samples"),
               "allow a micro-batch of 1 sample, or change the global batch");
  }
}

void check_tensor_parallel(const Job& job, const ModelSpec& model, const ClusterSpec& cluster, JobFaults& faults) {
  const int widest = cluster.widest_tensor_parallel(job.constraints.tensor_parallel_across_nodes);
  for (const int degree : job.constraints.tensor_parallel) {
    if (const std::string fault = tensor_parallel_fault(model, degree); !fault.empty()) {
      faults.add("--tensor-parallel", fault,
                 concat("this model allows ", listed(allowed_tensor_parallel(model, std::max(widest, 8))),
                        "; the number of stages has no such limit"));
    } else if (degree > widest) {
      const bool may_leave = !job.constraints.tensor_parallel_across_nodes;
      faults.add("--tensor-parallel",
                 concat("degree ", degree, " needs ", degree, " devices in one ", may_leave ? "node" : "node group",
                        ", the largest has ", widest),
                 may_leave ? "use a smaller degree, or --tensor-parallel-across-nodes" : "use a smaller degree");
    }
  }
}

void check_limit(const std::string& option, const CountLimit& limit, JobFaults& faults) {
  if (limit.min < 1 || (limit.max >= 0 && limit.max < limit.min)) {
    faults.add(option, concat("from ", limit.min, " to ", limit.max), "the smaller number, of at least 1, comes first");
  }
}

void check_shape(const Job& job, const ModelSpec& model, const ClusterSpec& cluster, JobFaults& faults) {
  const Constraints& limits = job.constraints;
  check_limit("--pipelines", limits.pipelines, faults);
  check_limit("--stages", limits.stages, faults);
  if (limits.stages.min > model.layer_count()) {
    faults.add("--stages", concat(limits.stages.min, " stages for ", model.layer_count(), " layers"),
               "each stage holds at least one layer; embedding and head count");
  }
  const std::vector<int>& degrees = limits.tensor_parallel;
  const int tensor_parallel = degrees.empty() ? 1 : *std::min_element(degrees.begin(), degrees.end());
  const DegreeFault fault =
      device_fault(limits.pipelines.min, limits.stages.min, tensor_parallel, 1, cluster.device_count());
  const char* const option = limits.stages.min == 1 && limits.pipelines.min > 1 ? "--pipelines" : "--stages";
  if (fault) faults.add(option, fault.message, fault.hint);
}

void check_placement(const Job& job, const ModelSpec& model, const ClusterSpec& cluster, JobFaults& faults) {
  for (const RuleFault& fault : rule_faults(job.constraints.placement, model, cluster)) {
    faults.add(concat("--", to_text(fault.kind)), fault.message, fault.hint);
  }
}

void check_memory(const Job& job, const ClusterSpec& cluster, JobFaults& faults) {
  if (job.memory_margin < Bytes{} || job.framework_overhead < Bytes{}) {
    faults.add("--memory-margin", "negative memory", "memory kept free is at least 0");
    return;
  }
  Bytes largest;
  for (int group = 0; group < cluster.group_count(); ++group)
    largest = std::max(largest, cluster.type_of(group).memory);
  const Bytes reserved = job.memory_margin + job.framework_overhead;
  if (reserved >= largest) {
    faults.add(job.memory_margin >= job.framework_overhead ? "--memory-margin" : "--framework-overhead",
               concat("a margin of ", pretty(job.memory_margin), " and a framework overhead of ",
                      pretty(job.framework_overhead), " leave nothing of ", pretty(largest), " on the largest device"),
               "lower one of them");
  }
}

}  // namespace

std::vector<int> parse_count_list(const std::string& option, const std::string& text, int max) {
  std::vector<int> counts;
  for (const std::string& part : list_items(text)) counts.push_back(parse_count(option, part, text, max, ""));
  std::sort(counts.begin(), counts.end());
  if (std::adjacent_find(counts.begin(), counts.end()) != counts.end()) {
    refuse(option, concat("a number twice in \"", text, "\""), "give each number once");
  }
  return counts;
}

CountLimit parse_count_limit(const std::string& option, const std::string& text) {
  const std::string forms = "write N, MIN..MAX, MIN.. or ..MAX";
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) {
    const int count = parse_count(option, text, text, 0, forms);
    return {count, count};
  }
  const std::string first = text.substr(0, dots);
  const std::string last = text.substr(dots + 2);
  if (first.empty() && last.empty()) refuse(option, "\"..\" limits nothing", forms);
  CountLimit limit;
  if (!first.empty()) limit.min = parse_count(option, first, text, 0, forms);
  if (!last.empty()) limit.max = parse_count(option, last, text, 0, forms);
  if (limit.max >= 0 && limit.max < limit.min) {
    refuse(option, concat("the range \"", text, "\" is empty"), "the smaller number comes first");
  }
  return limit;
}

std::vector<std::string> parse_name_list(const std::string& option, const std::string& text) {
  std::vector<std::string> names;
  for (const std::string& name : list_items(text)) {
    if (name.empty()) refuse(option, concat("an empty name in \"", text, "\""), "write names with commas between");
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      refuse(option, concat("\"", name, "\" twice in \"", text, "\""), "give each name once");
    }
    names.push_back(name);
  }
  return names;
}

std::vector<PlacementRule> parse_placement_rules(RuleKind kind, const std::vector<std::string>& texts) {
  std::vector<PlacementRule> rules;
  for (const std::string& text : texts) {
    auto parsed = parse_placement_rule(kind, text);
    if (const auto* fault = std::get_if<RuleFault>(&parsed))
      refuse(concat("--", to_text(kind)), fault->message, fault->hint);
    rules.push_back(std::get<PlacementRule>(std::move(parsed)));
  }
  return rules;
}

std::vector<Diagnostic> job_faults(const Job& job, const ModelSpec& model, const ClusterSpec& cluster) {
  JobFaults faults;
  check_batch(job, faults);
  if (!(job.tolerance >= 0.0 && job.tolerance <= kMaxTolerance)) {
    faults.add("--tolerance", concat("found ", shortest(job.tolerance)), "at least 0; 0.01 allows a plan 1 % slower");
  }
  check_tensor_parallel(job, model, cluster, faults);
  check_shape(job, model, cluster, faults);
  check_placement(job, model, cluster, faults);
  check_memory(job, cluster, faults);
  return faults.take();
}

}  // namespace hpplan
