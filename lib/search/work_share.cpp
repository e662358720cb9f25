#include "search/work_share.hpp"

#include <algorithm>
#include <vector>

namespace hpplan {

void WorkShare::add(std::span<const std::int64_t> parts) {
  std::vector<std::int64_t> loads(static_cast<std::size_t>(std::max(1, threads_)), 0);
  for (const std::int64_t part : parts) {
    *std::min_element(loads.begin(), loads.end()) += part;
    total_ += part;
  }
  busiest_ += *std::max_element(loads.begin(), loads.end());
}

}  // namespace hpplan
