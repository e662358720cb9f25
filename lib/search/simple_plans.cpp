#include "search/simple_plans.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "predict/link.hpp"
#include "search/layer_cut.hpp"
#include "search/stage_menu.hpp"

namespace hpplan {

namespace {

/// Layouts whose exact time is worked out, of each number of pipelines, and how many of those are kept: the sync is
/// known too roughly to compare different numbers of pipelines.
constexpr std::size_t kMostEvaluated = 100;
constexpr std::size_t kKept = 8;
/// The estimate is a little below the exact time: layouts this much above the best exact time are hopeless.
constexpr double kFarAbove = 1.02;
/// Node groups whose orders along a pipeline are all tried; with more only the given one and its reverse.
constexpr std::size_t kMostPermuted = 3;
/// Layouts of one micro-batch size and number of pipelines: the more node groups, the fewer shapes of each.
constexpr double kMostLayouts = 1500.0;
/// Of the pipelines inside one node group, so many are worked out for each number of them and of replicas on a node; of
/// the plans out of such, so many are looked at in all and kept for each number of pipelines.
constexpr std::size_t kPureEvaluated = 3;
constexpr std::size_t kMostPure = 4000;
constexpr std::size_t kPureKept = 4;

/// One way to run the stages of a node group.
struct Shape {
  int variant = 0;
  int devices = 0;
  double model_time = 0.0;  // of one micro-batch through all layers, as if cut into single layers
};

/// Equal stages next to each other.
struct Segment {
  Shape shape;
  int stages = 0;
};

/// `pipelines` equal pipelines.
struct Layout {
  int micro_batch = 1;
  int pipelines = 1;
  std::vector<Segment> segments;
  double estimate = 0.0;  // seconds; little more than the ideal time and the fill
};

class SimplePlanSearch {
 public:
  explicit SimplePlanSearch(SearchTables& tables) : tables_(tables), problem_(tables.problem()) {}

  std::vector<SimplePlan> run(std::span<const int> micro_batches) {
    for (const int b : micro_batches) {
      if (b <= problem_.job.global_batch) collect_shapes(b);
    }
    add_alike();
    add_by_type();
    std::stable_sort(scored_.begin(), scored_.end(),
                     [](const SimplePlan& a, const SimplePlan& b) { return a.time < b.time; });
    std::vector<SimplePlan> plans;
    std::set<std::vector<Candidate>> seen;
    for (SimplePlan& scored : scored_) {
      if (seen.insert(scored.pipelines).second) plans.push_back(std::move(scored));
    }
    return plans;
  }

 private:
  using Shapes = std::vector<std::vector<Shape>>;  // by node group

  [[nodiscard]] std::size_t groups() const { return problem_.cluster.node_groups.size(); }
  [[nodiscard]] int layers() const { return problem_.model.layer_count(); }
  [[nodiscard]] int devices_of(std::size_t group) const {
    return problem_.places.device_count(static_cast<int>(group));
  }

  void collect_shapes(int micro_batch) {
    const StageTable& stages = tables_.stages(micro_batch);
    Shapes shapes(groups());
    for (std::size_t v = 0; v < stages.variants().size(); ++v) {
      const Port& port = tables_.space().ports[static_cast<std::size_t>(stages.variants()[v].port)];
      const NodeGroup& group = problem_.cluster.node_groups[static_cast<std::size_t>(port.group)];
      const int nodes = port.devices / group.devices_per_node;
      if (nodes > 1 && (nodes & (nodes - 1)) != 0 && group.nodes % nodes != 0) continue;
      double sum = 0.0;
      int fitting = 0;
      for (int layer = 0; layer < layers(); ++layer) {
        const double time = stages.time(static_cast<int>(v), tables_.ranges().of(layer, layer + 1), 1);
        if (time == kInfinity) continue;
        sum += time;
        ++fitting;
      }
      if (fitting == 0) continue;
      shapes[static_cast<std::size_t>(port.group)].push_back(
          {static_cast<int>(v), port.devices, sum / fitting * layers()});
    }
    shapes_.emplace_back(micro_batch, std::move(shapes));
  }

  /// Numbers of pipelines to try, from `least` on: 1, 2, 3, 4, 6, 8, 12, 16, .. and the divisors of the groups' node
  /// counts.
  [[nodiscard]] std::vector<int> pipeline_counts(int least) const {
    const int most = std::min(tables_.space().max_pipelines, problem_.job.global_batch);
    std::set<int> counts;
    for (int power = 1; power <= most; power *= 2) {
      counts.insert(power);
      counts.insert(power + power / 2);
    }
    for (const NodeGroup& group : problem_.cluster.node_groups) {
      for (int p = 1; p <= group.nodes; ++p) {
        if (group.nodes % p == 0) counts.insert(p);
      }
    }
    counts.insert(least);
    std::vector<int> list;
    std::copy_if(counts.begin(), counts.end(), std::back_inserter(list),
                 [&](int p) { return p >= least && p <= most; });
    return list;
  }

  [[nodiscard]] bool stages_allowed(int stages) const {
    return problem_.job.constraints.stages.allows(stages) && stages <= tables_.space().max_stages;
  }

  /// 1F1B time of `layout` with its layers cut freely.
  [[nodiscard]] double estimate(const Layout& layout) const {
    double rate = 0.0;
    int stages = 0;
    for (const Segment& segment : layout.segments) {
      rate += segment.stages / segment.shape.model_time;
      stages += segment.stages;
    }
    const double micro_batches =
        std::max(1.0, problem_.job.global_batch / static_cast<double>(layout.pipelines) / layout.micro_batch);
    return (micro_batches + stages - 1) / rate;
  }

  // ---- alike ----

  void add_alike() {
    if (problem_.job.constraints.type_pure && groups() > 1) return;
    for (const int pipelines : pipeline_counts(std::max(1, problem_.job.constraints.pipelines.min))) {
      std::vector<Layout> layouts;
      for (const auto& [micro_batch, shapes] : shapes_) {
        if (problem_.job.global_batch % micro_batch != 0) continue;
        if (static_cast<std::int64_t>(pipelines) * micro_batch > problem_.job.global_batch) continue;
        combine(micro_batch, pipelines, shapes, layouts);
      }
      evaluate(layouts);
    }
  }

  /// The best shapes of a group for this many pipelines, as segments; the last one leaves the group out.
  [[nodiscard]] std::vector<Segment> segments_of(std::size_t group, int pipelines, int micro_batch,
                                                 const std::vector<Shape>& shapes) const {
    std::vector<std::pair<double, Segment>> ranked;
    for (const Shape& shape : shapes) {
      const Segment segment{shape, devices_of(group) / (pipelines * shape.devices)};
      if (segment.stages < 1 || segment.stages > layers()) continue;
      ranked.emplace_back(estimate({micro_batch, pipelines, {segment}, 0.0}), segment);
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    const auto most = static_cast<std::size_t>(std::pow(kMostLayouts, 1.0 / static_cast<double>(groups())));
    if (ranked.size() > most) ranked.resize(most);
    std::vector<Segment> segments;
    for (const auto& entry : ranked) segments.push_back(entry.second);
    segments.push_back({});
    return segments;
  }

  void combine(int micro_batch, int pipelines, const Shapes& shapes, std::vector<Layout>& layouts) const {
    tables_.check_stop();
    std::vector<std::vector<Segment>> choices;
    for (std::size_t g = 0; g < groups(); ++g) choices.push_back(segments_of(g, pipelines, micro_batch, shapes[g]));
    Layout layout{micro_batch, pipelines, {}, 0.0};
    choose(choices, layout, layouts);
  }

  void choose(const std::vector<std::vector<Segment>>& choices, Layout& layout, std::vector<Layout>& layouts) const {
    const std::size_t g = layout.segments.size();
    if (g < choices.size()) {
      for (const Segment& segment : choices[g]) {
        layout.segments.push_back(segment);
        choose(choices, layout, layouts);
        layout.segments.pop_back();
      }
      return;
    }
    Layout used = layout;
    std::erase_if(used.segments, [](const Segment& segment) { return segment.stages == 0; });
    int stages = 0;
    for (const Segment& segment : used.segments) stages += segment.stages;
    if (!stages_allowed(stages)) return;
    used.estimate = estimate(used);
    layouts.push_back(std::move(used));
  }

  /// Orders of the segments along a pipeline. A first segment that also ends the pipeline gives its last stage to the
  /// end: the head is the dearest layer, and the deepest memory is needed in front.
  [[nodiscard]] std::vector<std::vector<Segment>> orders(const Layout& layout) const {
    std::vector<std::size_t> order(layout.segments.size());
    std::iota(order.begin(), order.end(), 0);
    std::vector<std::vector<Segment>> all;
    const auto add = [&] {
      std::vector<Segment> segments;
      for (const std::size_t i : order) segments.push_back(layout.segments[i]);
      all.push_back(segments);
      if (segments.size() < 2 || segments.front().stages < 2) return;
      segments.push_back({segments.front().shape, 1});
      --segments.front().stages;
      all.push_back(std::move(segments));
    };
    if (order.size() <= kMostPermuted) {
      do add();
      while (std::next_permutation(order.begin(), order.end()));
    } else {
      add();
      std::reverse(order.begin(), order.end());
      add();
    }
    return all;
  }

  [[nodiscard]] static std::vector<int> variants_of(const std::vector<Segment>& segments) {
    std::vector<int> variants;
    for (const Segment& segment : segments) {
      variants.insert(variants.end(), static_cast<std::size_t>(segment.stages), segment.shape.variant);
    }
    return variants;
  }

  void evaluate(std::vector<Layout>& layouts) {
    const auto faster = [](const Layout& a, const Layout& b) { return a.estimate < b.estimate; };
    std::stable_sort(layouts.begin(), layouts.end(), faster);
    double best = kInfinity;
    std::size_t evaluated = 0;
    std::vector<SimplePlan> found;
    for (const Layout& layout : layouts) {
      if (evaluated >= kMostEvaluated || layout.estimate > best * kFarAbove) break;
      tables_.check_stop();
      bool fits = false;
      for (const std::vector<Segment>& order : orders(layout)) {
        const std::optional<SimplePlan> scored = score(layout, order);
        if (!scored) continue;
        fits = true;
        best = std::min(best, scored->time);
        found.push_back(*scored);
      }
      evaluated += fits ? 1 : 0;
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const SimplePlan& a, const SimplePlan& b) { return a.time < b.time; });
    if (found.size() > kKept) found.resize(kKept);
    scored_.insert(scored_.end(), found.begin(), found.end());
  }

  [[nodiscard]] std::optional<SimplePlan> score(const Layout& layout, const std::vector<Segment>& order) {
    const int samples = problem_.job.global_batch / layout.pipelines;
    const int micro_batches = (samples + layout.micro_batch - 1) / layout.micro_batch;
    const std::optional<LayerCut> cut = cut_layers(tables_, layout.micro_batch, variants_of(order), micro_batches);
    if (!cut) return std::nullopt;
    const double time = timer_of(cut->pipeline).time(micro_batches);
    if (time == kInfinity) return std::nullopt;
    return SimplePlan{time + tail(cut->pipeline, layout.pipelines),
                      std::vector<Candidate>(static_cast<std::size_t>(layout.pipelines), cut->pipeline)};
  }

  [[nodiscard]] PipelineTimer timer_of(const Candidate& pipeline) {
    return {tables_, pipeline, best_links(tables_, pipeline)};
  }

  [[nodiscard]] double tail(const Candidate& candidate, int pipelines) {
    return pipeline_tail(tables_, candidate, {{pipelines, pipelines}});
  }

  // ---- by type ----

  /// Equal pipelines inside one node group, with what they can do.
  struct Pure {
    Candidate candidate;
    int pipelines = 1;
    double bottleneck = 0.0;  // seconds per micro-batch
    double fill = 0.0;        // seconds before and after the steady state
    int on_node = 1;          // replicas of a layer on one node
    double tail = 0.0;        // seconds after it, in a plan of so many pipelines as are being looked at
    /// Samples by `time`.
    [[nodiscard]] double samples(double time) const {
      return std::max(0.0, std::floor((time - tail - fill) / bottleneck)) * pipelines * candidate.micro_batch;
    }
  };
  /// Those of one group and one number of pipelines.
  using PureOptions = std::vector<Pure>;

  void add_by_type() {
    std::vector<std::vector<PureOptions>> pure;  // by group; the last of each leaves the group out
    for (std::size_t g = 0; g < groups(); ++g) {
      pure.push_back(pure_options(g));
      pure.back().push_back({});
    }
    std::vector<SimplePlan> found;
    std::vector<const PureOptions*> chosen;
    choose_pure(pure, chosen, found);
    std::stable_sort(found.begin(), found.end(),
                     [](const SimplePlan& a, const SimplePlan& b) { return a.time < b.time; });
    std::map<std::size_t, std::size_t> kept;  // by number of pipelines
    for (SimplePlan& plan : found) {
      if (kept[plan.pipelines.size()]++ < kPureKept) scored_.push_back(std::move(plan));
    }
  }

  void choose_pure(const std::vector<std::vector<PureOptions>>& pure, std::vector<const PureOptions*>& chosen,
                   std::vector<SimplePlan>& found) {
    if (found.size() >= kMostPure) return;
    if (chosen.size() == pure.size()) {
      std::set<int> on_node{0};
      for (const PureOptions* options : chosen) {
        for (const Pure& option : *options) on_node.insert(option.on_node);
      }
      for (const int count : on_node) {
        if (auto plan = share_batch(chosen, count)) found.push_back(std::move(*plan));
      }
      return;
    }
    for (const PureOptions& options : pure[chosen.size()]) {
      chosen.push_back(&options);
      choose_pure(pure, chosen, found);
      chosen.pop_back();
    }
  }

  /// The plan of the groups' best options by the time at which all together finish the batch.
  ///   on_node   replicas of a layer on each node, the same everywhere, so that the gradient sync reduces inside the
  ///   nodes
  ///             first; 0: any, the sync is one ring
  [[nodiscard]] std::optional<SimplePlan> share_batch(const std::vector<const PureOptions*>& chosen, int on_node) {
    tables_.check_stop();
    int pipelines = 0;
    std::vector<PureOptions> used;
    for (const PureOptions* options : chosen) {
      if (options->empty()) continue;
      pipelines += options->front().pipelines;
      used.push_back(*options);
      std::erase_if(used.back(), [&](const Pure& option) { return on_node > 0 && option.on_node != on_node; });
      if (used.back().empty()) return std::nullopt;
    }
    if (pipelines == 0 || !problem_.job.constraints.pipelines.allows(pipelines)) return std::nullopt;
    if (pipelines > tables_.space().max_pipelines) return std::nullopt;
    for (PureOptions& options : used) {
      for (Pure& option : options) {
        // Groups share no node.
        option.tail = on_node > 0 ? pipeline_tail(tables_, option.candidate, {{pipelines, pipelines}, used.size() > 1})
                                  : ring_tail(option.candidate, pipelines);
      }
    }
    const auto best_at = [](const PureOptions& options, double time) {
      return std::max_element(options.begin(), options.end(),
                              [&](const Pure& a, const Pure& b) { return a.samples(time) < b.samples(time); });
    };
    const auto made = [&](double time) {
      double sum = 0.0;
      for (const PureOptions& options : used) sum += best_at(options, time)->samples(time);
      return sum;
    };
    const double need = problem_.job.global_batch;
    double high = 1.0;
    while (made(high) < need && high < 1e12) high *= 2.0;
    double low = 0.0;
    for (int i = 0; i < 40; ++i) {
      const double middle = 0.5 * (low + high);
      (made(middle) < need ? low : high) = middle;
    }
    SimplePlan plan;
    for (const PureOptions& options : used) {
      const auto best = best_at(options, high);
      if (best->samples(high) <= 0.0) return std::nullopt;
      plan.pipelines.insert(plan.pipelines.end(), static_cast<std::size_t>(best->pipelines), best->candidate);
    }
    plan.time = high;
    return plan;
  }

  /// Seconds after a pipeline if the gradients are reduced in one ring between nodes.
  [[nodiscard]] double ring_tail(const Candidate& pipeline, int pipelines) {
    const StageTable& table = tables_.stages(pipeline.micro_batch);
    double most = 0.0;
    for (const CandidateStage& stage : pipeline.stages) {
      const int variant = table.variant_of(stage.port, stage.split);
      const int range = tables_.ranges().of(stage.layers.first, stage.layers.last);
      const int group = tables_.space().ports[static_cast<std::size_t>(stage.port)].group;
      const double share = inter_node_share(problem_.cluster.node_groups[static_cast<std::size_t>(group)]).value();
      const double members = stage.split.data_parallel + pipelines - 1;
      most = std::max(most, 2.0 * (members - 1.0) / members * table.held(variant, range).value() / share +
                                table.optimizer(variant, range));
    }
    return most;
  }

  /// The best of each number of pipelines of the group alone, as if it made its share of the batch by its devices.
  [[nodiscard]] std::vector<PureOptions> pure_options(std::size_t group) {
    double devices = 0.0;
    for (std::size_t g = 0; g < groups(); ++g) devices += devices_of(g);
    const double share = devices_of(group) / devices;
    std::vector<PureOptions> all;
    for (const int pipelines : pipeline_counts(1)) {
      std::vector<Layout> layouts;
      for (const auto& [micro_batch, shapes] : shapes_) {
        for (const Shape& shape : shapes[group]) {
          const int stages = devices_of(group) / (pipelines * shape.devices);
          if (stages < 1 || !stages_allowed(stages)) continue;
          const double micro_batches = problem_.job.global_batch * share / pipelines / micro_batch;
          if (micro_batches < 1.0) continue;
          layouts.push_back({micro_batch, pipelines, {{shape, stages}}, 0.0});
          layouts.back().estimate = (micro_batches + stages - 1) * shape.model_time / stages;
        }
      }
      std::stable_sort(layouts.begin(), layouts.end(),
                       [](const Layout& a, const Layout& b) { return a.estimate < b.estimate; });
      PureOptions options;
      std::map<int, std::size_t> known;  // by replicas on a node
      for (const Layout& layout : layouts) {
        const Variant& variant = tables_.stages(layout.micro_batch)
                                     .variants()[static_cast<std::size_t>(layout.segments.front().shape.variant)];
        const int per_node = problem_.cluster.node_groups[group].devices_per_node;
        const int on_node =
            std::max(1, std::min(layout.segments.front().shape.devices, per_node) / variant.split.tensor_parallel);
        if (known[on_node] >= kPureEvaluated) continue;
        tables_.check_stop();
        const auto micro_batches = static_cast<int>(problem_.job.global_batch * share / pipelines / layout.micro_batch);
        const auto cut = cut_layers(tables_, layout.micro_batch, variants_of(layout.segments), micro_batches);
        if (!cut) continue;
        const double whole = timer_of(cut->pipeline).time(micro_batches);
        if (whole == kInfinity) continue;
        ++known[on_node];
        options.push_back({cut->pipeline, pipelines, cut->slowest, std::max(0.0, whole - micro_batches * cut->slowest),
                           on_node, 0.0});
      }
      if (!options.empty()) all.push_back(std::move(options));
    }
    return all;
  }

  SearchTables& tables_;
  const Problem& problem_;
  std::vector<std::pair<int, Shapes>> shapes_;  // by micro-batch size
  std::vector<SimplePlan> scored_;
};

}  // namespace

std::vector<SimplePlan> simple_plans(SearchTables& tables) {
  return simple_plans(tables, tables.problem().job.micro_batches);
}

std::vector<SimplePlan> simple_plans(SearchTables& tables, std::span<const int> micro_batches) {
  return SimplePlanSearch(tables).run(micro_batches);
}

}  // namespace hpplan
