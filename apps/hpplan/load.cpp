#include "load.hpp"

#include <utility>

#include "app.hpp"
#include "io/cluster_reader.hpp"
#include "io/model_reader.hpp"

namespace hpplan {

ModelSpec load_model(const std::string& name_or_path) {
  InputText input = read_input(find_model(name_or_path));
  return parse_model(std::move(input.text), std::move(input.name));
}

std::vector<DeviceType> load_device_types() {
  const std::string path = shipped_path("profiles/devices.yaml");
  if (path.empty()) return {};
  InputText devices = read_input(path);
  return parse_device_types(std::move(devices.text), std::move(devices.name));
}

ClusterSpec load_cluster(const std::string& name_or_path) {
  const std::vector<DeviceType> known_types = load_device_types();
  InputText input = read_input(find_cluster(name_or_path));
  return parse_cluster(std::move(input.text), std::move(input.name), known_types);
}

}  // namespace hpplan
