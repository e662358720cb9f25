#include "schedule/table.hpp"

#include "base/text.hpp"
#include "schedule/families.hpp"

namespace hpplan {

const std::vector<ScheduleFamily>& schedule_families() {
  static const std::vector<ScheduleFamily> kFamilies = {
      {"gpipe", "all forwards, then all backwards", "", make_gpipe},
      {"1f1b", "one forward, one backward, with flush (DAPPLE, PipeDream-flush)", "", make_one_f_one_b},
      {"interleaved", "1F1B over several chunks per device (Megatron)", "micro-batches a multiple of stages",
       make_interleaved},
      {"zb-h1", "zero bubble with split backward, memory of 1F1B", "micro-batches >= stages", make_zb_h1},
      {"zb-h2", "zero bubble with split backward, twice the memory", "micro-batches >= 2*stages-1", make_zb_h2},
      {"zb-auto", "zero bubble searched under --memory-limit (default: as many as stages)", "memory limit >= 1",
       make_zb_auto},
      {"zb-v", "zero bubble, two chunks per device in a V", "micro-batches >= 2*stages", make_zb_v},
      {"v-half", "two chunks in a V, about half the memory of 1F1B", "micro-batches >= stages", make_v_half},
      {"v-min", "two chunks in a V, about a third of the memory of 1F1B", "micro-batches >= stages", make_v_min},
      {"dualpipe", "two-way pipeline with overlapped forward and backward",
       "stages and micro-batches even, micro-batches >= 2*stages", make_dualpipe},
      {"dualpipe-v", "DualPipe folded onto half the devices", "stages even, micro-batches >= stages", make_dualpipe_v},
      {"chimera", "two replicas in opposite directions", "stages even, micro-batches a multiple of stages",
       make_chimera},
      {"pipedream", "asynchronous 1F1B, update per backward, stashed weights", "", make_pipedream},
      {"pipedream-2bw", "asynchronous 1F1B, two weight versions", "accumulation >= stages", make_pipedream_2bw},
      {"paci", "asynchronous, one weight version, no stash; bounded drift", "", make_paci},
      {"amdp", "asynchronous, half as many pipelines as stages on a ring; drift at most 1",
       "stages even, micro-batches a multiple of stages", make_amdp},
      {"octopipe", "partition, placement and order of unlike layers found together", "at least one layer per device",
       make_octopipe},
  };
  return kFamilies;
}

const ScheduleFamily& schedule_family(const std::string& name) {
  std::vector<std::string> names;
  for (const ScheduleFamily& family : schedule_families()) {
    if (family.name == name) return family;
    names.emplace_back(family.name);
  }
  const std::string nearest = nearest_name(name, names);
  refuse_schedule("family", concat("unknown schedule \"", name, "\""),
                  nearest.empty() ? concat("known: ", join(names, ", ")) : concat("did you mean ", nearest, "?"));
}

Schedule make_schedule_of(const std::string& name, const ScheduleRequest& request) {
  return schedule_family(name).make(request);
}

}  // namespace hpplan
