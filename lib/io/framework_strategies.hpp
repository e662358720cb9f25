#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/framework_schedules.hpp"

namespace hpplan {

// Strict readers of strategy files. Each checks what its framework checks, and what the framework forgets to check.

/// Megatron-LM arguments that decide how a model is spread.
struct MegatronJob {
  int layers = 0;
  int tensor_parallel = 1;
  int pipeline_parallel = 1;
  int context_parallel = 1;
  int data_parallel = 1;  // world size over the others
  int micro_batch = 0;
  int global_batch = 0;
  int micro_batches = 0;
  std::vector<LayoutEntry> layout;    // one per stage and chunk
  std::string recompute_granularity;  // "", full or selective
  std::string recompute_method;
  int recompute_layers = 0;
  std::vector<std::string> recompute_modules;
};

[[nodiscard]] MegatronJob read_megatron_arguments(const std::string& text, const std::string& file, int world_size);

/// One process mesh: consecutive stages with their own degrees.
struct FlagScaleMesh {
  int tensor = 1;
  int context = 1;
  int expert = 1;
  int data = 1;
  int pipeline = 1;

  [[nodiscard]] int devices() const { return tensor * context * data * pipeline; }
};

struct FlagScaleJob {
  std::vector<FlagScaleMesh> meshes;
  std::vector<std::string> device_types;  // per mesh
  std::vector<int> split;                 // layers per stage
  int micro_batch = 0;                    // of mesh 0
  int global_batch = 0;
  int micro_batches = 0;
  std::vector<int> recompute_layers;  // per stage, the same for all its micro-batches; empty: none

  [[nodiscard]] int device_count() const;
};

/// The train file. Also refused, though FlagScale takes it: stages without layers, a mesh of several stages and
/// replicas before another mesh (its links come out crossed), recompute counts without a granularity list.
[[nodiscard]] FlagScaleJob read_flagscale_train(const std::string& text, const std::string& file);

/// Checks that hosts in order give every mesh its devices: labels follow the meshes, slots sum up.
void check_flagscale_hosts(const FlagScaleJob& job, const std::string& hostfile, const std::string& file);

struct HetuStrategy {
  int width = 1;                                   // ranks of a stage's slot
  std::vector<std::vector<int>> layers;            // per pipeline and stage
  std::vector<int> micro_batches;                  // per pipeline
  std::map<int, int> devices;                      // rank to device
  std::vector<int> unused;                         // ranks
  std::vector<std::vector<int>> recompute_layers;  // per pipeline; empty: none
};

/// Also refused, though Hetu takes it: a device twice, stages without layers, stages without ranks.
[[nodiscard]] HetuStrategy read_hetu_strategy(const std::string& text, const std::string& file);

struct GalvatronStrategy {
  int pipeline = 1;
  std::vector<int> tensor_parallel;  // per layer
  std::vector<int> checkpoint;       // per layer, 0 or 1
  std::vector<int> division;         // layers per stage
  int global_batch = 0;
  int chunks = 0;
  std::string pipeline_type;
};

/// Also refused, though Galvatron takes it: a global batch that the chunks do not divide, unknown keys.
[[nodiscard]] GalvatronStrategy read_galvatron_strategy(const std::string& text, const std::string& file,
                                                        int world_size);

struct MindFormersJob {
  int data = 1;
  int model = 1;
  std::vector<int> layers;  // per stage, from offset
  int micro_batches = 0;
  int batch = 0;
  std::vector<int> recompute;                               // whole layers per stage; empty: none
  std::map<std::string, std::vector<int>> recompute_cells;  // per cell name and stage
};

[[nodiscard]] MindFormersJob read_mindformers(const std::string& text, const std::string& file);

/// What `export --to torch` writes beside the CSV files.
struct TorchManifest {
  struct Stage {
    int first_layer = 0;
    int last_layer = 0;
    int tensor_parallel = 1;
    int data_parallel = 1;
    std::vector<int> ranks;
  };
  struct Pipeline {
    std::string csv;
    int micro_batch = 0;
    int micro_batches = 0;
    double gradient_weight = 0.0;
    std::vector<Stage> stages;
  };
  int world_size = 0;
  int global_batch = 0;
  std::vector<Pipeline> pipelines;
};

[[nodiscard]] TorchManifest read_torch_manifest(const std::string& text, const std::string& file);

}  // namespace hpplan
