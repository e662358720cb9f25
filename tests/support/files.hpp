#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace hpplan::test {

inline std::string source_path(const std::string& relative) { return HPPLAN_SOURCE_DIR "/" + relative; }

inline std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Files with `suffix` in a folder of the source tree, sorted.
inline std::vector<std::string> files_in(const std::string& relative_folder, const std::string& suffix) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(source_path(relative_folder))) {
    if (entry.path().extension() == suffix) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace hpplan::test
