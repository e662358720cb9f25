#pragma once

#include <functional>
#include <string>
#include <vector>

#include "domain/sweep.hpp"

namespace hpplan {

/// Part `number` of `count` of a sweep, from 1.
struct SweepShard {
  int number = 1;
  int count = 1;
};

struct SweepRunOptions {
  std::string results;  // file that lines are appended to; "-": standard output
  SweepShard shard;
  int threads = 1;
  /// Key of the problem behind a point: equal keys are planned once. It may throw InputError for a broken input.
  std::function<std::string(const SweepPoint&)> key;
  /// Plans one point. Called from several threads. InputError makes the point a broken one.
  std::function<SweepOutcome(const SweepPoint&)> plan;
  /// Called after lines were written, with lines written and lines to write, from one thread at a time. May be empty.
  std::function<void(std::size_t done, std::size_t total)> progress;
  bool retry_broken = false;  // lines of broken points are taken out first, so that they are planned again
};

struct SweepSummary {
  std::size_t points = 0;    // of this shard
  std::size_t kept = 0;      // lines that an earlier run had written
  std::size_t retried = 0;   // lines of broken points that were taken out
  std::size_t computed = 0;  // problems planned now
  std::size_t planned = 0;   // lines of the whole file by status
  std::size_t infeasible = 0;
  std::size_t broken = 0;
};

/// Runs what is left of a sweep. A problem counts as done when its lines are appended whole and flushed to the disk, so
/// that a run that is killed at any moment loses nothing but problems in work, and one started again writes no line
/// twice: a torn last line is cut off, and finished points are skipped. Lines that are taken out go in one step. While
/// it runs, lines lie in the order of completion; in the end they are brought into the order of points in one step, as
/// long as the file can be replaced, so that it does not depend on threads or interruptions. To a pipe they go in that
/// order at once. Equal problems go to the same shard. Errors: a file with lines of another sweep; a file that another
/// run is writing.
[[nodiscard]] SweepSummary run_sweep(const std::vector<SweepPoint>& points, const SweepRunOptions& options);

}  // namespace hpplan
