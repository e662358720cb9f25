#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hpplan {

/// Throws InputError unless write_folder(path) can be expected to work: the folder must not exist, or be empty.
void check_folder(const std::string& path);

/// Writes files (path below the folder, text) to a new folder. The folder appears whole or not at all: it is filled
/// under another name beside its place, then renamed. Scripts (*.sh) are made executable.
void write_folder(const std::string& path, const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace hpplan
