#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <limits>
#include <mutex>

#ifdef HPPLAN_USE_JTHREAD
#include <thread>
#include <vector>
#else
#include <omp.h>
#endif

namespace hpplan {

namespace detail {

/// Keeps the exception of the smallest index, so that a parallel loop fails as the serial one would.
class FirstFailure {
 public:
  void record(std::size_t index) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (index < index_) {
      index_ = index;
      exception_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  std::mutex mutex_;
  std::size_t index_ = std::numeric_limits<std::size_t>::max();
  std::exception_ptr exception_;
};

}  // namespace detail

/// Number of threads to use when the user named none: one per core.
[[nodiscard]] inline int default_thread_count() {
#ifdef HPPLAN_USE_JTHREAD
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
#else
  return std::max(1, omp_get_num_procs());
#endif
}

/// Calls body(i) for every i in [0, count) on up to `threads` threads; returns when all have ended.
/// body writes only what belongs to index i. If calls throw, the exception of the smallest i is rethrown.
/// An exception that leaves a parallel region would end the process, and thread sanitizer reports false
/// races with GNU OpenMP: hence one function, with a std::jthread backend for the tsan preset.
template <typename Body>
void for_each_index(std::size_t count, int threads, const Body& body) {
  detail::FirstFailure failure;
  const auto guarded = [&](std::size_t index) {
    try {
      body(index);
    } catch (...) {
      failure.record(index);
    }
  };
  const int workers = static_cast<int>(std::min<std::size_t>(count, static_cast<std::size_t>(std::max(1, threads))));
  if (workers <= 1) {
    for (std::size_t i = 0; i < count; ++i) guarded(i);
  } else {
#ifdef HPPLAN_USE_JTHREAD
    std::atomic<std::size_t> next{0};
    std::vector<std::jthread> pool;
    for (int w = 0; w < workers; ++w) {
      pool.emplace_back([&] {
        for (std::size_t i = next++; i < count; i = next++) guarded(i);
      });
    }
    pool.clear();
#else
#pragma omp parallel for schedule(dynamic, 1) num_threads(workers)
    for (std::size_t i = 0; i < count; ++i) guarded(i);
#endif
  }
  failure.rethrow();
}

}  // namespace hpplan
