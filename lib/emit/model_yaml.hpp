#pragma once

#include <string>
#include <vector>

#include "domain/cluster.hpp"
#include "domain/model.hpp"

namespace hpplan {

/// A model file that reads back as `model`. Every field is written, whatever its default; `notes` become comments.
[[nodiscard]] std::string model_yaml(const ModelSpec& model, const std::vector<std::string>& notes);

/// A cluster file that reads back as `cluster`. `known_types` are named, others described.
[[nodiscard]] std::string cluster_yaml(const ClusterSpec& cluster, const std::vector<std::string>& known_types,
                                       const std::vector<std::string>& notes);

}  // namespace hpplan
