#pragma once

#include "schedule/request.hpp"

// One function per schedule family, each in a file of its own. Each checks its limits and throws InputError where they
// are not met. schedule/table.cpp lists them with their names.
namespace hpplan {

[[nodiscard]] Schedule make_gpipe(const ScheduleRequest& request);
[[nodiscard]] Schedule make_one_f_one_b(const ScheduleRequest& request);
[[nodiscard]] Schedule make_one_f_one_b_adaptive(const ScheduleRequest& request);
[[nodiscard]] Schedule make_interleaved(const ScheduleRequest& request);
[[nodiscard]] Schedule make_zb_h1(const ScheduleRequest& request);
[[nodiscard]] Schedule make_zb_h2(const ScheduleRequest& request);
[[nodiscard]] Schedule make_zb_auto(const ScheduleRequest& request);
[[nodiscard]] Schedule make_zb_v(const ScheduleRequest& request);
[[nodiscard]] Schedule make_v_half(const ScheduleRequest& request);
[[nodiscard]] Schedule make_v_min(const ScheduleRequest& request);
[[nodiscard]] Schedule make_chimera(const ScheduleRequest& request);
[[nodiscard]] Schedule make_dualpipe(const ScheduleRequest& request);
[[nodiscard]] Schedule make_dualpipe_v(const ScheduleRequest& request);
[[nodiscard]] Schedule make_pipedream(const ScheduleRequest& request);
[[nodiscard]] Schedule make_pipedream_2bw(const ScheduleRequest& request);
[[nodiscard]] Schedule make_paci(const ScheduleRequest& request);
[[nodiscard]] Schedule make_amdp(const ScheduleRequest& request);
[[nodiscard]] Schedule make_octopipe(const ScheduleRequest& request);

}  // namespace hpplan
