#pragma once

#include <vector>

#include "domain/cluster.hpp"
#include "domain/model.hpp"
#include "profile/profile_table.hpp"

namespace hpplan {

/// What to synthesize a profile from.
struct SynthesisRequest {
  const ModelSpec& model;
  const DeviceType& type;
  const Link& intra_node;
  std::vector<int> tensor_parallel;  // degrees the model does not allow are left out
  std::vector<int> samples;
};

/// The profile that a device of these figures would have if it were as fast as modelled. Looking its points up gives
/// exactly what modelling gives, marked as modelled.
[[nodiscard]] DeviceProfile synthesize_profile(const SynthesisRequest& request);

/// Shape figures of a model, as a profile states them.
[[nodiscard]] ProfileShape shape_of(const ModelSpec& model);

}  // namespace hpplan
