#include "sweep/runner.hpp"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diagnostic.hpp"
#include "base/for_each_index.hpp"
#include "base/text.hpp"
#include "io/digest.hpp"
#include "io/sweep_reader.hpp"

namespace hpplan {

namespace {

[[noreturn]] void refuse(const std::string& file, const std::string& message, const std::string& hint) {
  throw InputError(Diagnostic{file, 0, 0, "", message, hint});
}

/// The results file: locked for as long as it is open, whole lines only. Standard output ("-") holds no earlier lines.
class ResultsFile {
 public:
  explicit ResultsFile(const std::string& path) : path_(path == "-" ? "<stdout>" : path), is_file_(path != "-") {
    if (!is_file_) {
      descriptor_ = ::dup(STDOUT_FILENO);
      if (descriptor_ < 0) refuse(path_, concat("cannot be written: ", std::strerror(errno)), "");
      return;
    }
    do {
      if (descriptor_ >= 0) ::close(descriptor_);
      open();
    } while (is_file_ && !has_name());  // another run may have replaced the file before it was locked
  }
  ResultsFile(const ResultsFile&) = delete;
  ResultsFile& operator=(const ResultsFile&) = delete;
  ~ResultsFile() {
    ::close(descriptor_);
    if (replaced_ >= 0) ::close(replaced_);
  }

  /// Replaces all lines, at once: whoever looks sees the old ones or the new ones. The new file is locked before it
  /// gets the name, and the old one stays locked, so that no other run slips in between. Where that fails, the old
  /// lines are still there.
  void replace(const std::string& text) {
    std::error_code error;
    const std::filesystem::path place = std::filesystem::canonical(path_, error);  // the file behind a link
    if (error) refuse(path_, concat("cannot be written: ", error.message()), "");
    const std::string beside = place.string() + ".retry";
    struct stat status = {};
    const mode_t mode = ::fstat(descriptor_, &status) == 0 ? status.st_mode & 07777 : 0644;
    const int descriptor = ::open(beside.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (descriptor < 0) fail();
    if (replaced_ >= 0) ::close(replaced_);
    replaced_ = std::exchange(descriptor_, descriptor);
    length_ = 0;
    try {
      if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 || ::fchmod(descriptor_, mode) != 0) fail();
      append(text);
      if (::rename(beside.c_str(), place.c_str()) != 0) fail();
    } catch (const InputError&) {
      ::unlink(beside.c_str());
      throw;
    }
  }

  /// Whether lines can be read and put into another order later.
  [[nodiscard]] bool keeps_lines() const { return is_file_; }

  /// Lines of earlier runs. Cuts off a torn last line, so that the next one starts where it should.
  [[nodiscard]] std::vector<SweepLine> read_whole_lines() {
    if (!is_file_) return {};
    std::string text;
    std::vector<char> buffer(1 << 16);
    while (true) {
      const ssize_t count = ::pread(descriptor_, buffer.data(), buffer.size(), static_cast<off_t>(text.size()));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) refuse(path_, concat("cannot be read: ", std::strerror(errno)), "");
      if (count == 0) break;
      text.append(buffer.data(), static_cast<std::size_t>(count));
    }
    std::vector<SweepLine> lines = parse_sweep_results(text, path_);
    const std::size_t end = text.find_last_of('\n');
    length_ = end == std::string::npos ? 0 : end + 1;
    if (length_ != text.size() && ::ftruncate(descriptor_, static_cast<off_t>(length_)) != 0) fail();
    return lines;
  }

  /// Whole lines with their line ends; returns when they are on the disk.
  void append(const std::string& text) {
    std::size_t written = 0;
    while (written < text.size()) {
      const char* const rest = text.data() + written;
      const ssize_t count =
          is_file_ ? ::pwrite(descriptor_, rest, text.size() - written, static_cast<off_t>(length_ + written))
                   : ::write(descriptor_, rest, text.size() - written);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail();
      written += static_cast<std::size_t>(count);
    }
    length_ += text.size();
    // Pipes and some file systems cannot flush; then the line is as safe as it can be.
    if (::fdatasync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) fail();
  }

 private:
  void open() {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) refuse(path_, concat("cannot be written: ", std::strerror(errno)), "");
    struct stat status = {};
    is_file_ = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
    if (!is_file_) return;  // a device or a pipe: it holds no earlier lines, and reading it may never end
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      ::close(descriptor_);
      refuse(path_, "another run is writing this file", "wait for it, or give another --out");
    }
  }

  [[nodiscard]] bool has_name() const {
    struct stat here = {};
    struct stat there = {};
    return ::fstat(descriptor_, &here) == 0 && ::stat(path_.c_str(), &there) == 0 && here.st_ino == there.st_ino &&
           here.st_dev == there.st_dev;
  }

  [[noreturn]] void fail() {
    refuse(path_, concat("cannot be written: ", std::strerror(errno)), "free some space, then run the sweep again");
  }

  std::string path_;
  bool is_file_ = true;
  int descriptor_ = -1;
  int replaced_ = -1;  // the file that had the name before
  std::size_t length_ = 0;
};

/// Points with the same problem, in order of their first.
struct Problems {
  std::vector<std::vector<int>> points;   // by problem
  std::vector<std::string> fingerprints;  // by point; "" for broken inputs
};

/// A point whose inputs cannot be read is a problem of its own: planning it says what is wrong.
Problems group_points(const std::vector<SweepPoint>& points, const SweepRunOptions& options) {
  Problems problems;
  std::map<std::string, std::size_t> index;
  for (const SweepPoint& point : points) {
    std::string key;
    try {
      key = options.key(point);
      problems.fingerprints.push_back(fingerprint(key));
    } catch (const InputError&) {
      key = concat("broken ", point.index);
      problems.fingerprints.emplace_back();
    }
    const auto [found, is_new] = index.emplace(key, problems.points.size());
    if (is_new) problems.points.emplace_back();
    problems.points[found->second].push_back(point.index);
  }
  return problems;
}

std::string described(const std::vector<std::pair<std::string, std::string>>& settings) {
  std::vector<std::string> words;
  for (const auto& [key, value] : settings) words.push_back(concat(key, "=", value));
  return join(words, " ");
}

/// Outcomes of earlier runs by point; refuses lines that belong to another sweep.
std::map<int, SweepOutcome> known_outcomes(const std::vector<SweepLine>& lines, const std::vector<SweepPoint>& points,
                                           const Problems& problems, const std::string& file) {
  std::map<int, SweepOutcome> known;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const SweepLine& line = lines[i];
    const bool exists = line.index >= 0 && static_cast<std::size_t>(line.index) < points.size();
    if (!exists || points[static_cast<std::size_t>(line.index)].settings != line.settings) {
      throw InputError(
          Diagnostic{file, static_cast<int>(i) + 1, 1, "",
                     concat("point ", line.index, " (", described(line.settings), ") is not one of this sweep"),
                     "give another --out, or the specification that this file belongs to"});
    }
    if (problems.fingerprints[static_cast<std::size_t>(line.index)] != line.problem) {
      throw InputError(
          Diagnostic{file, static_cast<int>(i) + 1, 1, "",
                     concat("point ", line.index, " (", described(line.settings), ") was planned from other inputs"),
                     line.outcome.status == SweepStatus::Broken
                         ? "it was broken; --retry-broken plans it again"
                         : "give another --out, or remove the lines of inputs that changed"});
    }
    if (!known.emplace(line.index, line.outcome).second) {
      throw InputError(Diagnostic{file, static_cast<int>(i) + 1, 1, "", concat("point ", line.index, " has two lines"),
                                  "remove one of them"});
    }
  }
  return known;
}

SweepOutcome plan_point(const SweepPoint& point, const SweepRunOptions& options) {
  try {
    return options.plan(point);
  } catch (const InputError& error) {
    SweepOutcome broken;
    broken.status = SweepStatus::Broken;
    broken.reason = to_text(error.diagnostics().front());
    return broken;
  }
}

void count(SweepSummary& summary, const SweepOutcome& outcome) {
  switch (outcome.status) {
    case SweepStatus::Planned: ++summary.planned; break;
    case SweepStatus::Infeasible: ++summary.infeasible; break;
    case SweepStatus::Broken: ++summary.broken; break;
  }
}

/// Writes the lines of finished problems from a thread of its own. A flush to the disk takes milliseconds: lines that
/// arrive meanwhile share the next one, and planning never waits for it. To a file they go as they come, as what is
/// written is safe; elsewhere each waits for those of the points before it.
class LineWriter {
 public:
  ///   points   whose lines are to be written, ascending
  LineWriter(ResultsFile& file, const SweepRunOptions& options, std::vector<int> points)
      : file_(file), options_(options), points_(std::move(points)), thread_([this] { run(); }) {}
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;
  ~LineWriter() { close(); }

  void write(const std::vector<SweepLine>& lines) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const SweepLine& line : lines) {
      if (file_.keeps_lines()) {
        release(sweep_line_text(line));
      } else {
        held_[line.index] = sweep_line_text(line);
      }
    }
    for (auto held = held_.begin(); held != held_.end() && held->first == points_[released_]; held = held_.erase(held))
      release(held->second);
    wake_.notify_one();
  }

  /// True once a line could not be written: there is no use in planning on.
  [[nodiscard]] bool failed() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return failure_ != nullptr;
  }

  /// Returns when every line is on the disk; throws what the writing threw.
  void finish() {
    close();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void release(const std::string& line) {
    waiting_ += line + "\n";
    ++waiting_count_;
    ++released_;
  }

  void close() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      closed_ = true;
      wake_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

  void run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return closed_ || waiting_count_ > 0; });
      if (waiting_count_ == 0) return;
      const std::string text = std::exchange(waiting_, "");
      done_ += std::exchange(waiting_count_, 0);
      lock.unlock();
      std::exception_ptr failure;
      try {
        file_.append(text);
        if (options_.progress) options_.progress(done_, points_.size());
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      if (!failure) continue;
      failure_ = failure;
      return;
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<int, std::string> held_;  // lines by point, for those before them
  std::string waiting_;
  std::size_t waiting_count_ = 0;
  std::size_t released_ = 0;  // lines so far
  bool closed_ = false;
  std::exception_ptr failure_;

  ResultsFile& file_;
  const SweepRunOptions& options_;
  std::vector<int> points_;
  std::size_t done_ = 0;
  std::thread thread_;  // last: it uses everything above
};

/// Brings all lines into the order of their points, in one step. Where the file cannot be replaced, they stay as they
/// are: they are all there.
void sort_lines(ResultsFile& file) {
  const auto before = [](const SweepLine& a, const SweepLine& b) { return a.index < b.index; };
  std::vector<SweepLine> lines = file.read_whole_lines();
  if (std::is_sorted(lines.begin(), lines.end(), before)) return;
  std::sort(lines.begin(), lines.end(), before);
  std::string text;
  for (const SweepLine& line : lines) text += sweep_line_text(line) + "\n";
  try {
    file.replace(text);
  } catch (const InputError&) {
    return;
  }
}

/// What is left to do of one problem: points without a line, and an outcome if one of its points has a line.
struct OpenProblem {
  std::vector<int> points;
  const SweepOutcome* known = nullptr;
};

}  // namespace

SweepSummary run_sweep(const std::vector<SweepPoint>& points, const SweepRunOptions& options) {
  ResultsFile file(options.results);
  const Problems problems = group_points(points, options);
  SweepSummary summary;
  std::vector<SweepLine> earlier = file.read_whole_lines();
  if (options.retry_broken) {
    summary.retried =
        std::erase_if(earlier, [](const SweepLine& line) { return line.outcome.status == SweepStatus::Broken; });
  }
  const std::map<int, SweepOutcome> known = known_outcomes(earlier, points, problems, options.results);
  if (summary.retried > 0) {
    std::string text;
    for (const SweepLine& line : earlier) text += sweep_line_text(line) + "\n";
    file.replace(text);
  }

  for (const auto& entry : known) count(summary, entry.second);
  summary.kept = known.size();
  std::vector<OpenProblem> open;
  std::vector<int> missing;
  for (std::size_t i = 0; i < problems.points.size(); ++i) {
    if (static_cast<int>(i % static_cast<std::size_t>(options.shard.count)) != options.shard.number - 1) continue;
    OpenProblem problem;
    for (const int index : problems.points[i]) {
      ++summary.points;
      const auto found = known.find(index);
      if (found == known.end()) {
        problem.points.push_back(index);
        missing.push_back(index);
      } else {
        problem.known = &found->second;
      }
    }
    if (problem.points.empty()) continue;
    summary.computed += problem.known == nullptr ? 1 : 0;
    open.push_back(std::move(problem));
  }

  std::sort(missing.begin(), missing.end());
  LineWriter writer(file, options, missing);
  std::vector<SweepOutcome> outcomes(open.size());
  for_each_index(open.size(), options.threads, [&](std::size_t i) {
    if (writer.failed()) return;
    const OpenProblem& problem = open[i];
    const SweepPoint& first = points[static_cast<std::size_t>(problem.points.front())];
    outcomes[i] = problem.known != nullptr ? *problem.known : plan_point(first, options);
    std::vector<SweepLine> lines;
    for (const int index : problem.points) {
      const auto at = static_cast<std::size_t>(index);
      lines.push_back({index, problems.fingerprints[at], points[at].settings, outcomes[i]});
    }
    writer.write(lines);
  });
  writer.finish();
  sort_lines(file);
  for (std::size_t i = 0; i < open.size(); ++i) {
    for (std::size_t k = 0; k < open[i].points.size(); ++k) count(summary, outcomes[i]);
  }
  return summary;
}

}  // namespace hpplan
