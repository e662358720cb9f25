#include "search/pipeline_table.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "search/useful_options.hpp"

namespace hpplan {

namespace {

/// Rows whose values are allocated together.
constexpr std::size_t kRowsAtOnce = 64;

}  // namespace

OptionTable::OptionTable(const StageTable& stages, int ports, int range_count,
                         const std::vector<std::vector<double>>& tails, double limit)
    : ports_(ports), ranges_(range_count), depth_(stages.max_in_flight()) {
  std::vector<StageOption> options;
  for (int w = 1; w <= depth_; ++w) {
    for (int port = 0; port < ports; ++port) {
      for (int c = 0; c < range_count; ++c) {
        options.clear();
        for (int v = stages.first_variant(port); v < stages.first_variant(port + 1); ++v) {
          const StageOption option{stages.time(v, c, w),
                                   tails[static_cast<std::size_t>(v)][static_cast<std::size_t>(c)]};
          if (option.time < kInfinity && option.tail < kInfinity) add_if_useful(options, option);
        }
        double reach = 0.0;
        for (const StageOption& option : options) {
          reach = std::max(reach, (limit - option.tail) / option.time * (1.0 + 1e-12));
        }
        reach_.push_back(static_cast<int>(std::min(reach, 1e9)));
        starts_.push_back(static_cast<std::uint32_t>(options_.size()));
        options_.insert(options_.end(), options.begin(), options.end());
      }
    }
  }
  starts_.push_back(static_cast<std::uint32_t>(options_.size()));
}

PipelineTable::PipelineTable(const Input& input, int micro_batches, double limit)
    : input_(input), micro_batches_(micro_batches), limit_(limit), layers_(input.ranges->layers()),
      ports_(static_cast<int>(input.space->ports.size())) {
  // Pipelines within the limit have rates of about limit / (m + p - 1); too low a rate loses less than too high a one.
  constexpr int kTypicalStages = 8;
  rate_ = limit / (micro_batches + std::min(kTypicalStages, input.space->max_stages) - 1);
  for (const double link : *input.transfer)
    slowest_link_ = link < kInfinity ? std::max(slowest_link_, link) : slowest_link_;
  best_.assign(static_cast<std::size_t>(input_.space->resources.size()), kInfinity);
  price_completions();
  seed_last_stages();
  for (stages_ = 1; stages_ < input_.space->max_stages; ++stages_) {
    const std::size_t known = rows_.size();
    prepend(stages_);
    const bool any = std::any_of(rows_.begin() + static_cast<std::ptrdiff_t>(known), rows_.end(),
                                 [](const Row& values) { return values.values != nullptr; });
    if (!any) {
      rows_.resize(known);
      break;
    }
  }
  for (int k = input_.min_stages; k <= stages_; ++k) {
    for (int port = 0; port < ports_; ++port) {
      const Row& here = rows_[row(k, 0, port)];
      for (int v = here.first; v < here.last; ++v) {
        double& best = best_[static_cast<std::size_t>(v)];
        best = std::min(best, here.values[v]);
      }
    }
  }
}

std::size_t PipelineTable::row(int k, int layer, int port) const {
  return (static_cast<std::size_t>(k - 1) * static_cast<std::size_t>(layers_) + static_cast<std::size_t>(layer)) *
             static_cast<std::size_t>(ports_) +
         static_cast<std::size_t>(port);
}

double PipelineTable::value(int k, int layer, int port, int v) const {
  const Row& here = rows_[row(k, layer, port)];
  return v >= here.first && v < here.last ? here.values[v] : kInfinity;
}

int PipelineTable::depth(int k) const { return std::min({micro_batches_, k, input_.options->depth()}); }

double PipelineTable::transfer(int from, int to) const {
  return (*input_.transfer)[static_cast<std::size_t>(from * ports_ + to)];
}

/// [range class]: least price of a stage that runs the micro-batches within the limit.
std::vector<double> PipelineTable::stage_prices(int in_flight) const {
  std::vector<double> least(static_cast<std::size_t>(input_.ranges->count()), kInfinity);
  for (int port = 0; port < ports_; ++port) {
    const double own = price(input_.space->step(port));
    for (int c = 0; c < input_.ranges->count(); ++c) {
      double& best = least[static_cast<std::size_t>(c)];
      if (own < best && input_.options->reach(port, c, in_flight) >= micro_batches_) best = own;
    }
  }
  return least;
}

void PipelineTable::price_completions() {
  const auto depth_count = static_cast<std::size_t>(input_.space->max_stages) + 1;
  completions_.assign(depth_count, std::vector<double>(static_cast<std::size_t>(layers_) + 1, 0.0));
  if (input_.prices == nullptr) return;
  std::vector<double> prices;
  for (int k = input_.space->max_stages; k >= 1; --k) {
    std::vector<double>& here = completions_[static_cast<std::size_t>(k)];
    std::fill(here.begin() + 1, here.end(), kInfinity);
    if (k == input_.space->max_stages) continue;
    if (prices.empty() || depth(k + 1) != depth(k + 2)) prices = stage_prices(depth(k + 1));
    const std::vector<double>& before = completions_[static_cast<std::size_t>(k) + 1];
    for (int last = 1; last < layers_; ++last) {
      double best = kInfinity;  // not in its place, so that it stays in a register
      for (int first = last - 1; first >= 0; --first) {
        const double own = prices[static_cast<std::size_t>(input_.ranges->of(first, last))];
        if (own == kInfinity) {
          first = std::min(first, 1);  // as in prepend()
          continue;
        }
        best = std::min(best, own + before[static_cast<std::size_t>(first)]);
      }
      here[static_cast<std::size_t>(last)] = best;
    }
  }
}

/// What a suffix may cost where the layers before it cost `completion`. Sums of prices are taken in another order than
/// for in_domain: a rounding error must not drop a vector.
double PipelineTable::affordable(double completion) const {
  return (input_.budget - completion) + 1e-9 * std::abs(input_.budget);
}

void PipelineTable::drop(Row& values, double completion) {
  const ResourceSpace& resources = input_.space->resources;
  const double most = affordable(completion);
  double least = kInfinity;
  int first = values.last;
  int last = 0;
  for (int v = values.first; v < values.last; ++v) {
    double& g = values.values[v];
    if (g == kInfinity) continue;
    if (g > limit_ || !resources.valid(v) || price(v) > most) {
      g = kInfinity;
      values.sums[v] = kInfinity;
      values.windows[v] = kInfinity;
      continue;
    }
    first = std::min(first, v);
    last = v + 1;
    least = std::min(least, price(v));
  }
  values.first = first;
  values.last = last;
  values.least_price = least;
  if (first >= last) clear(values);
}

void PipelineTable::seed_last_stages() {
  rows_.resize(static_cast<std::size_t>(layers_) * static_cast<std::size_t>(ports_));
  for (int layer = 0; layer < layers_; ++layer) {
    const int range_class = input_.ranges->of(layer, layers_);
    for (int port = 0; port < ports_; ++port) {
      double least = kInfinity;
      double time = kInfinity;
      for (const StageOption& option : input_.options->at(port, range_class, 1)) {
        least = std::min(least, micro_batches_ * option.time + option.tail);
        time = std::min(time, option.time);
      }
      ++transitions_;
      if (!(least <= limit_)) continue;
      Row& values = rows_[row(1, layer, port)];
      const int v = input_.space->step(port);
      widen(values, v, v + 1);
      values.values[v] = least;
      values.sums[v] = time;
      values.windows[v] = time - rate_;
      drop(values, completions_[1][static_cast<std::size_t>(layer)]);
    }
  }
}

void PipelineTable::widen(Row& row, int first, int last) {
  if (row.values == nullptr) {
    const std::size_t cells = best_.size();
    if (spare_.empty()) {
      blocks_.push_back(std::make_unique_for_overwrite<double[]>(kRowsAtOnce * 3 * cells));
      for (std::size_t i = kRowsAtOnce; i-- > 0;) spare_.push_back(blocks_.back().get() + i * 3 * cells);
    }
    row.values = spare_.back();
    row.sums = row.values + cells;
    row.windows = row.sums + cells;
    spare_.pop_back();
    row.first = row.last = first;
  }
  for (double* values : {row.values, row.sums, row.windows}) {
    if (first < row.first) std::fill(values + first, values + row.first, kInfinity);
    if (last > row.last) std::fill(values + row.last, values + last, kInfinity);
  }
  row.first = std::min(row.first, first);
  row.last = std::max(row.last, last);
}

void PipelineTable::clear(Row& row) {
  spare_.push_back(row.values);
  row = Row{};
}

PipelineTable::Step PipelineTable::step_of(int k, const StageOption& option, double transfer_time) const {
  Step step;
  step.floor = micro_batches_ * option.time + option.tail;
  step.link = 2.0 * transfer_time;
  step.shift = option.time + step.link;
  step.around =
      micro_batches_ > k ? (micro_batches_ - k + 1) * option.time + 2.0 * step.link + option.tail : -kInfinity;
  step.excess = option.time - rate_;
  step.loops = std::max(0, micro_batches_ - 1 - k);
  step.over = step.loops / k;
  step.base = step.loops > 0.0 ? step.loops * rate_ + input_.least_tail - 4.0 * slowest_link_ : -kInfinity;
  step.fixed = input_.least_tail - 4.0 * slowest_link_ - (k + 1) * rate_;
  step.slope = step.loops > 0.0 ? (k + 1) / step.loops : 0.0;
  return step;
}

/// The recursion of the table, and the inner loop of the search: one stage in front of the suffixes of `count` vectors.
/// Every arm of a choice is computed before it, so that the compiler can make lanes of the loop.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
// The same operations on wider registers where the processor has them: no result depends on it.
__attribute__((target_clones("avx2", "default")))
#endif
void PipelineTable::relax_span(const Step& step, double limit, int count, const double* __restrict from_g,
                               const double* __restrict from_sum, const double* __restrict from_window,
                               double* __restrict to_g, double* __restrict to_sum, double* __restrict to_window) {
  const double floor = step.floor;
  const double shift = step.shift;
  const double first_around = step.around;
  const double excess = step.excess;
  const double link = step.link;
  const double loops = step.loops;
  const double step_over = step.over;
  const double base = step.base;
  const double fixed = step.fixed;
  const double slope = step.slope;
  for (int i = 0; i < count; ++i) {
    const double sum = shift + from_sum[i];
    const double joined = link + from_window[i];
    const double window = excess + (joined > 0.0 ? joined : 0.0);
    const double over = (window > 0.0 ? step_over : loops) * window;  // beyond loops * rate
    // Without the m lambda in it: what is left must not be negative, or the term would not grow in proportion to m.
    const double constant = 2.0 * sum + fixed - slope * over;
    const double looped = base + over + 2.0 * sum;
    const double windowed = constant >= 0.0 ? looped : -kInfinity;
    const double through = shift + from_g[i];
    const double around = first_around + 2.0 * from_sum[i];
    const double one = floor < through ? through : floor;
    const double two = one < around ? around : one;
    const double g = two < windowed ? windowed : two;
    const double barrier = g <= limit ? 0.0 : kInfinity;  // beyond the limit everything becomes infinite
    const double kept_g = g + barrier;
    const double kept_sum = sum + barrier;
    const double kept_window = window + barrier;
    to_g[i] = kept_g < to_g[i] ? kept_g : to_g[i];
    to_sum[i] = kept_sum < to_sum[i] ? kept_sum : to_sum[i];
    to_window[i] = kept_window < to_window[i] ? kept_window : to_window[i];
  }
}

void PipelineTable::relax(Row& to, const Row& from, int port, const Step& step) {
  const int shift = input_.space->step(port);
  const int size = input_.space->resources.size();
  const int end = std::min(from.last, size - shift);
  if (end <= from.first) return;
  const int begin = from.first;
  const int target = begin + shift;
  widen(to, target, end + shift);
  relax_span(step, limit_, end - begin, from.values + begin, from.sums + begin, from.windows + begin,
             to.values + target, to.sums + target, to.windows + target);
  transitions_ += end - from.first;
}

void PipelineTable::prepend(int k) {
  rows_.resize(rows_.size() + static_cast<std::size_t>(layers_) * static_cast<std::size_t>(ports_));
  const int in_flight = depth(k + 1);
  const std::vector<double>& completions = completions_[static_cast<std::size_t>(k) + 1];
  std::vector<int> next_ports;  // with values
  for (int next_layer = 1; next_layer < layers_; ++next_layer) {
    next_ports.clear();
    double least = kInfinity;
    for (int port = 0; port < ports_; ++port) {
      const Row& rest = rows_[row(k, next_layer, port)];
      if (rest.values == nullptr) continue;
      next_ports.push_back(port);
      least = std::min(least, rest.least_price);
    }
    if (next_ports.empty()) continue;
    if (input_.check_stop) input_.check_stop();
    for (int port = 0; port < ports_; ++port) {
      const double own = price(input_.space->step(port));
      for (int layer = next_layer - 1; layer >= 0; --layer) {
        // More layers take longer and need more memory: once none fits, none will. But the first stage of a pipeline
        // has no buffers for a stage before it, so with layer 0 it may fit again.
        const int range_class = input_.ranges->of(layer, next_layer);
        if (input_.options->reach(port, range_class, in_flight) < micro_batches_) {
          layer = std::min(layer, 1);
          continue;
        }
        const double most = affordable(completions[static_cast<std::size_t>(layer)]) - own;
        if (least > most) continue;
        Row& to = rows_[row(k + 1, layer, port)];
        for (const int next_port : next_ports) {
          const Row& rest = rows_[row(k, next_layer, next_port)];
          if (rest.least_price > most) continue;
          const double link = transfer(port, next_port);
          if (link == kInfinity) continue;
          for (const StageOption& option : input_.options->at(port, range_class, in_flight)) {
            relax(to, rest, port, step_of(k + 1, option, link));
          }
        }
      }
    }
  }
  for (int layer = 0; layer < layers_; ++layer) {
    for (int port = 0; port < ports_; ++port) {
      Row& values = rows_[row(k + 1, layer, port)];
      if (values.values != nullptr) drop(values, completions[static_cast<std::size_t>(layer)]);
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
      const auto options = input_.options->at(port, input_.ranges->of(layer, next_layer), depth(k));
      for (int next_port = 0; next_port < ports_ && !found; ++next_port) {
        const Row& after = rows_[row(k - 1, next_layer, next_port)];
        if (rest < after.first || rest >= after.last || after.values[rest] == kInfinity) continue;
        for (const StageOption& option : options) {
          // The same operations in the same order as the table's, so that equal means equal.
          const Step step = step_of(k, option, transfer(port, next_port));
          double reached = kInfinity;
          double sum = kInfinity;
          double window = kInfinity;
          relax_span(step, limit_, 1, after.values + rest, after.sums + rest, after.windows + rest, &reached, &sum,
                     &window);
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
      const auto options = input_.options->at(port, input_.ranges->of(layer, next_layer), depth(k));
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
