#include "profile/profile_table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "base/check.hpp"
#include "base/text.hpp"
#include "domain/operators.hpp"
#include "profile/device_model.hpp"
#include "profile/recompute_choices.hpp"
#include "profile/synthesize.hpp"

namespace hpplan {

namespace {

/// The numbers of one layer as real values, so that they can be scaled and interpolated before they are rounded once.
struct Figures {
  double forward = 0.0;
  double backward = 0.0;
  double weight_gradient = 0.0;
  bool known_split = false;  // weight_gradient comes from a profile
  double saved = 0.0;
  struct Part {
    double forward = 0.0;
    double freed = 0.0;
  };
  std::map<std::string, Part> parts;  // operators that can be recomputed on their own
};

/// a + (b - a) * share, part by part; parts that only one side has are dropped.
Figures mix(const Figures& a, const Figures& b, double share) {
  const auto between = [share](double x, double y) { return x + (y - x) * share; };
  Figures mixed;
  mixed.forward = between(a.forward, b.forward);
  mixed.backward = between(a.backward, b.backward);
  mixed.weight_gradient = between(a.weight_gradient, b.weight_gradient);
  mixed.known_split = a.known_split && b.known_split;
  mixed.saved = between(a.saved, b.saved);
  for (const auto& [name, part] : a.parts) {
    const auto other = b.parts.find(name);
    if (other == b.parts.end()) continue;
    mixed.parts[name] = {between(part.forward, other->second.forward), between(part.freed, other->second.freed)};
  }
  return mixed;
}

double ratio(double numerator, double denominator) { return denominator > 0.0 ? numerator / denominator : 1.0; }

/// What the model says at `wanted`, scaled by how far `measured` is from the model where it was measured (`modelled`).
Figures scale(const Figures& wanted, const Figures& measured, const Figures& modelled) {
  Figures scaled;
  scaled.forward = wanted.forward * ratio(measured.forward, modelled.forward);
  scaled.backward = wanted.backward * ratio(measured.backward, modelled.backward);
  scaled.weight_gradient = wanted.weight_gradient * ratio(measured.weight_gradient, modelled.weight_gradient);
  scaled.known_split = measured.known_split;
  scaled.saved = wanted.saved * ratio(measured.saved, modelled.saved);
  for (const auto& [name, part] : wanted.parts) {
    const auto from = measured.parts.find(name);
    const auto model = modelled.parts.find(name);
    if (from == measured.parts.end() || model == modelled.parts.end()) continue;
    scaled.parts[name] = {part.forward * ratio(from->second.forward, model->second.forward),
                          part.freed * ratio(from->second.freed, model->second.freed)};
  }
  return scaled;
}

Figures modelled_figures(const DeviceSetting& setting, const LayerKind& kind, int samples) {
  const ModelledLayer layer = model_layer(setting, kind, samples);
  Figures figures;
  figures.forward = layer.total.forward.value();
  figures.backward = layer.total.backward.value();
  figures.weight_gradient = layer.total.weight_gradient.value();
  figures.saved = layer.saved.value();
  for (const RecomputePart& part : recompute_parts(layer)) {
    figures.parts[part.name] = {part.forward.value(), part.freed.value()};
  }
  return figures;
}

/// A measured point, with what it does not state filled in from the model and scaled to what it does state.
Figures measured_figures(const ProfilePoint& point, const Figures& modelled) {
  Figures figures;
  figures.forward = point.forward.value();
  figures.backward = point.backward.value();
  figures.weight_gradient = point.known_split ? point.weight_gradient.value()
                                              : modelled.weight_gradient * ratio(figures.backward, modelled.backward);
  figures.known_split = point.known_split;
  figures.saved = point.known_saved ? point.saved.value() : modelled.saved;
  for (const auto& [name, part] : modelled.parts) {
    figures.parts[name] = {part.forward * ratio(figures.forward, modelled.forward),
                           part.freed * ratio(figures.saved, modelled.saved)};
  }
  for (const ProfilePoint::Operator& measured : point.operators) {
    const auto part = figures.parts.find(measured.name);
    if (part != figures.parts.end()) part->second = {measured.forward.value(), measured.saved.value()};
  }
  return figures;
}

Bytes rounded(double bytes) { return Bytes{static_cast<std::int64_t>(std::llround(bytes))}; }

LayerCost cost_of(const Figures& figures, const DeviceSetting& setting, const LayerKind& kind, int samples,
                  Provenance provenance) {
  LayerCost cost;
  cost.forward = Seconds{figures.forward};
  cost.backward = Seconds{figures.backward};
  cost.weight_gradient = Seconds{figures.weight_gradient};
  cost.known_split = figures.known_split;
  cost.saved = rounded(figures.saved);
  cost.provenance = provenance;
  if (kind.role == LayerRole::Head) cost.workspace = head_workspace(setting.model, setting.tensor_parallel, samples);
  std::vector<RecomputePart> parts;
  for (const auto& [name, part] : figures.parts) parts.push_back({name, Seconds{part.forward}, rounded(part.freed)});
  const Bytes boundary = boundary_bytes(setting.model, setting.tensor_parallel, samples);
  cost.recompute = recompute_choices(kind, parts, {cost.forward, cost.saved, boundary});
  return cost;
}

using PointsByDegree = std::map<int, std::map<int, ProfilePoint>>;

/// Points of a layer kind. A profile with a single kind of block serves a model whose only kind of block is named
/// otherwise.
const PointsByDegree* points_of(const DeviceProfile& profile, const ModelSpec& model, const LayerKind& kind) {
  const auto named = [&](const std::string& name) -> const PointsByDegree* {
    const auto found = profile.points.find(name);
    return found == profile.points.end() || found->second.empty() ? nullptr : &found->second;
  };
  switch (kind.role) {
    case LayerRole::Embedding: return named("embedding");
    case LayerRole::Head: return named("head");
    case LayerRole::Block: break;
  }
  if (const PointsByDegree* points = named(kind.name)) return points;
  const auto block_kinds = std::count_if(model.kinds.begin(), model.kinds.end(),
                                         [](const LayerKind& k) { return k.role == LayerRole::Block; });
  const PointsByDegree* only = nullptr;
  int profiled = 0;
  for (const auto& [name, points] : profile.points) {
    if (name == "embedding" || name == "head" || points.empty()) continue;
    ++profiled;
    only = &points;
  }
  return block_kinds == 1 && profiled == 1 ? only : nullptr;
}

/// The measured TP degree nearest by factor; the smaller of two equally near.
int nearest_degree(const PointsByDegree& points, int wanted) {
  int best = points.begin()->first;
  for (const auto& [degree, series] : points) {
    const double distance = std::abs(std::log2(static_cast<double>(degree) / wanted));
    if (!series.empty() && distance < std::abs(std::log2(static_cast<double>(best) / wanted))) best = degree;
  }
  return best;
}

/// Where `samples` lies among the measured numbers: on one, between two, or outside (then both name the nearest).
struct Bracket {
  int below = 0;
  int above = 0;
};

Bracket bracket(const std::map<int, ProfilePoint>& series, int samples) {
  const auto above = series.lower_bound(samples);
  if (above == series.end()) return {series.rbegin()->first, series.rbegin()->first};
  if (above->first == samples || above == series.begin()) return {above->first, above->first};
  return {std::prev(above)->first, above->first};
}

/// The points of the TP degree that answers for the setting's: its own, or the nearest measured one.
struct Source {
  int tensor_parallel = 1;
  const std::map<int, ProfilePoint>& series;
};

/// A measured point as it is, or carried over from the source's TP degree to the setting's.
Figures point_figures(const Source& source, const DeviceSetting& setting, const LayerKind& kind, int samples) {
  const DeviceSetting measured_at{setting.model, setting.type, setting.link, source.tensor_parallel};
  const Figures modelled = modelled_figures(measured_at, kind, samples);
  const Figures measured = measured_figures(source.series.at(samples), modelled);
  if (source.tensor_parallel == setting.tensor_parallel) return measured;
  return scale(modelled_figures(setting, kind, samples), measured, modelled);
}

struct Lookup {
  Figures figures;
  Provenance provenance = Provenance::Modelled;
};

Lookup look_up(const Source& source, const DeviceSetting& setting, const LayerKind& kind, int samples) {
  const auto [below, above] = bracket(source.series, samples);
  const Figures first = point_figures(source, setting, kind, below);
  if (below == samples) return {first, Provenance::Measured};
  if (below < above) {
    const double share = static_cast<double>(samples - below) / (above - below);
    return {mix(first, point_figures(source, setting, kind, above), share), Provenance::Interpolated};
  }
  return {scale(modelled_figures(setting, kind, samples), first, modelled_figures(setting, kind, below)),
          Provenance::Modelled};
}

/// A synthesized profile speaks only for the figures it was made from.
bool applies(const DeviceProfile& profile, const DeviceType& type, const Link& link, int tensor_parallel) {
  if (!profile.basis) return true;
  const DeviceType& made_for = profile.basis->device;
  return made_for.peak == type.peak && made_for.memory_bandwidth == type.memory_bandwidth &&
         (tensor_parallel == 1 || profile.basis->intra_node == link);
}

const PointsByDegree* applicable_points(const DeviceProfile* profile, const DeviceSetting& setting,
                                        const LayerKind& kind) {
  if (profile == nullptr || !applies(*profile, setting.type, setting.link, setting.tensor_parallel)) return nullptr;
  return points_of(*profile, setting.model, kind);
}

/// "hidden is 1024, but the model's is 2560", or "" if equal or not stated.
template <typename Value>
std::string differs(const char* what, const Value& profiled, const Value& stated) {
  if (profiled == Value{} || stated == Value{} || profiled == stated) return "";
  return concat(what, " is ", profiled, ", but the model's is ", stated);
}

/// Parameters as tools count them: a tied matrix once or on both ends. 2 %: positions, biases and padding differ too.
std::string parameters_fault(double profiled, const ModelSpec& model) {
  constexpr double kTolerance = 0.02;
  const double stated = total_parameters(model);
  const double second_copy = model.tied_embeddings ? static_cast<double>(model.vocabulary) * model.hidden : 0.0;
  const auto near = [profiled](double count) { return std::abs(profiled - count) <= kTolerance * count; };
  if (profiled <= 0.0 || near(stated) || near(stated + second_copy)) return "";
  return concat("it has ", shortest(profiled), " parameters, but the model has ", shortest(stated));
}

}  // namespace

std::string to_text(const ProfileGap& gap) {
  return concat(gap.device_type, " tp", gap.tensor_parallel, " bs", gap.samples, " (", to_text(gap.instead), ")");
}

std::string profile_fault(const DeviceProfile& profile, const ModelSpec& model) {
  const ProfileShape& profiled = profile.shape;
  const ProfileShape stated = shape_of(model);
  for (const std::string& fault :
       {differs("hidden", profiled.hidden, stated.hidden), differs("heads", profiled.heads, stated.heads),
        differs("sequence", profiled.sequence, stated.sequence),
        differs("vocabulary", profiled.vocabulary, stated.vocabulary),
        differs("precision", profiled.precision, stated.precision)}) {
    if (!fault.empty()) return fault;
  }
  // More layers than were profiled is fine: layers of a kind repeat. Parameters then differ as well.
  if (profiled.layers == 0 || profiled.layers == stated.layers) {
    return parameters_fault(profiled.parameters, model);
  }
  return "";
}

ProfileTable::ProfileTable(std::vector<DeviceProfile> profiles) : profiles_(std::move(profiles)) {}

const DeviceProfile* ProfileTable::find(const ModelSpec& model, const DeviceType& type) const {
  const DeviceProfile* found = nullptr;
  for (const DeviceProfile& profile : profiles_) {
    if (profile.device_type != type.name || profile.model != model.name) continue;
    if (!profile_fault(profile, model).empty()) continue;
    if (found == nullptr || (found->synthesized && !profile.synthesized)) found = &profile;
  }
  return found;
}

LayerCost ProfileTable::layer_cost(const ModelSpec& model, const LayerKind& kind, const DeviceType& type,
                                   const Link& intra_node, int tensor_parallel, int samples) const {
  const DeviceSetting setting{model, type, intra_node, tensor_parallel};
  const DeviceProfile* profile = find(model, type);
  const PointsByDegree* points = applicable_points(profile, setting, kind);
  if (points == nullptr) {
    return cost_of(modelled_figures(setting, kind, samples), setting, kind, samples, Provenance::Modelled);
  }
  const int degree = nearest_degree(*points, tensor_parallel);
  const Lookup lookup = look_up({degree, points->at(degree)}, setting, kind, samples);
  const bool measured = !profile->synthesized && degree == tensor_parallel;
  return cost_of(lookup.figures, setting, kind, samples, measured ? lookup.provenance : Provenance::Modelled);
}

std::optional<Seconds> ProfileTable::optimizer_time(const ModelSpec& model, const DeviceType& type, int tensor_parallel,
                                                    double parameters) const {
  const DeviceProfile* profile = find(model, type);
  if (profile == nullptr || profile->optimizer_per_parameter.empty()) return std::nullopt;
  const std::map<int, Seconds>& measured = profile->optimizer_per_parameter;
  const auto exact = measured.find(tensor_parallel);
  if (exact != measured.end()) return exact->second * parameters;
  // Between degrees the time per parameter hardly changes: take the nearest below, else the smallest measured.
  const auto above = measured.upper_bound(tensor_parallel);
  return (above == measured.begin() ? above : std::prev(above))->second * parameters;
}

std::vector<std::string> ProfileTable::unmeasured_ends(const ModelSpec& model, const DeviceType& type) const {
  const DeviceProfile* profile = find(model, type);
  std::vector<std::string> names;
  if (profile == nullptr || profile->synthesized) return names;
  for (const LayerKind& kind : model.kinds) {
    if (kind.role != LayerRole::Block && points_of(*profile, model, kind) == nullptr) names.push_back(kind.name);
  }
  return names;
}

std::vector<ProfileGap> ProfileTable::gaps(const ModelSpec& model, const DeviceType& type,
                                           const std::vector<int>& tensor_parallel,
                                           const std::vector<int>& samples) const {
  const DeviceProfile* profile = find(model, type);
  std::vector<ProfileGap> gaps;
  if (profile == nullptr || profile->synthesized) return gaps;
  for (const int degree : tensor_parallel) {
    for (const int count : samples) {
      Provenance worst = Provenance::Measured;
      for (const LayerKind& kind : model.kinds) {
        const PointsByDegree* points = points_of(*profile, model, kind);
        if (points == nullptr && kind.role != LayerRole::Block) continue;  // a whole kind, see unmeasured_ends
        const auto series = points == nullptr ? PointsByDegree::const_iterator{} : points->find(degree);
        if (points == nullptr || series == points->end() || count < series->second.begin()->first ||
            count > series->second.rbegin()->first) {
          worst = Provenance::Modelled;
        } else if (series->second.count(count) == 0) {
          worst = std::max(worst, Provenance::Interpolated);
        }
      }
      if (worst != Provenance::Measured) gaps.push_back({type.name, degree, count, worst});
    }
  }
  return gaps;
}

}  // namespace hpplan
