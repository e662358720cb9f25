#pragma once

#include <string>
#include <vector>

namespace hpplan {

// Strict readers of what we export, and of what users bring. Where a framework accepts nonsense, they do not.

/// One compute op of a PyTorch pipelining schedule.
struct TorchOp {
  int stage = 0;
  char action = 'F';  // F forward, B backward, I input gradient, W weight gradient
  int micro_batch = 0;

  friend bool operator==(const TorchOp&, const TorchOp&) = default;
};

/// What a schedule has to cover.
struct TorchShape {
  int ranks = 0;
  int stages = 0;
  int micro_batches = 0;
};

/// Rows of a compute_only CSV, idle cells dropped. Every stage lives on one rank and has every micro-batch's forward
/// once, then B once, or I and then W once; the rows can run to their end. Refused though PyTorch takes it: text after
/// a cell, an op twice, micro-batches counted from 1.
[[nodiscard]] std::vector<std::vector<TorchOp>> read_torch_schedule(const std::string& text, const std::string& file,
                                                                    const TorchShape& shape);

/// One entry of a Megatron pipeline layout: what a (virtual) stage holds.
struct LayoutEntry {
  bool embedding = false;
  int layers = 0;
  int predictions = 0;  // multi-token prediction layers
  bool loss = false;

  friend bool operator==(const LayoutEntry&, const LayoutEntry&) = default;
};

struct LayoutShape {
  int layers = 0;
  int stages = 0;  // pipeline ranks; entry k lives on rank k % stages
  int predictions = 0;
};

/// `--pipeline-model-parallel-layout`: E, t, m and L, bars between stages, `x*n` and `(..)*n` repeats.
[[nodiscard]] std::vector<LayoutEntry> read_megatron_layout(const std::string& text, const std::string& source,
                                                            const LayoutShape& shape);

/// `[[3],[3],[4],[2]]` of MindSpeed: layers per stage and chunk; their sum must be all layers.
[[nodiscard]] std::vector<std::vector<int>> read_mindspeed_split(const std::string& text, const std::string& source,
                                                                 const LayoutShape& shape);

/// One row of the table of Metis.
struct MetisRow {
  int rank = 0;
  double cost_ms = 0.0;
  std::vector<std::string> node_sequence;
  std::vector<int> device_groups;
  std::vector<std::vector<int>> strategies;  // (dp, tp) per stage
  int batches = 0;
  std::vector<int> layer_partition;  // stages + 1 boundaries
};

[[nodiscard]] MetisRow read_metis_row(const std::string& text, const std::string& file);

}  // namespace hpplan
