#include "domain/degrees.hpp"

#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <vector>

#include "base/text.hpp"

namespace hpplan {

namespace {

/// Divisors of `number` nearest to `value`: the largest below and the smallest above, without `value` itself.
std::vector<int> nearest_divisors(int number, int value) {
  int below = 0;
  int above = 0;
  for (std::int64_t low = 1; low * low <= number; ++low) {
    if (number % low != 0) continue;
    for (const std::int64_t divisor : {low, number / low}) {
      const int found = static_cast<int>(divisor);
      if (found < value && found > below) below = found;
      if (found > value && (above == 0 || found < above)) above = found;
    }
  }
  std::vector<int> nearest;
  if (below > 0) nearest.push_back(below);
  if (above > 0) nearest.push_back(above);
  return nearest;
}

/// The product of counts of at least 1; 10^15, which no cluster has, where it would be more.
std::int64_t product(std::initializer_list<int> counts) {
  constexpr std::int64_t kMost = 1'000'000'000'000'000;
  std::int64_t result = 1;
  for (const int count : counts) result = result > kMost / count ? kMost : result * count;
  return result;
}

}  // namespace

DegreeFault batch_fault(int global_batch, int micro_batch, int data_parallel) {
  if (micro_batch < 1 || data_parallel < 1) {
    return {concat("micro-batch ", micro_batch, " with data parallelism ", data_parallel), "both are at least 1"};
  }
  const std::int64_t samples = static_cast<std::int64_t>(micro_batch) * data_parallel;
  if (global_batch >= 1 && global_batch % samples == 0) return {};
  const double count = static_cast<double>(global_batch) / static_cast<double>(samples);
  DegreeFault fault;
  fault.message =
      concat("global batch ", global_batch, " / (micro-batch ", micro_batch, " x data parallelism ", data_parallel,
             ") = ", significant(count, 3), " micro-batches, needed a whole number of at least 1");
  if (global_batch < 1) {
    fault.hint = "the global batch is at least 1";
    return fault;
  }
  std::vector<std::string> choices;
  if (global_batch % data_parallel == 0) {
    const int per_replica = global_batch / data_parallel;
    for (const int size : nearest_divisors(per_replica, micro_batch)) {
      choices.push_back(concat("micro-batch ", size, " (", per_replica / size, " micro-batches)"));
    }
  }
  if (global_batch % micro_batch == 0) {
    const int micro_batches = global_batch / micro_batch;
    for (const int degree : nearest_divisors(micro_batches, data_parallel)) {
      choices.push_back(concat("data parallelism ", degree, " (", micro_batches / degree, " micro-batches)"));
    }
  }
  const std::int64_t multiple = (global_batch + samples - 1) / samples * samples;
  choices.push_back(concat("global batch ", multiple));
  fault.hint = "use " + join(choices, ", or ");
  return fault;
}

DegreeFault expert_parallel_fault(int experts, int region, int expert_parallel) {
  if (experts == 0) {
    if (expert_parallel == 1) return {};
    return {concat("expert parallelism ", expert_parallel, " of a model without experts"), "use 1"};
  }
  const int common = std::gcd(experts, region);
  if (expert_parallel >= 1 && common % expert_parallel == 0) return {};
  std::vector<std::string> allowed;
  for (int degree = 1; degree <= common; ++degree) {
    if (common % degree == 0) allowed.push_back(std::to_string(degree));
  }
  return {concat("expert parallelism ", expert_parallel, " does not divide ", experts, " experts and a region of ",
                 region, " devices"),
          concat("use one of ", join(allowed, ", "))};
}

DegreeFault device_fault(int pipelines, int stages, int tensor_parallel, int data_parallel, int devices) {
  const std::int64_t needed = product({pipelines, stages, tensor_parallel, data_parallel});
  if (needed <= devices) return {};
  std::string factors = concat(stages, " stages x TP ", tensor_parallel);
  if (data_parallel > 1) factors += concat(" x DP ", data_parallel);
  if (pipelines > 1) factors = concat(pipelines, " pipelines x ", factors);
  return {concat(factors, " needs ", needed, " devices, have ", devices), "lower one of the degrees"};
}

DegreeFault expert_device_fault(int stages, int expert_parallel, int expert_tensor_parallel, int devices) {
  const std::int64_t needed = product({stages, expert_parallel, expert_tensor_parallel});
  if (needed <= devices) return {};
  const int largest = devices / (stages * expert_tensor_parallel);
  return {concat("expert product ", stages, " stages x EP ", expert_parallel, " x expert TP ", expert_tensor_parallel,
                 " needs ", needed, " devices, have ", devices),
          largest >= 1 ? concat("the largest expert parallelism is ", largest) : "use fewer stages"};
}

}  // namespace hpplan
