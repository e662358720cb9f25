#pragma once

#include <vector>

#include "io/document.hpp"
#include "io/profile_import.hpp"

namespace hpplan::detail {

/// Whether a JSON document is one of Galvatron's profiles: computation_profiling_*.json or memory_profiling_*.json.
[[nodiscard]] bool is_galvatron_profile(const Reader& root);

/// The profile that Galvatron's files hold together: times of a computation profile, saved bytes and parameters of a
/// memory profile of the same model where it is among the files. What Galvatron measures (its own reading of its
/// files):
///   layernum[N]_bszB_seqS     ms of the forward of N layers and all others, B samples, TP 1
///   layertype_0_bszB_seqS     ms of one layer for one sample; layertype_other_...: of embedding and head together
///   layertype_0.S.parameter_size, .tp_activation_per_bsz_dict.T     MiB of a layer; saved for one sample at TP T
/// The slope between two numbers of layers wins over layertype_0, which is that slope rounded to one sample.
[[nodiscard]] DeviceProfile read_galvatron_profile(const std::vector<ImportFile>& files, const ImportOptions& options);

}  // namespace hpplan::detail
