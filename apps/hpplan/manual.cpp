#include <map>

#include "man_page.hpp"

namespace hpplan {

namespace {

using Manual = std::vector<std::pair<std::string, std::vector<std::string>>>;

const Manual& program_manual() {
  static const Manual manual = {
      {"DESCRIPTION",
       {"hpplan plans the training of a transformer on accelerators of different kinds. Given a model, a cluster and a "
        "global batch, it decides how many pipelines to run and which devices form their stages, how many layers each "
        "stage "
        "holds, its tensor and data parallelism, the micro-batches and what is recomputed, so that one optimizer step "
        "takes "
        "the least time and every device's memory suffices. It proves how far a plan can be from the best one.",
        "Standard output carries only the result of a verb; notes, summaries and progress go to standard error, and "
        "--quiet drops them. Faults are shown as FILE:LINE:COLUMN: error: FIELD: what was found, followed by a hint. "
        "Every "
        "verb writes its result as JSON with --json. The file name - is standard input or output, so that verbs can be "
        "joined by pipes."}},
      {"WORDS",
       {"A layer is the embedding (0), a transformer block (1 to L) or the head (L+1). A stage is a run of layers on "
        "one "
        "set of devices, split by tensor parallelism (TP) and data parallelism (DP). A pipeline is a list of stages "
        "that "
        "hold the whole model once; pipelines of a plan use disjoint devices and share the global batch. A micro-batch "
        "is "
        "the samples that go through a pipeline together. The bound is a proved lower limit of the time of a step over "
        "all "
        "plans; the gap says how far above it a plan is."}},
      {"EXIT STATUS",
       {" 0  done\n1  a fault of hpplan itself\n2  bad input or usage\n3  no feasible plan, or a plan that check found "
        "wrong"}},
      {"ENVIRONMENT",
       {"HPPLAN_DATA names the folder that holds the shipped folders configs and profiles, in place of the installed "
        "one.",
        "NO_COLOR, if not empty, turns colours off. They are used on terminals only."}},
      {"FILES",
       {"Models, clusters and profiles are found by path or, for shipped ones, by name in configs/models, "
        "configs/clusters "
        "and profiles below share/hpplan of the place where hpplan is installed. The formats are described in "
        "configs/README.md and profiles/README.md there, and plan files in configs/plan.schema.json."}},
      {"COMPLETION",
       {"The scripts that hpplan completion writes make bash, zsh and fish complete verbs, options, shipped names and "
        "other "
        "known values. An installed hpplan brings them along."}}};
  return manual;
}

const std::map<std::string, Manual>& verb_manuals() {
  static const std::map<std::string, Manual> manuals = {
      {"hpplan plan",
       {{"DESCRIPTION",
         {"Without --out, a readable summary is the result. With --out, the plan is written as JSON and the summary "
          "goes to "
          "standard error. The plan does not depend on the number of threads, and the same input gives the same bytes.",
          "Times come from the profiles given, else from shipped ones that match the device types and the model. What "
          "was "
          "not measured is interpolated or modelled, and the plan says of every stage which it is.",
          "A search that is ended by --time-limit, Ctrl-C or SIGTERM, and one with a --tolerance above 0, still states "
          "a "
          "bound that holds: the "
          "gap that it shows is proved.",
          "Where a gap is left although nothing ended the search, the work allowed for the proof was used up. --effort "
          "allows "
          "a multiple of it, for a tighter bound and sometimes a better plan. Unlike a time limit it "
          "gives the same plan on every machine.",
          "With --top, further plans follow, none with the same stages in all pipelines as one before it: other "
          "devices, "
          "splits or layers. Each is proved to be the next best, or says by how much another one could be faster. They "
          "are "
          "found by further searches, so that K plans take up to K times as long.",
          "--no-cpc, --no-ses, --no-oso and --no-dpo switch off the four optimisations of the search, to see what they "
          "save: "
          "the report (--report) counts it. A plan that is proved stays the same. Without dynamic programming every "
          "plan is "
          "looked at, which ends for some ten devices only; --time-limit ends it with the best plan so far and the "
          "bound that "
          "the work alone gives.",
          "If no plan is feasible, the exit status is 3 and the reasons are listed, each with its nearest miss."}},
        {"PLACEMENT RULES",
         {"A RULE of --forbid or --force is words with spaces between: type=NAME, group=NAME, node=NAME and "
          "device=NODE:INDEX "
          "name devices; layers=FIRST-LAST (from the embedding, 0, to the head), layers=head, stage=first and "
          "stage=last name "
          "layers. It speaks of what all its words name. --forbid keeps these layers off these devices, and without "
          "layers "
          "the devices are not used. --force lets no other devices hold these layers, and without layers uses no other "
          "devices. Rules about nodes or devices cannot name layers. Examples:",
          " --forbid 'type=ascend-910b4 stage=first'\n --forbid node=b2-3\n --force 'layers=1-8 group=b2'"}}}},
      {"hpplan check",
       {{"DESCRIPTION",
         {"The file may be one of hpplan's own or one written by hand. Nothing of the search is used: times, memory, "
          "sums and "
          "the structure are computed again from the plan, the model, the cluster and the profiles, and each "
          "difference is "
          "printed with what was found and what is right. The exit status is 3 if there is any.",
          "Of the lower bound, what the work of the batch over the best rates of all devices proves is proved again. A "
          "bound "
          "of the search above that is accepted if it is at most the plan's time; the result says which of both it "
          "was."}}}},
      {"hpplan simulate",
       {{"DESCRIPTION",
         {"Uses the stage and link times that the plan states. Shows the time of the step, idle shares, busy time, and "
          "what "
          "is in flight at most on each stage. The trace opens in Perfetto and in chrome://tracing."}}}},
      {"hpplan schedule",
       {{"DESCRIPTION",
         {"Times have no unit: the result is in the unit of what is given. A single value stands for all stages. With "
          "--weight-gradient, --backward is the input gradient alone."}}}},
      {"hpplan profile import",
       {{"DESCRIPTION",
         {"The layout is told by content. What a source does not say is filled by an assumption; each assumption "
          "becomes a "
          "note of the profile and is repeated on standard error. profiles/README.md lists layouts and "
          "assumptions."}}}},
      {"hpplan profile synthesize",
       {{"DESCRIPTION",
         {"The times are those of the device model (profiles/README.md), not measured ones, and the profile says "
          "so."}}}},
      {"hpplan model import",
       {{"DESCRIPTION",
         {"Reads config.json of GPT-2, LLaMA, Qwen, Mistral, Mixtral and DeepSeek, and argument lists of Megatron-LM. "
          "What the "
          "file leaves out is taken from the default of its family; every default taken is repeated as a comment of "
          "the "
          "result, or on standard error with --out FILE. What has no default is asked for by the name of an "
          "option."}}}},
      {"hpplan cluster import",
       {{"DESCRIPTION",
         {"Hosts come from a hostfile (slots=, type=, HOST:N), from a Slurm node list such as node[01-04,07], or from "
          "the "
          "output of nvidia-smi topo -m for a single node. Links come from runs of nccl-tests, as text or JSON, or are "
          "stated. What is not stated is asked for, or taken from a default that the result repeats."}}}},
      {"hpplan export",
       {{"DESCRIPTION",
         {"What a target cannot carry is refused by naming the field and the stage. With --approximate it is replaced "
          "by "
          "what the target can carry; each change is printed with the predicted cost, and written to CHANGES.txt "
          "beside "
          "the files."}}}},
      {"hpplan sweep",
       {{"DESCRIPTION",
         {"A sweep file (configs/README.md) spans points by grids and lists over models, clusters, batches, sequences, "
          "schedules and constraints. Each point becomes one line of the results file, appended whole and flushed to "
          "the "
          "disk. A sweep that was stopped at any moment goes on where it stopped when the same command is given again: "
          "no "
          "line is lost, none is written twice. Equal problems are planned once.",
          "A point that is infeasible or whose inputs are broken becomes a line with its reason, and the sweep goes "
          "on. The "
          "exit status is 2 if any line is broken, else 3 if any is infeasible. Once the inputs are mended, "
          "--retry-broken "
          "plans the broken points again and replaces their lines.",
          "--shard divides a sweep among processes that share nothing: a Slurm array (configs/sweeps/array.sbatch) or "
          "GNU "
          "parallel (configs/sweeps/parallel.sh). The parts together are the whole."}}}},
      {"hpplan completion",
       {{"DESCRIPTION",
         {"The scripts ask hpplan itself what may stand at the cursor, so they fit every version:",
          " hpplan completion words -- plan --model gpt3-",
          "prints one line for each word, with its meaning after a tab, and :files or :folders where paths may "
          "stand."}},
        {"INSTALLING",
         {" bash  ~/.local/share/bash-completion/completions/hpplan\nzsh   _hpplan in a folder of $fpath\nfish  "
          "~/.config/fish/completions/hpplan.fish"}}}}};
  return manuals;
}

}  // namespace

Manual manual_text(const std::string& full_name) {
  if (full_name == "hpplan") return program_manual();
  const auto found = verb_manuals().find(full_name);
  return found == verb_manuals().end() ? Manual{} : found->second;
}

}  // namespace hpplan
