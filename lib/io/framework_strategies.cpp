#include "io/framework_strategies.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "io/detail/limits.hpp"
#include "io/detail/text_lines.hpp"
#include "io/document.hpp"
#include "io/import_hosts.hpp"

namespace hpplan {

using detail::kMaxCount;
using detail::whole_number;

namespace {

std::vector<int> counts(const Reader& list, int min, int max = kMaxCount) {
  std::vector<int> values;
  if (!list.exists()) return values;
  for (const Reader& item : list.items()) values.push_back(item.count(min, max));
  return values;
}

std::int64_t sum_of(const std::vector<int>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

/// Value of a key wherever it stands: FlagScale flattens all levels of its YAML.
class FlatKeys {
 public:
  explicit FlatKeys(const Reader& root) { collect(root); }
  [[nodiscard]] Reader required(const std::string& key) const {
    const auto found = values_.find(key);
    if (found != values_.end()) return found->second;
    root_.front().fault(concat("key ", key, " is missing"), "");
    return root_.front().optional("(no " + key + ")");
  }
  [[nodiscard]] Reader optional(const std::string& key) const {
    const auto found = values_.find(key);
    return found != values_.end() ? found->second : root_.front().optional("(no " + key + ")");
  }

 private:
  void collect(const Reader& map) {
    if (root_.empty()) root_.push_back(map);
    if (map.kind() != ValueKind::Map) return;
    map.allow_other_keys();
    for (const auto& [key, value] : map.entries()) {
      if (value.kind() == ValueKind::Null) value.fault("null becomes the text None", "leave the key out");
      if (value.kind() == ValueKind::Map) {
        collect(value);
      } else if (!values_.emplace(key, value).second) {
        value.fault(concat("key ", key, " stands in two places"), "levels do not count here");
      }
    }
  }
  std::map<std::string, Reader> values_;
  std::vector<Reader> root_;
};

std::vector<FlagScaleMesh> read_meshes(const Reader& list) {
  const std::vector<int> flat = counts(list, 1);
  std::vector<FlagScaleMesh> meshes;
  if (!list.document_ok()) return meshes;
  if (flat.empty() || flat.size() % 5 != 0) {
    list.fault(concat(flat.size(), " numbers; a mesh has five"), "write tp, cp, ep, dp, pp for each mesh");
    return meshes;
  }
  for (std::size_t i = 0; i < flat.size(); i += 5) {
    meshes.push_back({flat[i], flat[i + 1], flat[i + 2], flat[i + 3], flat[i + 4]});
    if (meshes.back().context != 1) list.fault(concat("mesh ", i / 5, " has cp ", flat[i + 1]), "cp has to be 1");
    if (i + 5 < flat.size() && meshes.back().data > 1 && meshes.back().pipeline > 1) {
      list.fault(concat("mesh ", i / 5, " has dp ", flat[i + 3], " and pp ", flat[i + 4],
                        " before another mesh: its links come out crossed"),
                 "write one mesh per stage, each with pp 1");
    }
  }
  return meshes;
}

/// Batches must be whole on every mesh.
void check_batches(FlagScaleJob& job, const Reader& meshes, const Reader& global) {
  const std::int64_t samples = static_cast<std::int64_t>(job.meshes.front().data) * job.micro_batch;
  for (std::size_t i = 0; i < job.meshes.size(); ++i) {
    const int data = job.meshes[i].data;
    if (samples % data != 0) {
      meshes.fault(
          concat("mesh ", i, " has dp ", data, ", which does not divide the ", samples, " samples of a micro-batch"),
          "");
    }
  }
  if (job.global_batch % samples != 0) {
    global.fault(
        concat("global batch ", job.global_batch, " is not a multiple of ", samples, " samples per micro-batch"), "");
  }
  job.micro_batches = static_cast<int>(job.global_batch / samples);
}

/// One value per stage from rows `[stages, micro-batches, value, ...]`.
std::vector<int> read_rows(const Reader& list, int stages, int micro_batches, int max) {
  std::vector<int> values;
  if (!list.exists()) return values;
  for (const Reader& row : list.items()) {
    const std::vector<int> numbers = counts(row, 0);
    if (!row.document_ok()) return {};
    std::int64_t covered = 0;
    for (std::size_t i = 1; i + 1 < numbers.size(); i += 2) covered += numbers[i];
    if (numbers.size() < 3 || numbers.size() % 2 == 0 || covered != micro_batches) {
      row.fault(concat("covers ", covered, " of ", micro_batches, " micro-batches"),
                "write [stages, count, value, ...]");
      return {};
    }
    int largest = 0;
    for (std::size_t i = 2; i < numbers.size(); i += 2) {
      largest = std::max(largest, numbers[i]);
      if (numbers[i] > max) row.fault(concat("value ", numbers[i], " is greater than ", max), "");
    }
    if (values.size() + static_cast<std::size_t>(numbers[0]) > static_cast<std::size_t>(stages)) break;
    values.insert(values.end(), static_cast<std::size_t>(numbers[0]), largest);
  }
  if (static_cast<int>(values.size()) != stages) list.fault(concat("rows do not cover the ", stages, " stages"), "");
  return values;
}

void read_flagscale_recompute(const FlatKeys& keys, FlagScaleJob& job) {
  const int stages = static_cast<int>(job.split.size());
  const Reader granularity = keys.optional("recompute_granularity_per_stage_micro_batch");
  const Reader method = keys.optional("recompute_method_per_stage_micro_batch");
  const Reader layers = keys.optional("recompute_num_layers_per_stage_micro_batch");
  if (layers.exists() && !granularity.exists()) {
    layers.fault("without recompute_granularity_per_stage_micro_batch it has no effect", "write all three lists");
  }
  if (!granularity.exists()) return;
  (void)keys.required("recompute_granularity").one_of<int>({{"full", 1}});
  (void)keys.required("recompute_method").one_of<int>({{"uniform", 0}, {"block", 1}});
  const std::vector<int> on = read_rows(granularity, stages, job.micro_batches, 1);
  (void)read_rows(method, stages, job.micro_batches, 1);
  job.recompute_layers = read_rows(layers, stages, job.micro_batches, kMaxCount);
  for (std::size_t s = 0; s < on.size() && s < job.recompute_layers.size(); ++s) {
    if (on[s] == 0) job.recompute_layers[s] = 0;
  }
}

/// `1,2,2`: Galvatron's lists are texts.
std::vector<int> comma_list(const Reader& field, int min, int max = kMaxCount) {
  std::vector<int> values;
  if (!field.exists()) return values;
  if (field.kind() != ValueKind::Text && field.kind() != ValueKind::Integer) {
    field.fault("a list is written as a text here", "write \"1,2,2\"");
    return values;
  }
  const std::string text = field.kind() == ValueKind::Integer ? concat(field.count(min, max)) : field.text();
  for (const detail::TextWord& cell : detail::cells_of(text, ',')) {
    const std::optional<int> value = whole_number(cell.text);
    if (!value || *value < min || *value > max) {
      field.fault(concat(detail::quoted_text(cell.text), " is not a whole number from ", min, " to ", max), "");
      return {};
    }
    values.push_back(*value);
  }
  return values;
}

void check_length(const Reader& field, std::size_t length, std::size_t wanted) {
  if (field.exists() && field.document_ok() && length != wanted) {
    field.fault(concat(length, " entries, but ", wanted, " are needed"), "");
  }
}

/// Slots of stages that have no rank left, and stages without layers.
void check_hetu_stages(const HetuStrategy& strategy, const Reader& layers, const Reader& unused_field) {
  const std::set<int> unused(strategy.unused.begin(), strategy.unused.end());
  int rank = 0;
  for (const std::vector<int>& pipeline : strategy.layers) {
    for (std::size_t s = 0; s < pipeline.size(); ++s) {
      int used = 0;
      for (int t = 0; t < strategy.width; ++t) used += unused.contains(rank++) ? 0 : 1;
      if (used == 0) unused_field.fault(concat("stage ", s, " has no rank left"), "");
      if (pipeline[s] == 0) layers.fault(concat("stage ", s, " has no layer"), "");
    }
  }
  for (const int index : strategy.unused) {
    if (index >= rank)
      unused_field.fault(concat("rank ", index, " does not exist"), concat("ranks are 0 to ", rank - 1));
  }
}

void read_hetu_devices(const Reader& map, HetuStrategy& strategy) {
  std::set<int> seen;
  for (const auto& [key, value] : map.entries(1)) {
    const std::optional<int> rank = whole_number(key);
    const int device = value.count(0, kMaxCount);
    if (!rank) value.fault(concat("rank ", detail::quoted_text(key), " is no number"), "");
    if (rank && !seen.insert(device).second) value.fault(concat("device ", device, " is used twice"), "");
    if (rank) strategy.devices[*rank] = device;
  }
}

void read_hetu_recompute(const Reader& block, HetuStrategy& strategy) {
  const Reader recompute = block.optional("recompute");
  if (!recompute.exists()) return;
  const int granularity = recompute.required("recompute_granularity").one_of<int>({{"full", 0}, {"selective", 1}});
  const Reader method = recompute.optional("recompute_method");
  const Reader number = recompute.optional("recompute_num_layers");
  if (method.exists()) {
    (void)method.one_of<int>({{"uniform", 0}, {"block", 1}});
    if (granularity == 1) method.fault("selective recomputation has no method", "leave it out");
  }
  if (number.exists()) (void)number.count(0, kMaxCount);
  const Reader lists = recompute.optional("recompute_layer_idxs_list");
  if (!lists.exists()) return;
  for (const Reader& list : lists.items()) strategy.recompute_layers.push_back(counts(list, 0));
  check_length(lists, strategy.recompute_layers.size(), strategy.layers.size());
}

}  // namespace

int FlagScaleJob::device_count() const {
  int count = 0;
  for (const FlagScaleMesh& mesh : meshes) count += mesh.devices();
  return count;
}

FlagScaleJob read_flagscale_train(const std::string& text, const std::string& file) {
  const Document document = Document::parse(text, file);
  const FlatKeys keys(document.root());
  FlagScaleJob job;
  const Reader meshes = keys.required("hetero_process_meshes");
  const Reader stages = keys.required("pipeline_model_parallel_size");
  const Reader layers = keys.required("num_layers");
  const Reader global = keys.required("global_batch_size");
  const Reader split = keys.required("hetero_pipeline_layer_split");
  const Reader types = keys.required("hetero_device_types");
  (void)keys.required("enable_hetero").boolean();
  const int stage_count = stages.count(1, kMaxCount);
  const int layer_count = layers.count(1, kMaxCount);
  job.micro_batch = keys.required("micro_batch_size").count(1, kMaxCount);
  job.global_batch = global.count(1);
  job.split = counts(split, 1);
  job.meshes = read_meshes(meshes);
  if (types.exists()) {
    for (const Reader& item : types.items()) job.device_types.push_back(item.text());
  }
  if (!document.ok()) document.finish();
  int sum = 0;
  for (const FlagScaleMesh& mesh : job.meshes) sum += mesh.pipeline;
  if (sum != stage_count) stages.fault(concat(stage_count, ", but the meshes have ", sum, " stages"), "");
  check_length(split, job.split.size(), static_cast<std::size_t>(stage_count));
  if (sum_of(job.split) != layer_count) {
    split.fault(concat("layers of all stages are ", sum_of(job.split), ", but the model has ", layer_count), "");
  }
  check_length(types, job.device_types.size(), job.meshes.size());
  check_batches(job, meshes, global);
  if (document.ok()) read_flagscale_recompute(keys, job);
  document.finish();
  return job;
}

void check_flagscale_hosts(const FlagScaleJob& job, const std::string& hostfile, const std::string& file) {
  const std::vector<Host> hosts = read_hostfile(hostfile, file);
  std::size_t mesh = 0;
  int left = job.meshes.front().devices();
  const auto refuse = [&](const Host& host, const std::string& message) {
    throw InputError(Diagnostic{file, host.line, 1, host.name, message, "give hosts in the order of the meshes"});
  };
  for (const Host& host : hosts) {
    for (int slot = 0; slot < host.devices; ++slot) {
      if (left == 0 && ++mesh < job.meshes.size()) left = job.meshes[mesh].devices();
      if (mesh >= job.meshes.size()) refuse(host, "more slots than the meshes need");
      if (host.type != job.device_types[mesh]) {
        refuse(host,
               concat("type ", host.type, " in the place of mesh ", mesh, ", which wants ", job.device_types[mesh]));
      }
      --left;
    }
  }
  if (left != 0 || mesh + 1 != job.meshes.size()) refuse(hosts.back(), "fewer slots than the meshes need");
}

HetuStrategy read_hetu_strategy(const std::string& text, const std::string& file) {
  const Document document = Document::parse(text, file);
  const Reader block = document.root().required("ds_parallel");
  HetuStrategy strategy;
  (void)block.required("hetero").boolean();
  (void)block.required("zero").boolean();
  (void)block.required("pp").count(1, kMaxCount);
  (void)block.required("cp").count(1, 1);
  strategy.width = block.required("tp").count(1, kMaxCount);
  const Reader per_stage = block.required("gpus_per_stage");
  const int pipelines = block.required("dp").count(1, kMaxCount);
  const int layer_count = block.required("num_layers").count(1, kMaxCount);
  const Reader devices = block.required("num_gpus");
  const int device_count = devices.count(1, kMaxCount);
  const Reader layers = block.required("hetero_layers");
  const Reader batches = block.required("micro_batch_num_list");
  const Reader mapping = block.required("rank_to_device_mapping");
  const Reader unused = block.optional("unused_rank");
  if (per_stage.count(1, kMaxCount) != strategy.width)
    per_stage.fault("is not tp", "a slot is as wide as the widest stage");
  if (layers.exists()) {
    for (const Reader& list : layers.items()) strategy.layers.push_back(counts(list, 0));
  }
  strategy.micro_batches = counts(batches, 1);
  strategy.unused = counts(unused, 0);
  (void)counts(block.optional("seq_len_list"), 1, 1 << 24);
  (void)counts(block.optional("cp_list"), 1, 1);
  read_hetu_devices(mapping, strategy);
  read_hetu_recompute(block, strategy);
  if (!document.ok()) document.finish();
  check_length(layers, strategy.layers.size(), static_cast<std::size_t>(pipelines));
  check_length(batches, strategy.micro_batches.size(), static_cast<std::size_t>(pipelines));
  std::size_t slots = 0;
  for (const std::vector<int>& pipeline : strategy.layers) {
    slots += pipeline.size() * static_cast<std::size_t>(strategy.width);
    if (sum_of(pipeline) != layer_count) {
      layers.fault(concat("a pipeline has ", sum_of(pipeline), " layers, but the model has ", layer_count), "");
    }
  }
  if (slots != static_cast<std::size_t>(device_count))
    devices.fault(concat(device_count, ", but the stages have ", slots, " ranks"), "");
  check_length(mapping, strategy.devices.size(), slots);
  if (!strategy.devices.empty() && strategy.devices.rbegin()->first + 1 != static_cast<int>(slots))
    mapping.fault("ranks are not 0, 1, 2, ...", "");
  check_hetu_stages(strategy, layers, unused);
  document.finish();
  return strategy;
}

GalvatronStrategy read_galvatron_strategy(const std::string& text, const std::string& file, int world_size) {
  const Document document = Document::parse(text, file);
  const Reader root = document.root();
  GalvatronStrategy strategy;
  const Reader pipeline = root.required("pp_deg");
  const Reader tensor = root.required("tp_sizes_enc");
  const Reader global = root.required("global_bsz");
  const Reader division = root.optional("pp_division");
  const Reader checkpoint = root.optional("checkpoint");
  strategy.pipeline = pipeline.count(1, kMaxCount);
  strategy.tensor_parallel = comma_list(tensor, 1);
  const Reader consecutive = root.required("tp_consecutive_flags");
  const Reader data_types = root.required("dp_types_enc");
  const std::size_t layers = strategy.tensor_parallel.size();
  check_length(consecutive, comma_list(consecutive, 0, 1).size(), layers);
  check_length(data_types, comma_list(data_types, 0, 1).size(), layers);
  strategy.checkpoint = comma_list(checkpoint, 0, 1);
  check_length(checkpoint, strategy.checkpoint.size(), layers);
  strategy.global_batch = global.count(1);
  strategy.chunks = root.required("chunks").count(1);
  strategy.division = comma_list(division, 1);
  const Reader type = root.optional("pipeline_type");
  strategy.pipeline_type = "gpipe";
  if (type.exists() && type.one_of<int>({{"gpipe", 0}, {"pipedream_flush", 1}}) == 1)
    strategy.pipeline_type = "pipedream_flush";
  if (const Reader kind = root.optional("default_dp_type"); kind.exists())
    (void)kind.one_of<int>({{"ddp", 0}, {"zero2", 1}});
  for (const char* key : {"vtp", "vsp", "vcp"}) (void)root.optional(key).count_or(0, 0, kMaxCount);
  if (!document.ok()) document.finish();
  check_length(division, strategy.division.size(), static_cast<std::size_t>(strategy.pipeline));
  if (division.exists() && sum_of(strategy.division) != static_cast<std::int64_t>(layers)) {
    division.fault(concat("sums to ", sum_of(strategy.division), ", but there are ", layers, " layers"), "");
  }
  if (world_size % strategy.pipeline != 0) pipeline.fault(concat("does not divide ", world_size, " devices"), "");
  const int per_stage = std::max(1, world_size / strategy.pipeline);
  int smallest = per_stage;
  for (const int degree : strategy.tensor_parallel) {
    if (per_stage % degree != 0) {
      tensor.fault(concat("degree ", degree, " does not divide the ", per_stage, " devices of a stage"), "");
      break;
    }
    smallest = std::min(smallest, degree);
  }
  if (strategy.global_batch % (per_stage / smallest) != 0)
    global.fault(concat("not a multiple of the data parallel degree ", per_stage / smallest), "");
  if (strategy.global_batch % strategy.chunks != 0)
    global.fault(concat("not a multiple of ", strategy.chunks, " chunks"), "");
  document.finish();
  return strategy;
}

MindFormersJob read_mindformers(const std::string& text, const std::string& file) {
  const Document document = Document::parse(text, file);
  const Reader root = document.root();
  root.allow_other_keys();
  const Reader parallel = root.required("parallel_config");
  MindFormersJob job;
  job.data = parallel.required("data_parallel").count(1, kMaxCount);
  job.model = parallel.required("model_parallel").count(1, kMaxCount);
  const int stages = parallel.required("pipeline_stage").count(1, kMaxCount);
  job.micro_batches = parallel.required("micro_batch_num").count(1);
  job.batch = root.required("runner_config").required("batch_size").count(1);
  const Reader config = root.required("model").required("model_config");
  const int layers = config.required("num_layers").count(1, kMaxCount);
  const Reader offset = config.required("offset");
  if (!document.ok()) document.finish();
  if (offset.kind() == ValueKind::List) {
    for (const Reader& item : offset.items()) {
      job.layers.push_back(layers / stages + static_cast<int>(item.integer(-kMaxCount, kMaxCount)));
    }
  } else {
    (void)offset.integer(0, 0);
    if (layers % stages != 0)
      offset.fault(concat("0 needs layers that divide: ", layers, " over ", stages), "write a list");
    job.layers.assign(static_cast<std::size_t>(stages), layers / stages);
  }
  check_length(offset, job.layers.size(), static_cast<std::size_t>(stages));
  if (document.ok() && sum_of(job.layers) != layers) {
    offset.fault(concat("gives ", sum_of(job.layers), " layers, but the model has ", layers),
                 concat("offsets sum to ", layers % stages));
  }
  for (const int count : job.layers) {
    if (count < 1) offset.fault("leaves a stage without layers", "");
  }
  const Reader recompute_config = root.optional("recompute_config");
  if (recompute_config.exists()) {
    const auto per_stage = [&](const Reader& list) {
      std::vector<int> values = counts(list, 0);
      check_length(list, values.size(), static_cast<std::size_t>(stages));
      for (std::size_t s = 0; s < values.size() && s < job.layers.size(); ++s) {
        if (values[s] > job.layers[s])
          list.fault(concat("recomputes ", values[s], " of ", job.layers[s], " layers of stage ", s), "");
      }
      return values;
    };
    const Reader whole = recompute_config.required("recompute");
    if (whole.kind() == ValueKind::Boolean) {
      if (whole.boolean()) job.recompute = job.layers;
    } else {
      job.recompute = per_stage(whole);
    }
    if (const Reader cells = recompute_config.optional("select_recompute"); cells.exists()) {
      for (const auto& [cell, list] : cells.entries(1)) job.recompute_cells[cell] = per_stage(list);
    }
  }
  document.finish();
  return job;
}

TorchManifest read_torch_manifest(const std::string& text, const std::string& file) {
  const Document document = Document::parse(text, file);
  const Reader root = document.root();
  root.allow_other_keys();
  TorchManifest manifest;
  (void)root.required("format").one_of<int>({{"hpplan-torch", 1}});
  manifest.world_size = root.required("world_size").count(1);
  manifest.global_batch = root.required("global_batch").count(1);
  const int layer_count = root.required("layer_count").count(1);
  std::set<int> ranks;
  std::int64_t samples = 0;
  const Reader pipelines = root.required("pipelines");
  for (const Reader& item : pipelines.items(1)) {
    item.allow_other_keys();
    TorchManifest::Pipeline& pipeline = manifest.pipelines.emplace_back();
    pipeline.csv = item.required("csv").text();
    pipeline.micro_batch = item.required("micro_batch").count(1);
    pipeline.micro_batches = item.required("micro_batches").count(1);
    pipeline.gradient_weight = item.required("gradient_weight").number(0.0, 1.0);
    samples += static_cast<std::int64_t>(pipeline.micro_batch) * pipeline.micro_batches;
    int next = 0;
    for (const Reader& part : item.required("stages").items(1)) {
      part.allow_other_keys();
      TorchManifest::Stage& stage = pipeline.stages.emplace_back();
      const Reader range = part.required("layers");
      const std::vector<int> layers = counts(range, 0);
      check_length(range, layers.size(), 2);
      if (!document.ok()) document.finish();
      stage.first_layer = layers[0];
      stage.last_layer = layers[1];
      if (stage.first_layer != next || stage.last_layer <= next)
        range.fault("layers do not follow those of the stage before", "");
      next = stage.last_layer;
      stage.tensor_parallel = part.required("tensor_parallel").count(1);
      stage.data_parallel = part.required("data_parallel").count(1);
      const Reader list = part.required("ranks");
      stage.ranks = counts(list, 0, manifest.world_size - 1);
      check_length(list, stage.ranks.size(),
                   static_cast<std::size_t>(stage.tensor_parallel) * static_cast<std::size_t>(stage.data_parallel));
      for (const int rank : stage.ranks) {
        if (!ranks.insert(rank).second) list.fault(concat("rank ", rank, " is on two stages"), "");
      }
    }
    if (next != layer_count) item.fault(concat("holds ", next, " of ", layer_count, " layers"), "");
  }
  if (document.ok() && static_cast<int>(ranks.size()) != manifest.world_size)
    pipelines.fault("not every rank has a stage", "");
  if (document.ok() && samples != manifest.global_batch)
    pipelines.fault(concat(samples, " samples, but the global batch is ", manifest.global_batch), "");
  double weight = 0.0;
  for (const auto& pipeline : manifest.pipelines) weight += pipeline.gradient_weight * pipeline.micro_batches;
  if (document.ok() && std::fabs(weight - 1.0) > 1e-9)
    pipelines.fault("gradient weights do not sum to 1 over all micro-batches", "");
  document.finish();
  return manifest;
}

}  // namespace hpplan
