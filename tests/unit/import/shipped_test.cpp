#include <filesystem>
#include <fstream>
#include <sstream>

#include "emit/model_yaml.hpp"
#include "io/cluster_reader.hpp"
#include "io/model_reader.hpp"
#include "support/catch.hpp"

namespace hpplan {
namespace {

std::string content(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST_CASE("every shipped model and cluster reads back from its written form", "[import]") {
  const std::filesystem::path source = HPPLAN_SOURCE_DIR;
  const auto known = parse_device_types(content(source / "profiles/devices.yaml"), "devices.yaml");
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source / "configs/models")) {
    CAPTURE(entry.path().string());
    const ModelSpec model = parse_model(content(entry.path()), "model.yaml");
    CHECK(parse_model(model_yaml(model, {}), "again.yaml").digest == model.digest);
    ++count;
  }
  for (const auto& entry : std::filesystem::directory_iterator(source / "configs/clusters")) {
    CAPTURE(entry.path().string());
    const ClusterSpec cluster = parse_cluster(content(entry.path()), "cluster.yaml", known);
    CHECK(parse_cluster(cluster_yaml(cluster, {}, {}), "again.yaml").digest == cluster.digest);
    ++count;
  }
  CHECK(count > 20);
}

}  // namespace
}  // namespace hpplan
