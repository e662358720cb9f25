#include "search/branch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "base/check.hpp"
#include "base/for_each_index.hpp"
#include "search/layer_weights.hpp"

namespace hpplan {

namespace {

/// Tables computed together, and kept.
constexpr std::size_t kMostAtOnce = 8;

}  // namespace

Branch::Branch(SearchTables& tables, const BranchRange& range, double limit, const Branch* wider)
    : tables_(&tables), range_(range), limit_(limit), load_(tables, limit) {
  std::vector<const StageTable*> stages;
  for (const int micro_batch : tables.problem().job.micro_batches) {
    if (micro_batch > tables.problem().job.global_batch) continue;
    if (!tables.stages(micro_batch).variants().empty()) stages.push_back(&tables.stages(micro_batch));
  }
  sizes_.resize(stages.size());
  for_each_index(stages.size(), tables.threads(), [&](std::size_t i) { sizes_[i] = make_size(*stages[i]); });
  for (Size& size : sizes_) {
    if (wider != nullptr) inherit(*wider, size);
    size.within = make_bracket(size, limit_);
  }
  tighten_prices();
}

void Branch::inherit(const Branch& wider, Size& size) {
  const auto same = std::find_if(wider.sizes_.begin(), wider.sizes_.end(),
                                 [&](const Size& other) { return other.micro_batch == size.micro_batch; });
  if (same == wider.sizes_.end()) return;
  size.inherited = same->slices;
  size.inherited.insert(same->inherited.begin(), same->inherited.end());
}

double Branch::own_share(const StageTable& stages, int variant, int range_class) const {
  return own_sync_share(*tables_, stages, variant, range_class, {range_.pipelines, false, 0, &load_});
}

Branch::Size Branch::make_size(const StageTable& stages) const {
  const Problem& problem = tables_->problem();
  const Space& space = tables_->space();
  const int range_count = tables_->ranges().count();
  std::vector<std::vector<double>> tails(stages.variants().size());
  Size size;
  size.micro_batch = stages.micro_batch();
  size.fixed = kInfinity;
  size.rates.assign(problem.cluster.node_groups.size(), 0.0);
  const std::vector<double> weights = layer_weights(problem, stages, tables_->ranges());
  const double whole = work_of(problem.model, weights, {0, problem.model.layer_count()});
  for (std::size_t v = 0; v < tails.size(); ++v) {
    const Variant& variant = stages.variants()[v];
    const Port& port = space.ports[static_cast<std::size_t>(variant.port)];
    for (int c = 0; c < range_count; ++c) {
      const int vi = static_cast<int>(v);
      const double share = own_share(stages, vi, c);
      const double tail =
          share < range_.sync_high ? std::max(share, range_.sync_low) + stages.optimizer(vi, c) : kInfinity;
      tails[v].push_back(tail);
      if (tail == kInfinity || stages.time(vi, c, 1) == kInfinity) continue;
      size.fixed = std::min(size.fixed, tail);
      double& rate = size.rates[static_cast<std::size_t>(port.group)];
      rate = std::max(rate, work_of(problem.model, weights, tables_->ranges().example(c)) / whole /
                                (stages.time(vi, c, 1) * port.devices));
    }
  }
  size.options =
      std::make_unique<OptionTable>(stages, static_cast<int>(space.ports.size()), range_count, tails, limit_);
  return size;
}

Branch::Size& Branch::size_of(int micro_batch) {
  const auto size =
      std::find_if(sizes_.begin(), sizes_.end(), [&](const Size& s) { return s.micro_batch == micro_batch; });
  check_invariant(size != sizes_.end(), "a micro-batch size of the branch");
  return *size;
}

const PipelineTable& Branch::table(int micro_batch, int micro_batches, std::int64_t spare) {
  const TableKey key{micro_batch, micro_batches, spare};
  if (recent_.count(key) == 0) prepare({key});
  return *recent_.at(key);
}

void Branch::prepare(const std::vector<TableKey>& keys) {
  std::vector<TableKey> missing;
  for (const TableKey& key : keys) {
    if (recent_.count(key) == 0 && std::find(missing.begin(), missing.end(), key) == missing.end())
      missing.push_back(key);
  }
  if (recent_.size() + missing.size() > kMostAtOnce) {
    std::erase_if(recent_,
                  [&](const auto& entry) { return std::find(keys.begin(), keys.end(), entry.first) == keys.end(); });
  }
  std::vector<std::unique_ptr<PipelineTable>> made(missing.size());
  const auto one_at_a_time = std::make_shared<std::mutex>();
  const auto check_stop = [tables = tables_, one_at_a_time] {
    const std::lock_guard<std::mutex> lock(*one_at_a_time);
    tables->check_stop();
  };
  for (const TableKey& key : missing) static_cast<void>(tables_->transfers(key.micro_batch));  // built on first use
  for_each_index(missing.size(), tables_->threads(), [&](std::size_t i) {
    const TableKey& key = missing[i];
    const Size& size = size_of(key.micro_batch);
    const PipelineTable::Input input{
        &tables_->space(),
        &tables_->ranges(),
        size.options.get(),
        &tables_->transfers(key.micro_batch),
        std::max(1, tables_->problem().job.constraints.stages.min),
        &prices_,
        static_cast<double>(key.micro_batch) * key.micro_batches + static_cast<double>(key.spare) + slack_,
        size.fixed,
        check_stop};
    made[i] = std::make_unique<PipelineTable>(input, key.micro_batches, limit_);
  });
  std::vector<std::int64_t> parts;
  for (const auto& table : made) parts.push_back(table->transitions());
  tables_->share().add(parts);
  for (std::size_t i = 0; i < made.size(); ++i) {
    transitions_ += parts[i];
    tables_->add_work(parts[i]);
    ++tables_built_;
    recent_[missing[i]] = std::move(made[i]);
  }
}

void Branch::compute_slices(const std::vector<TableKey>& keys) {
  if (keys.empty()) return;
  tables_->check_stop();
  tighten_prices();
  prepare(keys);
  for (const TableKey& key : keys) {
    const PipelineTable& known = table(key.micro_batch, key.micro_batches, key.spare);
    Slice slice{known.best(), key.spare};
    for (std::size_t v = 0; v < slice.least.size(); ++v) {
      if (!known.in_domain(static_cast<int>(v))) slice.least[v] = std::numeric_limits<double>::quiet_NaN();
    }
    Size& size = size_of(key.micro_batch);
    tighten(size, key.micro_batches, slice, Source::Own, limit_, size.within);
    size.slices[key.micro_batches] = std::move(slice);
  }
}

/// Prices per device of each group such that no pipeline within the limit makes more samples than its devices are
/// worth, chosen by coordinate descent to make all devices together worth as little as possible: the dual of the
/// fractional global problem.
void Branch::tighten_prices() {
  const ResourceSpace& resources = tables_->space().resources;
  const std::vector<std::int64_t> samples = samples_by(limit_);
  std::vector<int> useful;
  for (const int v : resources.vectors()) {
    if (samples[static_cast<std::size_t>(v)] > 0) useful.push_back(v);
  }
  const auto groups = static_cast<std::size_t>(resources.groups());
  const auto worth = [&](const std::vector<double>& direction, int v) {
    double sum = 0.0;
    for (std::size_t g = 0; g < groups; ++g) sum += direction[g] * resources.count(v, static_cast<int>(g));
    return sum;
  };
  const auto scale = [&](const std::vector<double>& direction) {
    double most = 0.0;
    for (const int v : useful) {
      most = std::max(most, static_cast<double>(samples[static_cast<std::size_t>(v)]) / worth(direction, v));
    }
    return most;
  };
  std::vector<double> direction(groups, 0.0);
  for (const Size& size : sizes_) {
    for (std::size_t g = 0; g < groups; ++g) direction[g] = std::max(direction[g], size.rates[g]);
  }
  for (double& price : direction) price = std::max(price, 1e-12);
  double best = scale(direction) * worth(direction, resources.full());
  for (double step = 1.3; step > 1.0005; step = std::sqrt(step)) {
    for (std::size_t g = 0; g < groups && groups > 1; ++g) {
      for (const double factor : {step, 1.0 / step}) {
        std::vector<double> moved = direction;
        moved[g] *= factor;
        const double value = scale(moved) * worth(moved, resources.full());
        if (value >= best) continue;
        best = value;
        direction = std::move(moved);
      }
    }
  }
  const double unit = scale(direction) * (1.0 + 1e-9);
  const double slack = unit * worth(direction, resources.full()) - tables_->problem().job.global_batch;
  if (!prices_.empty() && slack > slack_ * 0.98)
    return;  // tables in use stay valid; a small gain is not worth new ones
  slack_ = std::max(0.0, slack);
  prices_.assign(static_cast<std::size_t>(resources.size()), 0.0);
  for (int v = 0; v < resources.size(); ++v) prices_[static_cast<std::size_t>(v)] = unit * worth(direction, v);
  recent_.clear();  // they point to the old prices
}

void Branch::tighten(const Size& size, int micro_batches, const Slice& slice, Source source, double target,
                     Bracket& bracket) const {
  const std::vector<double>& least = slice.least;
  for (const int vector : tables_->space().resources.vectors()) {
    const auto v = static_cast<std::size_t>(vector);
    if (std::isnan(least[v])) continue;  // outside the table's domain
    if (least[v] <= target) {
      if (source == Source::Own) bracket.low[v] = std::max(bracket.low[v], micro_batches);
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
  return target == limit_ ? size.within : make_bracket(size, target);
}

Branch::Bracket Branch::make_bracket(const Size& size, double target) const {
  const ResourceSpace& resources = tables_->space().resources;
  const int most = tables_->problem().job.global_batch / size.micro_batch;
  Bracket bracket;
  bracket.low.assign(static_cast<std::size_t>(resources.size()), 0);
  bracket.high.assign(static_cast<std::size_t>(resources.size()), 0);
  bracket.step.assign(static_cast<std::size_t>(resources.size()), 0);
  for (const int v : resources.vectors()) {
    double rate = 0.0;
    for (int g = 0; g < resources.groups(); ++g) {
      rate += resources.count(v, g) * size.rates[static_cast<std::size_t>(g)];
    }
    const double ideal = std::max(0.0, target - size.fixed) * rate * (1.0 + 1e-9);
    bracket.high[static_cast<std::size_t>(v)] = static_cast<int>(std::min<double>(most, std::floor(ideal)));
  }
  for (const auto& [micro_batches, least] : size.inherited) {
    tighten(size, micro_batches, least, Source::Inherited, target, bracket);
  }
  for (const auto& [micro_batches, least] : size.slices) {
    tighten(size, micro_batches, least, Source::Own, target, bracket);
  }
  return bracket;
}

/// Samples beyond those of the number tried next that the vector may have to make.
std::int64_t Branch::spare_of(const Size& size, std::size_t v, const Bracket& bracket) {
  return static_cast<std::int64_t>(size.micro_batch) * (bracket.high[v] - bracket.next(v));
}

/// Whether the table of the number tried next says something about the vector.
bool Branch::knows_next(const Size& size, std::size_t v, const Bracket& bracket) {
  const auto slice = size.slices.find(bracket.next(v));
  if (slice == size.slices.end()) return false;
  return !std::isnan(slice->second.least[v]) || slice->second.spare >= spare_of(size, v, bracket);
}

/// Adds a table to a few that are wanted, or widens it there.
void Branch::want(std::vector<TableKey>& missing, const TableKey& key) {
  const auto same = std::find_if(missing.begin(), missing.end(), [&](const TableKey& other) {
    return other.micro_batch == key.micro_batch && other.micro_batches == key.micro_batches;
  });
  if (same != missing.end()) {
    same->spare = std::max(same->spare, key.spare);
  } else if (missing.size() < kMostAtOnce) {
    missing.push_back(key);
  }
}

/// Moves the bracket of a vector by what its table at the next number says, if that is known.
void Branch::try_next(const Size& size, std::size_t v, double target, Bracket& bracket) const {
  if (!knows_next(size, v, bracket)) return;  // in the next round
  const int tried = bracket.next(v);
  tighten(size, tried, size.slices.at(tried), Source::Own, target, bracket);
  if (bracket.low[v] >= tried) {
    bracket.step[v] /= 2;
  } else if (bracket.high[v] < tried) {
    bracket.step[v] = std::max(1, 2 * bracket.step[v]);
  } else {
    bracket.high[v] = 0;  // outside the domain: no plan within the limit lets this vector make so few samples
  }
}

std::vector<std::vector<std::int64_t>> Branch::global_table(const std::vector<std::int64_t>& samples) const {
  const ResourceSpace& resources = tables_->space().resources;
  std::vector<int> useful;
  for (const int v : resources.vectors()) {
    if (samples[static_cast<std::size_t>(v)] > 0) useful.push_back(v);
  }
  const auto cells = static_cast<std::size_t>(resources.size());
  std::vector<std::vector<std::int64_t>> most(static_cast<std::size_t>(range_.pipelines.last) + 1,
                                              std::vector<std::int64_t>(cells, -1));
  for (const int n : resources.vectors()) most[0][static_cast<std::size_t>(n)] = 0;
  for (std::size_t p = 1; p < most.size(); ++p) {
    bool any = false;
    for (const int v : useful) {
      const std::int64_t made = samples[static_cast<std::size_t>(v)];
      // A difference that borrows from another group is not valid and holds -1.
      for (int n = v; n < resources.size(); ++n) {
        const std::int64_t rest = most[p - 1][static_cast<std::size_t>(n - v)];
        if (rest < 0 || !resources.valid(n)) continue;
        std::int64_t& best = most[p][static_cast<std::size_t>(n)];
        best = std::max(best, rest + made);
        any = true;
      }
    }
    if (!any) break;
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

std::vector<int> Branch::most_micro_batches(int micro_batch, double target) const {
  for (const Size& size : sizes_) {
    if (size.micro_batch == micro_batch) return bracket(size, target).high;
  }
  return {};
}

std::optional<std::vector<RelaxedPipeline>> Branch::relaxed(double target) {
  check_invariant(target <= limit_, "a target within the branch's limit");
  const ResourceSpace& resources = tables_->space().resources;
  const int global_batch = tables_->problem().job.global_batch;
  std::vector<Bracket> brackets;
  for (const Size& size : sizes_) brackets.push_back(bracket(size, target));
  for (const Size& size : sizes_) {
    tables_reused_ += static_cast<std::int64_t>(size.slices.size() + size.inherited.size());
  }

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
    for (int p = range_.pipelines.first; p <= range_.pipelines.last; ++p) {
      if (most[static_cast<std::size_t>(p)][static_cast<std::size_t>(resources.full())] >= global_batch) {
        pipelines = p;
        break;
      }
    }
    if (pipelines < 0) return std::nullopt;

    // What the best combination only bounds so far is computed; then the combination is chosen anew.
    std::vector<RelaxedPipeline> chosen = best_combination(samples, pipelines, most);
    std::vector<TableKey> missing;
    for (RelaxedPipeline& pipeline : chosen) {
      const auto v = static_cast<std::size_t>(pipeline.vector);
      const Size& size = sizes_[owner[v]];
      const Bracket& bracket = brackets[owner[v]];
      pipeline.micro_batch = size.micro_batch;
      pipeline.micro_batches = bracket.high[v];
      if (bracket.is_open(v) && !knows_next(size, v, bracket)) {
        want(missing, {size.micro_batch, bracket.next(v), spare_of(size, v, bracket)});
      }
    }
    compute_slices(missing);
    bool confirmed = true;
    for (const RelaxedPipeline& pipeline : chosen) {
      const auto v = static_cast<std::size_t>(pipeline.vector);
      Bracket& bracket = brackets[owner[v]];
      if (!bracket.is_open(v)) continue;
      confirmed = false;
      try_next(sizes_[owner[v]], v, target, bracket);
    }
    if (confirmed) return chosen;
  }
}

std::vector<RelaxedPipeline> Branch::best_combination(const std::vector<std::int64_t>& samples, int pipelines,
                                                      const std::vector<std::vector<std::int64_t>>& most) const {
  const ResourceSpace& resources = tables_->space().resources;
  std::vector<RelaxedPipeline> chosen;
  int n = resources.full();
  for (int p = pipelines; p > 0; --p) {
    for (int v = n; v > 0; --v) {
      const std::int64_t made = samples[static_cast<std::size_t>(v)];
      if (!resources.valid(v) || made <= 0 || !resources.contains(n, v)) continue;
      const std::int64_t rest = most[static_cast<std::size_t>(p) - 1][static_cast<std::size_t>(n - v)];
      if (rest < 0 || rest + made != most[static_cast<std::size_t>(p)][static_cast<std::size_t>(n)]) continue;
      chosen.push_back({0, 0, v});
      n -= v;
      break;
    }
  }
  return chosen;
}

std::vector<Candidate> Branch::candidates(const std::vector<RelaxedPipeline>& pipelines) {
  std::vector<Candidate> found;
  for (const RelaxedPipeline& pipeline : pipelines) {
    const PipelineTable& known = table(pipeline.micro_batch, pipeline.micro_batches);
    const StageTable& stages = tables_->stages(pipeline.micro_batch);
    Candidate candidate;
    candidate.micro_batch = pipeline.micro_batch;
    const std::vector<ChainStage> chain = known.trace(pipeline.vector);
    for (std::size_t s = 0; s < chain.size(); ++s) {
      const int range = tables_->ranges().of(chain[s].layers.first, chain[s].layers.last);
      const int in_flight = stages.in_flight(chain.size() - s, pipeline.micro_batches);
      double least = kInfinity;
      Split split;
      for (int v = stages.first_variant(chain[s].port); v < stages.first_variant(chain[s].port + 1); ++v) {
        const Split& option = stages.variants()[static_cast<std::size_t>(v)].split;
        const double share = own_share(stages, v, range);
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

double Branch::sync_share(std::span<const Candidate> candidates) const {
  double largest = 0.0;
  for (const Candidate& candidate : candidates) {
    const StageTable& stages = tables_->stages(candidate.micro_batch);
    for (const CandidateStage& stage : candidate.stages) {
      const int range = tables_->ranges().of(stage.layers.first, stage.layers.last);
      largest = std::max(largest, own_share(stages, stages.variant_of(stage.port, stage.split), range));
    }
  }
  return largest;
}

}  // namespace hpplan
