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

ClusterSpec load_cluster(const std::string& name_or_path) {
  std::vector<DeviceType> known_types;
  if (const std::string path = shipped_path("profiles/devices.yaml"); !path.empty()) {
    InputText devices = read_input(path);
    known_types = parse_device_types(std::move(devices.text), std::move(devices.name));
  }
  InputText input = read_input(find_cluster(name_or_path));
  return parse_cluster(std::move(input.text), std::move(input.name), known_types);
}

}  // namespace hpplan
