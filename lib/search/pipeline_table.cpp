#include "search/pipeline_table.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"

namespace hpplan {

OptionTable::OptionTable(const StageTable& stages, int ports, int range_count,
                         const std::vector<std::vector<double>>& tails, double limit)
    : ranges_(range_count), depth_(stages.max_in_flight()) {
  options_.resize(static_cast<std::size_t>(ports) * static_cast<std::size_t>(range_count) *
                  static_cast<std::size_t>(depth_));
  std::size_t cell = 0;
  for (int port = 0; port < ports; ++port) {
    for (int c = 0; c < range_count; ++c) {
      for (int w = 1; w <= depth_; ++w) {
        std::vector<StageOption>& options = options_[cell++];
        for (int v = stages.first_variant(port); v < stages.first_variant(port + 1); ++v) {
          const StageOption option{stages.time(v, c, w), tails[static_cast<std::size_t>(v)][static_cast<std::size_t>(c)]};
          if (option.time == kInfinity || option.tail == kInfinity) continue;
          const auto covers = [](const StageOption& a, const StageOption& b) { return a.time <= b.time && a.tail <= b.tail; };
          if (std::any_of(options.begin(), options.end(), [&](const auto& known) { return covers(known, option); })) continue;
          std::erase_if(options, [&](const auto& known) { return covers(option, known); });
          options.push_back(option);
        }
        double reach = 0.0;
        for (const StageOption& option : options) {
          reach = std::max(reach, (limit - option.tail) / option.time * (1.0 + 1e-12));
        }
        reach_.push_back(static_cast<int>(std::min(reach, 1e9)));
      }
    }
  }
}

PipelineTable::PipelineTable(const Input& input, int micro_batches, double limit)
    : input_(input),
      micro_batches_(micro_batches),
      limit_(limit),
      layers_(input.ranges->layers()),
      ports_(static_cast<int>(input.space->ports.size())) {
  best_.assign(static_cast<std::size_t>(input_.space->resources.size()), kInfinity);
  price_completions();
  seed_last_stages();
  for (stages_ = 1; stages_ < input_.space->max_stages; ++stages_) {
    const std::size_t known = rows_.size();
    prepend(stages_);
    const bool any = std::any_of(rows_.begin() + static_cast<std::ptrdiff_t>(known), rows_.end(),
                                 [](const Row& values) { return !values.values.empty(); });
    if (!any) {
      rows_.resize(known);
      break;
    }
  }
  for (int k = input_.min_stages; k <= stages_; ++k) {
    for (int port = 0; port < ports_; ++port) {
      const std::vector<double>& values = rows_[row(k, 0, port)].values;
      for (std::size_t v = 0; v < values.size(); ++v) best_[v] = std::min(best_[v], values[v]);
    }
  }
}

std::size_t PipelineTable::row(int k, int layer, int port) const {
  return (static_cast<std::size_t>(k - 1) * static_cast<std::size_t>(layers_) + static_cast<std::size_t>(layer)) *
             static_cast<std::size_t>(ports_) +
         static_cast<std::size_t>(port);
}

double PipelineTable::value(int k, int layer, int port, int v) const {
  const std::vector<double>& values = rows_[row(k, layer, port)].values;
  return values.empty() ? kInfinity : values[static_cast<std::size_t>(v)];
}

int PipelineTable::depth(int k) const { return std::min({micro_batches_, k, input_.options->depth()}); }

double PipelineTable::transfer(int from, int to) const {
  return (*input_.transfer)[static_cast<std::size_t>(from * ports_ + to)];
}

void PipelineTable::price_completions() {
  const auto depth_count = static_cast<std::size_t>(input_.space->max_stages) + 1;
  completions_.assign(depth_count, std::vector<double>(static_cast<std::size_t>(layers_) + 1, 0.0));
  if (input_.prices == nullptr) return;
  for (int k = input_.space->max_stages; k >= 1; --k) {
    std::vector<double>& here = completions_[static_cast<std::size_t>(k)];
    std::fill(here.begin() + 1, here.end(), kInfinity);
    if (k == input_.space->max_stages) continue;
    const std::vector<double>& before = completions_[static_cast<std::size_t>(k) + 1];
    for (int port = 0; port < ports_; ++port) {
      const double own = price(input_.space->step(port));
      for (int last = 1; last < layers_; ++last) {
        for (int first = last - 1; first >= 0; --first) {
          if (input_.options->reach(port, input_.ranges->of(first, last), depth(k + 1)) < micro_batches_) {
            first = std::min(first, 1);   // as in prepend()
            continue;
          }
          double& best = here[static_cast<std::size_t>(last)];
          best = std::min(best, own + before[static_cast<std::size_t>(first)]);
        }
      }
    }
  }
}

void PipelineTable::drop(Row& values, double completion) const {
  const ResourceSpace& resources = input_.space->resources;
  // Sums of prices are taken in another order here than for in_domain: a rounding error must not drop a vector.
  const double affordable = (input_.budget - completion) + 1e-9 * std::abs(input_.budget);
  int first = static_cast<int>(values.values.size());
  int last = 0;
  for (int v = values.first; v < values.last; ++v) {
    double& g = values.values[static_cast<std::size_t>(v)];
    if (g == kInfinity) continue;
    if (g > limit_ || !resources.valid(v) || price(v) > affordable) {
      g = kInfinity;
      continue;
    }
    first = std::min(first, v);
    last = v + 1;
  }
  values.first = first;
  values.last = last;
  if (first >= last) values = Row{};
}

void PipelineTable::seed_last_stages() {
  rows_.resize(static_cast<std::size_t>(layers_) * static_cast<std::size_t>(ports_));
  for (int layer = 0; layer < layers_; ++layer) {
    const int range_class = input_.ranges->of(layer, layers_);
    for (int port = 0; port < ports_; ++port) {
      double least = kInfinity;
      for (const StageOption& option : input_.options->at(port, range_class, 1)) {
        least = std::min(least, micro_batches_ * option.time + option.tail);
      }
      ++transitions_;
      if (!(least <= limit_)) continue;
      Row& values = rows_[row(1, layer, port)];
      values.values.assign(best_.size(), kInfinity);
      values.first = input_.space->step(port);
      values.last = values.first + 1;
      values.values[static_cast<std::size_t>(values.first)] = least;
      drop(values, completions_[1][static_cast<std::size_t>(layer)]);
    }
  }
}

namespace {

/// target[i] = min(target[i], max(floor, shift + source[i])): the inner loop of the search.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
// The same operations on wider registers where the processor has them: no result depends on it.
__attribute__((target_clones("avx2", "default")))
#endif
void relax_span(const double* source, double* target, int count, double floor, double shift) {
  for (int i = 0; i < count; ++i) {
    const double rest = shift + source[i];
    const double reached = rest < floor ? floor : rest;
    target[i] = reached < target[i] ? reached : target[i];
  }
}

}  // namespace

void PipelineTable::relax(Row& to, const Row& from, int port, const StageOption& option, double transfer_time) {
  const int step = input_.space->step(port);
  const int size = input_.space->resources.size();
  const int end = std::min(from.last, size - step);
  if (end <= from.first) return;
  if (to.values.empty()) {
    to.values.assign(best_.size(), kInfinity);
    to.first = size;
    to.last = 0;
  }
  to.first = std::min(to.first, from.first + step);
  to.last = std::max(to.last, end + step);
  relax_span(from.values.data() + from.first, to.values.data() + from.first + step, end - from.first,
             micro_batches_ * option.time + option.tail, option.time + 2.0 * transfer_time);
  transitions_ += end - from.first;
}

void PipelineTable::prepend(int k) {
  rows_.resize(rows_.size() + static_cast<std::size_t>(layers_) * static_cast<std::size_t>(ports_));
  const int in_flight = depth(k + 1);
  for (int port = 0; port < ports_; ++port) {
    for (int next_layer = 1; next_layer < layers_; ++next_layer) {
      for (int layer = next_layer - 1; layer >= 0; --layer) {
        // More layers take longer and need more memory: once none fits, none will. But the first stage of a pipeline has
        // no buffers for a stage before it, so with layer 0 it may fit again.
        const int range_class = input_.ranges->of(layer, next_layer);
        if (input_.options->reach(port, range_class, in_flight) < micro_batches_) {
          layer = std::min(layer, 1);
          continue;
        }
        const auto& options = input_.options->at(port, range_class, in_flight);
        for (int next_port = 0; next_port < ports_; ++next_port) {
          const Row& rest = rows_[row(k, next_layer, next_port)];
          const double link = transfer(port, next_port);
          if (rest.values.empty() || link == kInfinity) continue;
          for (const StageOption& option : options) relax(rows_[row(k + 1, layer, port)], rest, port, option, link);
        }
      }
    }
    for (int layer = 0; layer < layers_; ++layer) {
      Row& values = rows_[row(k + 1, layer, port)];
      if (!values.values.empty()) drop(values, completions_[static_cast<std::size_t>(k) + 1][static_cast<std::size_t>(layer)]);
    }
  }
}

std::vector<ChainStage> PipelineTable::trace(int v) const {
  const double goal = best_[static_cast<std::size_t>(v)];
  check_invariant(goal < kInfinity, "a traced pipeline exists");
  for (int k = input_.min_stages; k <= stages_; ++k) {
    for (int port = 0; port < ports_; ++port) {
      if (value(k, 0, port, v) == goal) return trace_from(k, port, v);
    }
  }
  check_invariant(false, "the traced value is in the table");
  return {};
}

std::vector<ChainStage> PipelineTable::trace_from(int k, int port, int v) const {
  std::vector<ChainStage> chain;
  int layer = 0;
  for (; k > 1; --k) {
    const double goal = value(k, layer, port, v);
    const int rest = v - input_.space->step(port);
    bool found = false;
    for (int next_layer = layer + 1; next_layer < layers_ && !found; ++next_layer) {
      const auto& options = input_.options->at(port, input_.ranges->of(layer, next_layer), depth(k));
      for (int next_port = 0; next_port < ports_ && !found; ++next_port) {
        const double rest_value = value(k - 1, next_layer, next_port, rest);
        if (rest_value == kInfinity) continue;
        for (const StageOption& option : options) {
          // The same operations in the same order as relax(), so that equal means equal.
          const double reached = std::max(micro_batches_ * option.time + option.tail,
                                          option.time + 2.0 * transfer(port, next_port) + rest_value);
          if (reached != goal) continue;
          chain.push_back({port, {layer, next_layer}});
          layer = next_layer;
          port = next_port;
          v = rest;
          found = true;
          break;
        }
      }
    }
    check_invariant(found, "a predecessor in the pipeline table");
  }
  chain.push_back({port, {layer, layers_}});
  return chain;
}

struct PipelineTable::Walk {
  double limit = 0.0;
  std::size_t most = 0;
  std::vector<ChainStage> current;
  std::vector<std::vector<ChainStage>>* found = nullptr;
};

bool PipelineTable::descend(Walk& walk, int k, int layer, int v, int previous, double prefix) const {
  for (int port = 0; port < ports_; ++port) {
    const double link = previous < 0 ? 0.0 : transfer(previous, port);
    if (link == kInfinity || value(k, layer, port, v) == kInfinity) continue;
    const double start = prefix + 2.0 * link;
    if (start + value(k, layer, port, v) > walk.limit) continue;
    if (k == 1) {
      if (walk.found->size() >= walk.most) return false;
      walk.current.push_back({port, {layer, layers_}});
      walk.found->push_back(walk.current);
      walk.current.pop_back();
      continue;
    }
    const int rest = v - input_.space->step(port);
    for (int next_layer = layer + 1; next_layer < layers_; ++next_layer) {
      const auto& options = input_.options->at(port, input_.ranges->of(layer, next_layer), depth(k));
      double time = kInfinity;
      double own = kInfinity;
      for (const StageOption& option : options) {
        time = std::min(time, option.time);
        own = std::min(own, micro_batches_ * option.time + option.tail);
      }
      if (!(start + own <= walk.limit)) break;
      walk.current.push_back({port, {layer, next_layer}});
      const bool whole = descend(walk, k - 1, next_layer, rest, port, start + time);
      walk.current.pop_back();
      if (!whole) return false;
    }
  }
  return true;
}

bool PipelineTable::enumerate(int v, double limit, std::size_t most,
                              std::vector<std::vector<ChainStage>>& found) const {
  Walk walk{limit, most, {}, &found};
  for (int k = input_.min_stages; k <= stages_; ++k) {
    if (!descend(walk, k, 0, v, -1, 0.0)) return false;
  }
  return true;
}

}  // namespace hpplan
