#include "schedule/table.hpp"

#include "base/text.hpp"
#include "schedule/families.hpp"

namespace hpplan {

const std::vector<ScheduleFamily>& schedule_families() {
  constexpr Stepping kSync = Stepping::Synchronous;
  constexpr Stepping kAsync = Stepping::Asynchronous;
  constexpr BackwardOps kWhole = BackwardOps::Whole;
  constexpr BackwardOps kSplit = BackwardOps::Split;
  static const std::vector<ScheduleFamily> kFamilies = {
      {"gpipe", "all forwards, then all backwards", "", Arrangement::OnePerDevice, kSync, kWhole, make_gpipe},
      {"1f1b", "one forward, one backward, with flush (DAPPLE, PipeDream-flush)", "", Arrangement::OnePerDevice, kSync,
       kWhole, make_one_f_one_b},
      {"1f1b-adaptive",
       "1F1B with other numbers of micro-batches in flight (--in-flight)",
       "numbers in flight never grow from stage to stage",
       Arrangement::OnePerDevice,
       kSync,
       kWhole,
       make_one_f_one_b_adaptive,
       {"--in-flight"}},
      {"interleaved",
       "1F1B over several chunks per device (Megatron)",
       "micro-batches a multiple of stages",
       Arrangement::Loop,
       kSync,
       kWhole,
       make_interleaved,
       {"--chunks"}},
      {"zb-h1", "zero bubble with split backward, memory of 1F1B", "micro-batches >= stages", Arrangement::OnePerDevice,
       kSync, kSplit, make_zb_h1},
      {"zb-h2", "zero bubble with split backward, twice the memory", "micro-batches >= 2*stages-1",
       Arrangement::OnePerDevice, kSync, kSplit, make_zb_h2},
      {"zb-auto",
       "zero bubble searched under --memory-limit (default: as many as stages)",
       "memory limit >= 1",
       Arrangement::OnePerDevice,
       kSync,
       kSplit,
       make_zb_auto,
       {"--memory-limit"}},
      {"zb-v", "zero bubble, two chunks per device in a V", "micro-batches >= 2*stages", Arrangement::Vee, kSync,
       kSplit, make_zb_v},
      {"v-half", "two chunks in a V, about half the memory of 1F1B", "micro-batches >= stages", Arrangement::Vee, kSync,
       kSplit, make_v_half},
      {"v-min", "two chunks in a V, about a third of the memory of 1F1B", "micro-batches >= stages", Arrangement::Vee,
       kSync, kSplit, make_v_min},
      {"dualpipe",
       "two-way pipeline with overlapped forward and backward",
       "stages and micro-batches even, micro-batches >= 2*stages",
       Arrangement::TwoWay,
       kSync,
       kSplit,
       make_dualpipe,
       {"--overlap"}},
      {"dualpipe-v",
       "DualPipe folded onto half the devices",
       "stages even, micro-batches >= stages",
       Arrangement::Vee,
       kSync,
       kSplit,
       make_dualpipe_v,
       {"--overlap"}},
      {"chimera", "two replicas in opposite directions", "stages even, micro-batches a multiple of stages",
       Arrangement::TwoWay, kSync, kWhole, make_chimera},
      {"pipedream", "asynchronous 1F1B, update per backward, stashed weights", "", Arrangement::OnePerDevice, kAsync,
       kWhole, make_pipedream},
      {"pipedream-2bw", "asynchronous 1F1B, two weight versions", "accumulation >= stages", Arrangement::OnePerDevice,
       kAsync, kWhole, make_pipedream_2bw},
      {"paci",
       "asynchronous, one weight version, no stash; bounded drift",
       "",
       Arrangement::OnePerDevice,
       kAsync,
       kWhole,
       make_paci,
       {"--max-drift"}},
      {"amdp",
       "asynchronous, half as many pipelines as stages on a ring; drift at most 1",
       "stages even, micro-batches a multiple of stages",
       Arrangement::Ring,
       kAsync,
       kWhole,
       make_amdp,
       {"--max-drift"}},
      {"octopipe",
       "partition, placement and order of unlike layers found together",
       "at least one layer per device",
       Arrangement::Free,
       kSync,
       kSplit,
       make_octopipe,
       {"--memory-limit", "--layers"}},
  };
  return kFamilies;
}

const ScheduleFamily& schedule_family(const std::string& name) {
  for (const ScheduleFamily& family : schedule_families()) {
    if (family.name == name) return family;
  }
  std::vector<std::string> names;
  for (const ScheduleFamily& family : schedule_families()) names.emplace_back(family.name);
  const std::string nearest = nearest_name(name, names);
  refuse_schedule("family", concat("unknown schedule \"", name, "\""),
                  nearest.empty() ? concat("known: ", join(names, ", ")) : concat("did you mean ", nearest, "?"));
}

std::vector<std::string> synchronous_families() {
  std::vector<std::string> names;
  for (const ScheduleFamily& family : schedule_families()) {
    if (family.stepping == Stepping::Synchronous) names.emplace_back(family.name);
  }
  return names;
}

Schedule make_schedule_of(const std::string& name, const ScheduleRequest& request) {
  return schedule_family(name).make(request);
}

}  // namespace hpplan
