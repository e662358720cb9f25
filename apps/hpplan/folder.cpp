#include "folder.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <unistd.h>

#include "app.hpp"
#include "base/text.hpp"

namespace hpplan {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse_folder(const std::string& path, const std::string& message, const std::string& hint) {
  throw InputError(Diagnostic{path, 0, 0, "--out", message, hint});
}

/// Removes what was begun, unless it got its name.
class Unfinished {
 public:
  explicit Unfinished(fs::path path) : path_(std::move(path)) {}
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }
  void keep() { path_.clear(); }

 private:
  fs::path path_;
};

fs::path without_slash(const std::string& path) {
  fs::path plain = fs::path(path).lexically_normal();
  return plain.has_filename() ? plain : plain.parent_path();
}

}  // namespace

void check_folder(const std::string& path) {
  if (path == "-") refuse_folder(path, "is standard output, but there are several files to write", "give a folder");
  std::error_code error;
  const fs::path place = without_slash(path);
  if (fs::exists(place, error)) {
    if (!fs::is_directory(place, error)) refuse_folder(path, "is a file, not a folder", "give another --out");
    if (!fs::is_empty(place, error)) refuse_folder(path, "exists and is not empty", "remove it, or give another --out");
  }
  const fs::path parent = fs::absolute(place, error).parent_path();
  if (!fs::is_directory(parent, error))
    refuse_folder(path, concat("folder ", parent.string(), " does not exist"), "create it");
  if (::access(parent.c_str(), W_OK) != 0) refuse_folder(path, concat("cannot be written: ", std::strerror(errno)), "");
}

void write_folder(const std::string& path, const std::vector<std::pair<std::string, std::string>>& files) {
  check_folder(path);
  const fs::path place = fs::absolute(without_slash(path));
  std::string pattern = place.string() + ".part-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr)
    refuse_folder(path, concat("cannot be written: ", std::strerror(errno)), "");
  Unfinished folder(pattern);
  std::error_code error;
  for (const auto& [name, text] : files) {
    const fs::path file = folder.path() / name;
    fs::create_directories(file.parent_path(), error);
    if (error) refuse_folder(path, concat("cannot be written: ", error.message()), "");
    write_output(file.string(), text);
    if (file.extension() == ".sh")
      fs::permissions(file, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec,
                      fs::perm_options::add, error);
  }
  constexpr auto kReadable = fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec |
                             fs::perms::others_read | fs::perms::others_exec;
  fs::permissions(folder.path(), kReadable, error);
  // rename replaces an empty folder, and nothing else.
  if (::rename(folder.path().c_str(), place.c_str()) != 0)
    refuse_folder(path, concat("cannot be written: ", std::strerror(errno)), "");
  folder.keep();
}

}  // namespace hpplan
