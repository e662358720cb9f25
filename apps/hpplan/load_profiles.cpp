#include <algorithm>
#include <filesystem>
#include <utility>

#include "app.hpp"
#include "base/text.hpp"
#include "io/profile_reader.hpp"
#include "load.hpp"

namespace hpplan {

namespace fs = std::filesystem;

namespace {

/// All .json files and .log files below `folder`, sorted, so that the order of the file system changes nothing.
std::vector<std::string> profile_files(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    const bool fits = entry.path().extension() == ".json" || entry.path().extension() == ".log";
    if (entry.is_regular_file(error) && fits && entry.path().filename() != "profile.schema.json") {
      paths.push_back(entry.path().string());
    }
  }
  if (error) throw InputError(Diagnostic{folder, 0, 0, "", concat("cannot be read: ", error.message()), ""});
  if (paths.empty()) throw InputError(Diagnostic{folder, 0, 0, "", "no .json or .log file in the folder", ""});
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string info_above(const std::string& path) {
  fs::path folder = fs::absolute(path).parent_path();
  for (int level = 0; level < 4 && !folder.empty(); ++level, folder = folder.parent_path()) {
    const fs::path candidate = folder / "llm_info.json";
    std::error_code error;
    if (fs::is_regular_file(candidate, error) && !fs::equivalent(candidate, path, error)) return candidate.string();
  }
  return "";
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

ImportFile import_file(const std::string& path) {
  InputText input = read_input(path);
  return {std::move(input.name), std::move(input.text)};
}

}  // namespace

std::vector<ImportFile> read_import_files(const std::string& path) {
  std::vector<ImportFile> files;
  if (is_folder(path)) {
    for (const std::string& each : profile_files(path)) files.push_back(import_file(each));
  } else {
    files.push_back(import_file(path));
  }
  const std::string info = info_above(is_folder(path) ? (fs::path(path) / "x").string() : path);
  const bool inside = std::any_of(files.begin(), files.end(), [&](const ImportFile& file) {
    std::error_code error;
    return !info.empty() && fs::equivalent(file.path, info, error);
  });
  if (!info.empty() && !inside) files.push_back(import_file(info));
  return files;
}

std::vector<DeviceProfile> load_profiles(const std::string& name_or_path, const ModelSpec* model) {
  std::vector<DeviceProfile> profiles;
  std::vector<ImportFile> foreign;
  for (ImportFile& file : read_import_files(find_profile(name_or_path))) {
    if (is_native_profile(file.text)) {
      profiles.push_back(parse_profile(std::move(file.text), file.path));
    } else {
      foreign.push_back(std::move(file));
    }
  }
  const auto is_info = [](const ImportFile& file) { return fs::path(file.path).filename() == "llm_info.json"; };
  if (!std::all_of(foreign.begin(), foreign.end(), is_info)) {
    for (DeviceProfile& profile : import_profiles(foreign, {"", model})) profiles.push_back(std::move(profile));
  }
  return profiles;
}

std::vector<DeviceProfile> load_shipped_profiles(const ModelSpec& model, const ClusterSpec& cluster) {
  std::vector<DeviceProfile> profiles;
  for (const DeviceType& type : cluster.device_types) {
    const std::string path = shipped_path(concat("profiles/", model.name, ".", type.name, ".json"));
    if (path.empty()) continue;
    InputText input = read_input(path);
    profiles.push_back(parse_profile(std::move(input.text), input.name));
  }
  return profiles;
}

}  // namespace hpplan
