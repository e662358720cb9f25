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
  Seconds backward;                        // input and weight gradient together
  Seconds weight_gradient;                 // the part of backward that a split-backward schedule may delay
  bool known_split = false;                // a profile states weight_gradient; else it is the modelled share
  Bytes saved;                             // kept from forward to backward when nothing is recomputed
  Bytes workspace;                         // logits and loss of the head; 0 elsewhere
  std::vector<RecomputeChoice> recompute;  // always starts with "nothing"; ascending in freed and in extra
  Provenance provenance = Provenance::Modelled;
};

/// One measured point of a profile: a layer kind at one TP degree and one number of samples per replica.
struct ProfilePoint {
  Seconds forward;
  Seconds backward;
  Seconds weight_gradient;  // 0 with known_split == false
  Bytes saved;
  double parameters = 0.0;   // elements on one device; 0: not stated
  bool known_split = false;  // weight_gradient was measured
  bool known_saved = false;
  struct Operator {
    std::string name;
    Seconds forward;
    Bytes saved;  // bytes that recomputing it frees
  };
  std::vector<Operator> operators;  // may be empty
};

/// Shape of the model that was profiled, to notice a profile of another model. 0 or "": not stated.
struct ProfileShape {
  int layers = 0;  // all layers, embedding and head included
  int hidden = 0;
  int heads = 0;
  int sequence = 0;
  int vocabulary = 0;
  double parameters = 0.0;  // of the whole model
  std::string precision;

  friend bool operator==(const ProfileShape&, const ProfileShape&) = default;
};

/// The figures a synthesized profile was made from; it is worth nothing for a device or link that differs.
struct ProfileBasis {
  DeviceType device;
  Link intra_node;

  friend bool operator==(const ProfileBasis&, const ProfileBasis&) = default;
};

/// One point of a measured link curve.
struct LinkPoint {
  Bytes size;
  BytesPerSecond bandwidth;

  friend bool operator==(const LinkPoint&, const LinkPoint&) = default;
};

/// Measured (or synthesized) numbers of one device type for one model.
struct DeviceProfile {
  std::string device_type;
  std::string model;
  std::string origin;        // how the numbers were obtained; shown by `profile show`
  bool synthesized = false;  // points count as modelled, not measured
  /// points[kind name][tp][samples]; kinds: "embedding", the block kinds' names, "head"
  std::map<std::string, std::map<int, std::map<int, ProfilePoint>>> points;
  std::map<int, Seconds>
      optimizer_per_parameter;     // by TP degree: optimizer time / parameters on the device; may be empty
  std::vector<std::string> notes;  // assumptions of an import, each said once
  std::string digest;
  ProfileShape shape;
  std::optional<ProfileBasis> basis;                    // of a synthesized profile
  std::map<std::string, std::vector<LinkPoint>> links;  // by link name, ascending in size; may be empty
  std::string file;                                     // where it was read from, for messages; "" when made in memory
};

/// A point that a plan would need and no profile measured.
struct ProfileGap {
  std::string device_type;
  int tensor_parallel = 1;
  int samples = 1;
  Provenance instead = Provenance::Modelled;  // what is used in its place

  friend bool operator==(const ProfileGap&, const ProfileGap&) = default;
};

/// "ascend-910b4 tp8 bs1 (modelled)": how messages name a gap.
[[nodiscard]] std::string to_text(const ProfileGap& gap);

/// Why `profile` does not describe `model` ("hidden 1024, but the model has 2560"), or "" if nothing speaks against it.
[[nodiscard]] std::string profile_fault(const DeviceProfile& profile, const ModelSpec& model);

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
  [[nodiscard]] std::optional<Seconds> optimizer_time(const ModelSpec& model, const DeviceType& type,
                                                      int tensor_parallel, double parameters) const;

  /// Combinations of the given TP degrees and numbers of samples that a profile of this type and model lacks, each
  /// once, in ascending order. Nothing if there is no measured profile of the pair at all: then all is modelled.
  [[nodiscard]] std::vector<ProfileGap> gaps(const ModelSpec& model, const DeviceType& type,
                                             const std::vector<int>& tensor_parallel,
                                             const std::vector<int>& samples) const;

  /// Names of the embedding and the head where a measured profile of the pair has no point of them: they are modelled.
  /// `gaps` leaves them out: they would make a gap of every point.
  [[nodiscard]] std::vector<std::string> unmeasured_ends(const ModelSpec& model, const DeviceType& type) const;

  /// The profile used for the pair, measured ones before synthesized ones; nullptr if there is none.
  [[nodiscard]] const DeviceProfile* find(const ModelSpec& model, const DeviceType& type) const;

 private:
  std::vector<DeviceProfile> profiles_;
};

}  // namespace hpplan
