#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app.hpp"
#include "base/text.hpp"

namespace hpplan {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxInputBytes = std::size_t{128} << 20;

[[noreturn]] void refuse(const std::string& file, const std::string& message, const std::string& hint = "") {
  throw InputError(Diagnostic{file, 0, 0, "", message, hint});
}

/// A file descriptor that is closed when it leaves its scope.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  [[nodiscard]] int value() const { return value_; }

 private:
  int value_ = -1;
};

std::string read_all(int descriptor, const std::string& name) {
  std::string text;
  std::vector<char> buffer(std::size_t{1} << 16);
  while (true) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse(name, concat("cannot be read: ", std::strerror(errno)));
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (text.size() > kMaxInputBytes) refuse(name, "more than 128 MiB of input");
  }
}

/// False with errno set on failure.
bool write_all(int descriptor, const std::string& text) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = ::write(descriptor, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    written += static_cast<std::size_t>(count);
  }
  return true;
}

void write_directly(const std::string& path, const std::string& text) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.value() < 0 || !write_all(file.value(), text)) {
    refuse(path, concat("cannot be written: ", std::strerror(errno)));
  }
}

/// Permission bits of a new file: what the umask of the user leaves.
mode_t new_file_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return static_cast<mode_t>(0666) & ~mask;
}

void write_beside_and_rename(const fs::path& target, const std::string& text) {
  std::string temporary = concat(target.string(), ".XXXXXX");
  const Descriptor file(::mkstemp(temporary.data()));
  if (file.value() < 0) refuse(target.string(), concat("cannot be written: ", std::strerror(errno)));
  struct stat old {};
  const mode_t mode = ::stat(target.c_str(), &old) == 0 ? old.st_mode & 07777U : new_file_mode();
  const bool ok = write_all(file.value(), text) && ::fchmod(file.value(), mode) == 0 && ::fsync(file.value()) == 0 &&
                  ::rename(temporary.c_str(), target.c_str()) == 0;
  if (!ok) {
    const int error = errno;
    ::unlink(temporary.c_str());
    refuse(target.string(), concat("cannot be written: ", std::strerror(error)));
  }
}

fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

/// The file that a chain of symbolic links ends at, which need not exist yet: the links stay, the file is replaced.
fs::path link_target(const std::string& path) {
  fs::path target = path;
  constexpr int kMaxLinks = 40;  // as the kernel; the rest of a ring fails to open
  for (int i = 0; i < kMaxLinks; ++i) {
    std::error_code error;
    const fs::path next = fs::read_symlink(target, error);
    if (error) break;
    target = next.is_absolute() ? next : folder_of(target) / next;
  }
  return target;
}

bool is_device_or_pipe(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path program_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : program.parent_path();
}

/// Kinds of shipped files: where they lie and what they are called.
struct ShippedKind {
  const char* what;    // "model"
  const char* folder;  // "configs/models"
};

bool is_regular(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

/// Path of the shipped file or folder called `name`, or "".
std::string shipped_file(const ShippedKind& kind, const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos || name.front() == '.') return "";
  for (const std::string& folder : data_folders()) {
    const fs::path base = fs::path(folder) / kind.folder / name;
    for (const char* const suffix : {"", ".yaml", ".yml", ".json"}) {
      const fs::path path = base.string() + suffix;
      if (is_regular(path) || is_folder(path)) return path.string();
    }
  }
  return "";
}

std::string find_shipped(const ShippedKind& kind, const std::string& name_or_path, bool folder_allowed) {
  if (name_or_path == "-") return name_or_path;
  std::error_code error;
  const fs::file_status status = fs::status(name_or_path, error);
  // A file of the user wins over a shipped name; a folder that happens to have the name does not.
  if (fs::exists(status) && !fs::is_directory(status)) return name_or_path;
  if (std::string shipped = shipped_file(kind, name_or_path); !shipped.empty()) return shipped;
  if (fs::is_directory(status)) {
    if (folder_allowed) return name_or_path;
    refuse(name_or_path, concat("is a folder, needed a ", kind.what, " file"));
  }
  const std::vector<std::string> names = shipped_names(kind.folder);
  const std::string nearest = nearest_name(name_or_path, names);
  std::string hint = concat("shipped: ", join(names, ", "));
  if (names.empty()) hint = "no shipped files found; $HPPLAN_DATA may name their folder";
  if (!nearest.empty()) hint = concat("did you mean \"", nearest, "\"?");
  refuse(name_or_path, concat("neither a file nor the name of a shipped ", kind.what), hint);
}

}  // namespace

InputText read_input(const std::string& path) {
  if (path == "-") return {"<stdin>", read_all(STDIN_FILENO, "<stdin>")};
  if (path.empty()) refuse("", "the name of a file is empty");
  if (is_folder(path)) refuse(path, "is a folder, needed a file");
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.value() < 0) refuse(path, concat("cannot be opened: ", std::strerror(errno)));
  return {path, read_all(file.value(), path)};
}

void write_output(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text << std::flush;
    if (!std::cout) refuse("<stdout>", "cannot be written");
    return;
  }
  check_output(path);
  if (is_device_or_pipe(path)) {
    write_directly(path, text);
  } else {
    write_beside_and_rename(link_target(path), text);
  }
}

void check_output(const std::string& path) {
  if (path == "-") return;
  if (path.empty()) refuse("", "the name of the output file is empty");
  if (is_folder(path)) refuse(path, "is a folder, needed a file to write to");
  if (is_device_or_pipe(path)) {
    if (::access(path.c_str(), W_OK) != 0) refuse(path, concat("cannot be written: ", std::strerror(errno)));
    return;
  }
  const fs::path folder = folder_of(link_target(path));
  if (!is_folder(folder)) refuse(path, concat("there is no folder ", folder.string()));
  if (::access(folder.c_str(), W_OK) != 0) {
    refuse(path, concat("files cannot be created in ", folder.string(), ": ", std::strerror(errno)));
  }
}

std::vector<std::string> data_folders() {
  const std::string chosen = environment("HPPLAN_DATA");
  if (!chosen.empty()) return {chosen};
  const fs::path program = program_folder();
  std::error_code error;
  if (!program.empty() && fs::equivalent(program, HPPLAN_BUILD_DIR, error)) return {HPPLAN_SOURCE_DIR};
  std::vector<std::string> folders;
  // Beside the program first: an installed tree may have been moved.
  if (!program.empty()) folders.push_back((program / HPPLAN_DATA_BESIDE).lexically_normal().string());
  folders.emplace_back(HPPLAN_INSTALL_DATADIR);
  return folders;
}

std::string shipped_path(const std::string& relative_path) {
  for (const std::string& folder : data_folders()) {
    const fs::path path = fs::path(folder) / relative_path;
    if (is_regular(path) || is_folder(path)) return path.string();
  }
  return "";
}

std::vector<std::string> shipped_names(const std::string& folder) {
  std::vector<std::string> names;
  for (const std::string& data : data_folders()) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(fs::path(data) / folder, error)) {
      const std::string suffix = entry.path().extension().string();
      const bool is_config = suffix == ".yaml" || suffix == ".yml" || suffix == ".json";
      if (is_config) names.push_back(entry.path().stem().string());
      if (entry.is_directory(error)) names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string find_model(const std::string& name_or_path) {
  return find_shipped({"model", "configs/models"}, name_or_path, false);
}

std::string find_cluster(const std::string& name_or_path) {
  return find_shipped({"cluster", "configs/clusters"}, name_or_path, false);
}

std::string find_profile(const std::string& name_or_path) {
  return find_shipped({"profile", "profiles"}, name_or_path, true);
}

}  // namespace hpplan
