#include "profile/synthesize.hpp"

#include "base/text.hpp"
#include "domain/operators.hpp"
#include "profile/device_model.hpp"
#include "profile/recompute_choices.hpp"

namespace hpplan {

namespace {

std::string points_name(const LayerKind& kind) {
  switch (kind.role) {
    case LayerRole::Embedding: return "embedding";
    case LayerRole::Head: return "head";
    case LayerRole::Block: break;
  }
  return kind.name;
}

ProfilePoint point_of(const DeviceSetting& setting, const LayerKind& kind, int samples) {
  const ModelledLayer layer = model_layer(setting, kind, samples);
  ProfilePoint point;
  point.forward = layer.total.forward;
  point.backward = layer.total.backward;
  point.weight_gradient = layer.total.weight_gradient;
  point.known_split = true;
  point.saved = layer.saved;
  point.known_saved = true;
  point.parameters = device_parameters(setting.model, kind, setting.tensor_parallel);
  for (const RecomputePart& part : recompute_parts(layer))
    point.operators.push_back({part.name, part.forward, part.freed});
  return point;
}

}  // namespace

ProfileShape shape_of(const ModelSpec& model) {
  ProfileShape shape;
  shape.layers = model.layer_count();
  shape.hidden = model.hidden;
  for (const LayerKind& kind : model.kinds) {
    if (kind.attention && shape.heads == 0) shape.heads = kind.attention->heads;
  }
  shape.sequence = model.sequence;
  shape.vocabulary = model.vocabulary;
  shape.parameters = total_parameters(model);
  shape.precision = model.precision;
  return shape;
}

DeviceProfile synthesize_profile(const SynthesisRequest& request) {
  DeviceProfile profile;
  profile.device_type = request.type.name;
  profile.model = request.model.name;
  profile.origin = "synthesized from device figures, not measured";
  profile.synthesized = true;
  profile.shape = shape_of(request.model);
  profile.basis = ProfileBasis{request.type, request.intra_node};
  for (const int degree : request.tensor_parallel) {
    if (!tensor_parallel_fault(request.model, degree).empty()) continue;
    const DeviceSetting setting{request.model, request.type, request.intra_node, degree};
    for (const LayerKind& kind : request.model.kinds) {
      for (const int samples : request.samples) {
        profile.points[points_name(kind)][degree][samples] = point_of(setting, kind, samples);
      }
    }
  }
  return profile;
}

}  // namespace hpplan
