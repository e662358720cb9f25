#pragma once

#include <string>
#include <vector>

#include "domain/cluster.hpp"
#include "domain/model.hpp"
#include "io/profile_import.hpp"
#include "profile/profile_table.hpp"

namespace hpplan {

/// The model or cluster named by file, by "-" or by the name of a shipped one. Clusters may refer to the device types
/// of the shipped profiles/devices.yaml.
[[nodiscard]] ModelSpec load_model(const std::string& name_or_path);
[[nodiscard]] ClusterSpec load_cluster(const std::string& name_or_path);

/// The device types of the shipped profiles/devices.yaml.
[[nodiscard]] std::vector<DeviceType> load_device_types();

/// Profiles named by file, by folder or by the name of a shipped one. In a folder every .json and .log file is read;
/// formats of other tools are imported as they are.
[[nodiscard]] std::vector<DeviceProfile> load_profiles(const std::string& name_or_path, const ModelSpec* model);

/// Shipped profiles of the model on the device types of the cluster; types without one are left out.
[[nodiscard]] std::vector<DeviceProfile> load_shipped_profiles(const ModelSpec& model, const ClusterSpec& cluster);

/// Files below `path` for an import: a file with the llm_info.json above it, or all .json and .log files of a folder,
/// by name.
[[nodiscard]] std::vector<ImportFile> read_import_files(const std::string& path);

}  // namespace hpplan
