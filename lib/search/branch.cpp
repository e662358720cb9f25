#include "search/branch.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "predict/gradient_sync.hpp"

namespace hpplan {

namespace {

/// Relative size of a layer kind's work: any positive weights give a valid rate bound.
std::vector<double> layer_weights(const Problem& problem, const StageTable& stages, const RangeClasses& ranges) {
  std::vector<double> weights;
  const ModelSpec& model = problem.model;
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    double weight = 0.0;
    for (int layer = 0; layer < model.layer_count() && weight == 0.0; ++layer) {
      if (model.layers[static_cast<std::size_t>(layer)] != static_cast<int>(kind)) continue;
      for (int v = 0; v < static_cast<int>(stages.variants().size()) && weight == 0.0; ++v) {
        const double time = stages.time(v, ranges.of(layer, layer + 1), 1);
        if (time < kInfinity) weight = time;
      }
    }
    weights.push_back(weight);
  }
  return weights;
}

double work_of(const ModelSpec& model, const std::vector<double>& weights, LayerRange layers) {
  double work = 0.0;
  for (int layer = layers.first; layer < layers.last; ++layer) {
    work += weights[static_cast<std::size_t>(model.layers[static_cast<std::size_t>(layer)])];
  }
  return work;
}

}  // namespace

Branch::Branch(SearchTables& tables, const BranchRange& range, double limit, int threads)
    : tables_(&tables), range_(range), limit_(limit), threads_(threads) {
  const CountLimit& allowed = tables.problem().job.constraints.pipelines;
  pipelines_first_ = std::max(1, allowed.min);
  pipelines_last_ = std::min(tables.space().max_pipelines, range.replicas_last);
  for (const int micro_batch : tables.problem().job.micro_batches) {
    if (micro_batch <= tables.problem().job.global_batch) add_size(micro_batch);
  }
}

void Branch::add_size(int micro_batch) {
  const Problem& problem = tables_->problem();
  const Space& space = tables_->space();
  const StageTable& stages = tables_->stages(micro_batch);
  if (stages.variants().empty()) return;
  const int range_count = tables_->ranges().count();
  std::vector<std::vector<double>> tails(stages.variants().size());
  Size size;
  size.micro_batch = micro_batch;
  size.fixed = kInfinity;
  size.rates.assign(problem.cluster.node_groups.size(), 0.0);
  const std::vector<double> weights = layer_weights(problem, stages, tables_->ranges());
  const double whole = work_of(problem.model, weights, {0, problem.model.layer_count()});
  for (std::size_t v = 0; v < tails.size(); ++v) {
    const Variant& variant = stages.variants()[v];
    const Port& port = space.ports[static_cast<std::size_t>(variant.port)];
    for (int c = 0; c < range_count; ++c) {
      const int vi = static_cast<int>(v);
      const double share = problem.job.overlap_gradient_sync
                               ? 0.0
                               : gradient_sync_lower_bound(problem, port.group, port.devices,
                                                           variant.split.tensor_parallel, stages.held(vi, c),
                                                           range_.replicas_first).value();
      const double tail = share < range_.sync_high ? std::max(share, range_.sync_low) + stages.optimizer(vi, c) : kInfinity;
      tails[v].push_back(tail);
      if (tail == kInfinity || stages.time(vi, c, 1) == kInfinity) continue;
      size.fixed = std::min(size.fixed, tail);
      double& rate = size.rates[static_cast<std::size_t>(port.group)];
      rate = std::max(rate, work_of(problem.model, weights, tables_->ranges().example(c)) / whole /
                                (stages.time(vi, c, 1) * port.devices));
    }
  }
  size.options = std::make_unique<OptionTable>(stages, static_cast<int>(space.ports.size()), range_count, tails);
  sizes_.push_back(std::move(size));
}

std::unique_ptr<PipelineTable> Branch::table(int micro_batch, int micro_batches, double limit) {
  const auto size = std::find_if(sizes_.begin(), sizes_.end(), [&](const Size& s) { return s.micro_batch == micro_batch; });
  check_invariant(size != sizes_.end(), "a micro-batch size of the branch");
  const PipelineTable::Input input{&tables_->space(), &tables_->ranges(), size->options.get(),
                                   &tables_->transfers(micro_batch),
                                   std::max(1, tables_->problem().job.constraints.stages.min)};
  auto table = std::make_unique<PipelineTable>(input, micro_batches, limit);
  transitions_ += table->transitions();
  ++tables_built_;
  return table;
}

void Branch::compute_slice(Size& size, int micro_batches) {
  size.slices[micro_batches] = table(size.micro_batch, micro_batches, limit_)->best();
}

void Branch::tighten(const Size& size, int micro_batches, const std::vector<double>& least, double target,
                     Bracket& bracket) const {
  for (std::size_t v = 0; v < least.size(); ++v) {
    if (least[v] <= target) {
      bracket.low[v] = std::max(bracket.low[v], micro_batches);
      continue;
    }
    int most = micro_batches - 1;
    // g(m') >= g(m) m'/m for m' < m, as fill only adds; the in-flight depth must be the same, hence the first test.
    if (micro_batches > size.options->depth()) {
      const double g = std::min(least[v], limit_);
      const double ratio = std::floor(target / g * micro_batches * (1.0 + 1e-12));
      most = std::min(most, std::max(size.options->depth() - 1, static_cast<int>(ratio)));
    }
    bracket.high[v] = std::min(bracket.high[v], most);
  }
}

Branch::Bracket Branch::bracket(const Size& size, double target) const {
  const ResourceSpace& resources = tables_->space().resources;
  const int most = tables_->problem().job.global_batch / size.micro_batch;
  Bracket bracket;
  bracket.low.assign(static_cast<std::size_t>(resources.size()), 0);
  for (int v = 0; v < resources.size(); ++v) {
    double rate = 0.0;
    for (int g = 0; g < resources.groups(); ++g) {
      rate += resources.count(v, g) * size.rates[static_cast<std::size_t>(g)];
    }
    const double ideal = std::max(0.0, target - size.fixed) * rate * (1.0 + 1e-9);
    bracket.high.push_back(static_cast<int>(std::min<double>(most, std::floor(ideal))));
  }
  for (const auto& [micro_batches, least] : size.slices) tighten(size, micro_batches, least, target, bracket);
  return bracket;
}

std::vector<std::vector<std::int64_t>> Branch::global_table(const std::vector<std::int64_t>& samples) const {
  const ResourceSpace& resources = tables_->space().resources;
  const auto vectors = static_cast<std::size_t>(resources.size());
  std::vector<int> useful;
  for (int v = 1; v < resources.size(); ++v) {
    if (samples[static_cast<std::size_t>(v)] > 0) useful.push_back(v);
  }
  std::vector<std::vector<std::int64_t>> most(static_cast<std::size_t>(pipelines_last_) + 1,
                                              std::vector<std::int64_t>(vectors, -1));
  most[0].assign(vectors, 0);
  for (std::size_t p = 1; p < most.size(); ++p) {
    for (const int v : useful) {
      for (int n = v; n < resources.size(); ++n) {
        if (!resources.contains(n, v)) continue;
        const std::int64_t rest = most[p - 1][static_cast<std::size_t>(n - v)];
        if (rest < 0) continue;
        std::int64_t& best = most[p][static_cast<std::size_t>(n)];
        best = std::max(best, rest + samples[static_cast<std::size_t>(v)]);
      }
    }
  }
  return most;
}

std::vector<std::int64_t> Branch::samples_by(double target) {
  std::vector<std::int64_t> samples(static_cast<std::size_t>(tables_->space().resources.size()), 0);
  for (const Size& size : sizes_) {
    const Bracket known = bracket(size, target);
    for (std::size_t v = 0; v < samples.size(); ++v) {
      samples[v] = std::max<std::int64_t>(samples[v], static_cast<std::int64_t>(size.micro_batch) * known.high[v]);
    }
  }
  return samples;
}

int Branch::most_micro_batches(int micro_batch, int v, double target) {
  for (const Size& size : sizes_) {
    if (size.micro_batch == micro_batch) return bracket(size, target).high[static_cast<std::size_t>(v)];
  }
  return 0;
}

std::optional<std::vector<RelaxedPipeline>> Branch::relaxed(double target) {
  check_invariant(target <= limit_, "a target within the branch's limit");
  const ResourceSpace& resources = tables_->space().resources;
  const int global_batch = tables_->problem().job.global_batch;
  std::vector<Bracket> brackets;
  for (const Size& size : sizes_) brackets.push_back(bracket(size, target));
  for (const Size& size : sizes_) tables_reused_ += static_cast<std::int64_t>(size.slices.size());

  while (true) {
    std::vector<std::int64_t> samples(static_cast<std::size_t>(resources.size()), 0);
    std::vector<std::size_t> owner(samples.size(), 0);
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      for (std::size_t v = 0; v < samples.size(); ++v) {
        const std::int64_t made = static_cast<std::int64_t>(sizes_[i].micro_batch) * brackets[i].high[v];
        if (made > samples[v]) {
          samples[v] = made;
          owner[v] = i;
        }
      }
    }
    const auto most = global_table(samples);
    int pipelines = -1;
    for (int p = pipelines_first_; p <= pipelines_last_; ++p) {
      if (most[static_cast<std::size_t>(p)].back() >= global_batch) {
        pipelines = p;
        break;
      }
    }
    if (pipelines < 0) return std::nullopt;

    // The pipelines of the best combination; compute what is only an upper bound so far.
    std::vector<RelaxedPipeline> chosen;
    int n = resources.size() - 1;
    for (int p = pipelines; p > 0; --p) {
      for (int v = n; v > 0; --v) {
        if (samples[static_cast<std::size_t>(v)] <= 0 || !resources.contains(n, v)) continue;
        const std::int64_t rest = most[static_cast<std::size_t>(p) - 1][static_cast<std::size_t>(n - v)];
        if (rest < 0 || rest + samples[static_cast<std::size_t>(v)] != most[static_cast<std::size_t>(p)][static_cast<std::size_t>(n)]) {
          continue;
        }
        const std::size_t i = owner[static_cast<std::size_t>(v)];
        chosen.push_back({sizes_[i].micro_batch, brackets[i].high[static_cast<std::size_t>(v)], v});
        n -= v;
        break;
      }
    }
    bool confirmed = true;
    for (const RelaxedPipeline& pipeline : chosen) {
      const std::size_t i = owner[static_cast<std::size_t>(pipeline.vector)];
      if (brackets[i].low[static_cast<std::size_t>(pipeline.vector)] >= pipeline.micro_batches) continue;
      if (sizes_[i].slices.count(pipeline.micro_batches) == 0) compute_slice(sizes_[i], pipeline.micro_batches);
      tighten(sizes_[i], pipeline.micro_batches, sizes_[i].slices[pipeline.micro_batches], target, brackets[i]);
      confirmed = false;
    }
    if (confirmed) return chosen;
  }
}

std::vector<Candidate> Branch::candidates(const std::vector<RelaxedPipeline>& pipelines) {
  std::vector<Candidate> found;
  for (const RelaxedPipeline& pipeline : pipelines) {
    const auto known = table(pipeline.micro_batch, pipeline.micro_batches, limit_);
    const StageTable& stages = tables_->stages(pipeline.micro_batch);
    Candidate candidate;
    candidate.micro_batch = pipeline.micro_batch;
    const std::vector<ChainStage> chain = known->trace(pipeline.vector);
    for (std::size_t s = 0; s < chain.size(); ++s) {
      const int range = tables_->ranges().of(chain[s].layers.first, chain[s].layers.last);
      const int in_flight = std::min({pipeline.micro_batches, static_cast<int>(chain.size() - s), stages.max_in_flight()});
      const Port& port = tables_->space().ports[static_cast<std::size_t>(chain[s].port)];
      double least = kInfinity;
      Split split;
      for (int v = stages.first_variant(chain[s].port); v < stages.first_variant(chain[s].port + 1); ++v) {
        const Split& option = stages.variants()[static_cast<std::size_t>(v)].split;
        const double share = gradient_sync_lower_bound(tables_->problem(), port.group, port.devices, option.tensor_parallel,
                                                       stages.held(v, range), range_.replicas_first).value();
        if (!(share < range_.sync_high)) continue;
        const double cost = pipeline.micro_batches * stages.time(v, range, in_flight) +
                            std::max(share, range_.sync_low) + stages.optimizer(v, range);
        if (cost < least) {
          least = cost;
          split = option;
        }
      }
      candidate.stages.push_back({chain[s].port, split, chain[s].layers});
    }
    found.push_back(std::move(candidate));
  }
  return found;
}

double Branch::sync_share(const std::vector<Candidate>& candidates) const {
  double largest = 0.0;
  for (const Candidate& candidate : candidates) {
    const StageTable& stages = tables_->stages(candidate.micro_batch);
    for (const CandidateStage& stage : candidate.stages) {
      const Port& port = tables_->space().ports[static_cast<std::size_t>(stage.port)];
      const int range = tables_->ranges().of(stage.layers.first, stage.layers.last);
      for (int v = stages.first_variant(stage.port); v < stages.first_variant(stage.port + 1); ++v) {
        if (stages.variants()[static_cast<std::size_t>(v)].split != stage.split) continue;
        largest = std::max(largest, gradient_sync_lower_bound(tables_->problem(), port.group, port.devices,
                                                              stage.split.tensor_parallel, stages.held(v, range),
                                                              range_.replicas_first).value());
      }
    }
  }
  return largest;
}

}  // namespace hpplan
