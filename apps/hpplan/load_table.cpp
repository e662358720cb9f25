#include "load_table.hpp"

#include <utility>

#include "load.hpp"

namespace hpplan {

ProfileTable load_profile_table(const std::vector<std::string>& names, const ModelSpec& model,
                                const ClusterSpec& cluster) {
  if (names.empty()) return ProfileTable(load_shipped_profiles(model, cluster));
  std::vector<DeviceProfile> profiles;
  for (const std::string& name : names) {
    for (DeviceProfile& profile : load_profiles(name, &model)) profiles.push_back(std::move(profile));
  }
  return ProfileTable(std::move(profiles));
}

}  // namespace hpplan
