#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/realise.hpp"

namespace hpplan {

/// Plans around one, and what it cost to look for them.
struct Orders {
  std::vector<Realised> plans;  // the fastest first
  int tries = 0;                // plans priced
  std::int64_t work = 0;        // see trial_work()
  bool stopped = false;         // by the tables' check_stop(), with the plans until then
};

/// The plan with the stages of one of its pipelines, and of all that are equal to it, in other orders, their layers cut
/// anew: every order where there are few, else two stages exchanged. Orders of nearly equal time differ in what lies
/// beside what, and so in what improve_places() can make of them.
///   limit       seconds: slower plans are left out
///   most        plans that are returned
///   most_work   see trial_work()
[[nodiscard]] Orders other_orders(SearchTables& tables, const Realised& plan, double limit, std::size_t most,
                                  std::int64_t most_work);

}  // namespace hpplan
