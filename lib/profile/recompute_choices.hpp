#pragma once

#include <string>
#include <vector>

#include "base/units.hpp"
#include "domain/model.hpp"
#include "profile/device_model.hpp"
#include "profile/profile_table.hpp"

namespace hpplan {

/// One operator that can be recomputed on its own. "mlp" stands for the feed-forward part up to its last product.
struct RecomputePart {
  std::string name;
  Seconds forward;
  Bytes freed;
};

/// The recomputable operators of a modelled layer, in execution order, feed-forward operators joined to "mlp".
[[nodiscard]] std::vector<RecomputePart> recompute_parts(const ModelledLayer& layer);

/// The layer as a whole: what full recomputation needs to know.
struct RecomputeLayer {
  Seconds forward;  // added to the backward by full recomputation
  Bytes saved;      // kept when nothing is recomputed
  Bytes boundary;   // kept even by full recomputation: the layer's input
};

/// The useful closed sets of operators of `kind`: nothing; dropout; the attention core (score, softmax, dropout);
/// qkv and the core; mlp; the core and mlp; the full layer. A set counts only if no other set frees as much for less.
/// Closed: what recomputing an operator reads is kept or recomputed as well. `live` is what a partial set frees, and
/// the whole of `saved` for the full layer, whose stored input exists besides its working set.
/// Source: Korthikanti et al. 2022 (selective recomputation); search-notes C.3 (the list and its closure).
[[nodiscard]] std::vector<RecomputeChoice> recompute_choices(const LayerKind& kind,
                                                             const std::vector<RecomputePart>& parts,
                                                             const RecomputeLayer& layer);

}  // namespace hpplan
