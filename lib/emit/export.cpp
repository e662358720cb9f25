#include "emit/export.hpp"

#include "base/diagnostic.hpp"
#include "base/text.hpp"

namespace hpplan {

const std::vector<ExportTarget>& export_targets() {
  static const std::vector<ExportTarget> targets = {
      {"torch", "PyTorch pipelining: a schedule CSV per pipeline and a manifest; carries every plan", export_torch},
      {"megatron", "Megatron-LM arguments: equal pipelines, one TP and DP degree, uneven layers", export_megatron},
      {"flagscale", "FlagScale heterogeneous YAML and hostfile: one pipeline, TP and DP per stage", export_flagscale},
      {"hetu", "Hetu strategy YAML: pipelines of different depth, one micro-batch size", export_hetu},
      {"galvatron", "Galvatron strategy JSON: one pipeline, stages of equal device count", export_galvatron},
      {"mindformers", "MindFormers YAML: layer offsets and recomputation per stage and operator", export_mindformers},
      {"metis", "Metis result line: one pipeline, TP and DP per stage", export_metis},
      {"slurm", "Slurm batch script and rank table that start the ranks of a plan", export_slurm},
  };
  return targets;
}

const ExportTarget& export_target(const std::string& name) {
  std::vector<std::string> names;
  for (const ExportTarget& target : export_targets()) {
    if (name == target.name) return target;
    names.emplace_back(target.name);
  }
  const std::string nearest = nearest_name(name, names);
  throw InputError(
      Diagnostic{"", 0, 0, "--to", concat("unknown target \"", name, "\""),
                 nearest.empty() ? concat("targets: ", join(names, ", ")) : concat("did you mean \"", nearest, "\"?")});
}

std::string to_text(const ExportChange& change) {
  const double percent = 100.0 * (change.after.value() / change.before.value() - 1.0);
  return concat(change.text, ": predicted ", pretty(change.after), " instead of ", pretty(change.before), " (",
                percent < 0.0 ? "" : "+", fixed(percent, 1), " %)");
}

}  // namespace hpplan
