#include <algorithm>

#include "base/text.hpp"
#include "emit/detail/export_support.hpp"
#include "emit/export.hpp"

namespace hpplan {

namespace {

/// One task per node; each starts the ranks that the table gives to its node, and fails as soon as one of them fails.
constexpr const char* kNodeScript = R"sh(#!/bin/bash
# Starts the ranks of this node. Reads ranks.tsv beside it; TRAIN is the command of one rank.
set -u
here=$(cd "$(dirname "$0")" && pwd)
node=${SLURMD_NODENAME:-$(hostname -s)}
pids=()
local_size=$(awk -F'\t' -v node="$node" '$1 !~ /^#/ && $2 == node' "$here/ranks.tsv" | wc -l)
while IFS=$'\t' read -r rank host device; do
  [ "$host" = "$node" ] || continue
  RANK=$rank LOCAL_RANK=$device LOCAL_WORLD_SIZE=$local_size bash -c "$TRAIN" &
  pids+=($!)
done < <(grep -v '^#' "$here/ranks.tsv")
status=0
for _ in "${pids[@]}"; do
  wait -n "${pids[@]}" || { status=$?; kill "${pids[@]}" 2>/dev/null; break; }
done
exit "$status"
)sh";

}  // namespace

ExportResult export_slurm(const ExportRequest& request) {
  const detail::LaunchTable launch(request.cluster, detail::places_of(request.plan.pipelines));
  std::vector<std::string> nodes;
  for (const detail::LaunchTable::Run& run : launch.runs()) {
    if (std::find(nodes.begin(), nodes.end(), run.node) == nodes.end()) nodes.push_back(run.node);
  }
  std::string text = "#!/bin/bash\n";
  text += concat("#SBATCH --job-name=hpplan\n#SBATCH --nodes=", nodes.size(), "\n#SBATCH --nodelist=", join(nodes, ","),
                 "\n#SBATCH --ntasks-per-node=1\n#SBATCH --exclusive\n");
  text +=
      "# Submit from this folder: TRAIN='python train.py --manifest manifest.json' sbatch job.sbatch\n"
      "set -euo pipefail\n"
      ": \"${TRAIN:?set TRAIN to the command that every rank runs}\"\n"
      "export TRAIN\n";
  text += concat("export WORLD_SIZE=", launch.world_size(), "\nexport MASTER_ADDR=", nodes.front(),
                 "\nexport MASTER_PORT=${MASTER_PORT:-29500}\n");
  text += "srun --kill-on-bad-exit=1 bash \"$SLURM_SUBMIT_DIR/run_node.sh\"\n";
  ExportResult result;
  result.files = {{"job.sbatch", text}, {"run_node.sh", kNodeScript}, launch.rank_file()};
  result.notes.emplace_back("node names are those of the cluster file; Slurm must know them");
  return result;
}

}  // namespace hpplan
