#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "domain/cluster.hpp"
#include "domain/model.hpp"
#include "domain/plan.hpp"

namespace hpplan {

/// One way to save memory in a layer: recompute `operators` in the backward pass.
struct RecomputeChoice {
  std::vector<std::string> operators;  // closed under dependency, in glossary order; empty: nothing is recomputed
  Bytes freed;                         // bytes per layer and micro-batch that are no longer kept
  Seconds extra;                       // added to the layer's backward: the forward of what is recomputed
  Bytes live;                          // bytes that exist again while this layer's backward runs

  friend bool operator==(const RecomputeChoice&, const RecomputeChoice&) = default;
};

/// What one layer costs on one device of a TP group, for one micro-batch of the replica's samples.
struct LayerCost {
  Seconds forward;
  Seconds backward;                    // input and weight gradient together
  Seconds weight_gradient;             // the part of backward that a split-backward schedule may delay
  Bytes saved;                         // kept from forward to backward when nothing is recomputed
  Bytes workspace;                     // logits and loss of the head; 0 elsewhere
  std::vector<RecomputeChoice> recompute;  // always starts with "nothing"; ascending in freed and in extra
  Provenance provenance = Provenance::Modelled;
};

/// One measured point of a profile: a layer kind at one TP degree and one number of samples per replica.
struct ProfilePoint {
  Seconds forward;
  Seconds backward;
  Seconds weight_gradient;             // 0 with known_split == false
  Bytes saved;
  double parameters = 0.0;             // elements on one device; 0: not stated
  bool known_split = false;            // weight_gradient was measured
  bool known_saved = false;
  struct Operator {
    std::string name;
    Seconds forward;
    Bytes saved;                       // bytes that recomputing it frees
  };
  std::vector<Operator> operators;     // may be empty
};

/// Measured (or synthesized) numbers of one device type for one model.
struct DeviceProfile {
  std::string device_type;
  std::string model;
  std::string origin;                  // how the numbers were obtained; shown by `profile show`
  bool synthesized = false;            // points count as modelled, not measured
  /// points[kind name][tp][samples]; kinds: "embedding", the block kinds' names, "head"
  std::map<std::string, std::map<int, std::map<int, ProfilePoint>>> points;
  std::map<int, Seconds> optimizer_per_parameter;  // by TP degree: optimizer time / parameters on the device; may be empty
  std::vector<std::string> notes;      // assumptions of an import, each said once
  std::string digest;
};

/// All profiles of a problem, with typed lookup.
class ProfileTable {
 public:
  ProfileTable() = default;
  explicit ProfileTable(std::vector<DeviceProfile> profiles);

  [[nodiscard]] const std::vector<DeviceProfile>& profiles() const { return profiles_; }

  /// Cost of layer kind `kind` of `model` on `type`, TP degree `tensor_parallel`, `samples` samples per replica.
  /// Measured points are returned as they are; between measured batch sizes (same TP) it interpolates; outside, or
  /// without a profile, it models from the device's figures, scaled to the nearest measured point of the kind if any.
  [[nodiscard]] LayerCost layer_cost(const ModelSpec& model, const LayerKind& kind, const DeviceType& type,
                                     const Link& intra_node, int tensor_parallel, int samples) const;

  /// Optimizer time for `parameters` elements on one device of `type`; nothing if no profile measured it.
  [[nodiscard]] std::optional<Seconds> optimizer_time(const ModelSpec& model, const DeviceType& type, int tensor_parallel,
                                                      double parameters) const;

 private:
  std::vector<DeviceProfile> profiles_;
};

}  // namespace hpplan
