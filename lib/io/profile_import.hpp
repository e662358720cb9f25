#pragma once

#include <string>
#include <vector>

#include "domain/model.hpp"
#include "profile/profile_table.hpp"

namespace hpplan {

/// One file of another tool. Names of device and model come from the path where the text does not state them.
struct ImportFile {
  std::string path;
  std::string text;
};

struct ImportOptions {
  std::string device;                // overrides the device type's name; "": as found
  const ModelSpec* model = nullptr;  // the model that was measured; checked, and its name is taken
};

/// Profiles found in files of other tools, one for each pair of device type and model, sorted by both.
/// Layouts, recognised by content:
///   Metis     one file per TP degree and micro-batch (DeviceType.X_tpT_bsB.json or X/mbsB_tmpT.json): forward and
///             backward together, per layer
///   Sailor    {micro-batch: {TP: {layer: [forward, backward, update]}}} as MODEL/DEVICE/profile.json, or all of them
///             below {model: {device: ...}}; llm_info.json adds parameters and saved bytes
///   Galvatron computation_profiling_*.json, with memory_profiling_*.json if it is among the files; the device is not
///             in the files and must be given
///   Megatron  training logs with timers, one for each TP degree and micro-batch size; device and model must be given
/// What the source leaves out is filled by an assumption, and each assumption and each known defect found is one note
/// of the profile. Throws InputError with every fault: lists of different length, values that cannot be, a profile
/// that does not describe its model, interior layers too different to be one kind.
[[nodiscard]] std::vector<DeviceProfile> import_profiles(const std::vector<ImportFile>& files,
                                                         const ImportOptions& options);

}  // namespace hpplan
