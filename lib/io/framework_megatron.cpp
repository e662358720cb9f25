#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/text.hpp"
#include "io/detail/argument_list.hpp"
#include "io/detail/text_lines.hpp"
#include "io/framework_strategies.hpp"

namespace hpplan {

using detail::Argument;
using detail::TextFaults;

namespace {

constexpr std::array<std::string_view, 11> kModules{
    "core_attn",      "moe_act",      "layernorm",   "mla_up_proj", "mlp", "moe",
    "shared_experts", "gdn_norm_out", "gdp_in_proj", "gdp_qkv",     "mhc"};

/// The argument list as Megatron validates it.
class MegatronReader {
 public:
  MegatronReader(const std::string& text, const std::string& file, int world_size)
      : arguments_(detail::read_argument_list(text)), faults_(file), file_(file), world_size_(world_size) {}

  [[nodiscard]] MegatronJob read() {
    job_.layers = count("--num-layers", 0);
    if (job_.layers == 0) fault("--num-layers", "missing", "");
    job_.tensor_parallel = count("--tensor-model-parallel-size", 1);
    job_.pipeline_parallel = count("--pipeline-model-parallel-size", 1);
    job_.context_parallel = count("--context-parallel-size", 1);
    faults_.finish();
    read_batches();
    read_experts();
    read_layout();
    read_recompute();
    faults_.finish();
    return std::move(job_);
  }

 private:
  [[nodiscard]] const Argument* find(const std::string& flag) const {
    const auto found =
        std::find_if(arguments_.rbegin(), arguments_.rend(), [&](const Argument& a) { return a.flag == flag; });
    return found == arguments_.rend() ? nullptr : &*found;
  }
  [[nodiscard]] bool has(const std::string& flag) const { return find(flag) != nullptr; }
  void fault(const std::string& flag, const std::string& message, const std::string& hint) {
    const Argument* const argument = find(flag);
    faults_.add(argument == nullptr ? 0 : argument->line, argument == nullptr ? 0 : argument->column, flag, message,
                hint);
  }
  [[nodiscard]] std::string word(const std::string& flag) const {
    const Argument* const argument = find(flag);
    return argument == nullptr || argument->values.empty() ? "" : argument->values.front();
  }
  [[nodiscard]] int count(const std::string& flag, int fallback, int min = 1) {
    if (!has(flag)) return fallback;
    const std::optional<int> value = detail::whole_number(word(flag));
    if (value && *value >= min) return *value;
    fault(flag, concat(detail::quoted_text(word(flag)), " is not a whole number of at least ", min), "");
    return std::max(fallback, 1);
  }

  void read_batches() {
    const std::int64_t model =
        static_cast<std::int64_t>(job_.tensor_parallel) * job_.pipeline_parallel * job_.context_parallel;
    if (world_size_ % model != 0) {
      fault("--pipeline-model-parallel-size",
            concat("tp x pp x cp needs ", model, " devices or a multiple, have ", world_size_), "");
      return;
    }
    job_.data_parallel = static_cast<int>(world_size_ / model);
    job_.micro_batch = count("--micro-batch-size", 1);
    const std::int64_t samples = static_cast<std::int64_t>(job_.micro_batch) * job_.data_parallel;
    job_.global_batch = count("--global-batch-size", static_cast<int>(samples));
    if (job_.global_batch % samples != 0) {
      fault("--global-batch-size",
            concat(job_.global_batch, " is not a multiple of micro-batch ", job_.micro_batch, " x dp ",
                   job_.data_parallel),
            "");
    }
    job_.micro_batches = static_cast<int>(job_.global_batch / samples);
  }

  /// Experts are spread inside the devices of a stage; their degree divides the experts too.
  void read_experts() {
    const int degree = count("--expert-model-parallel-size", 1);
    if (degree == 1) return;
    const int experts = count("--num-experts", 0);
    if (experts == 0)
      return fault("--expert-model-parallel-size", concat(degree, ", but the model has no experts"), "leave it out");
    const int tensor = count("--expert-tensor-parallel-size", job_.tensor_parallel);
    const int region = world_size_ / job_.pipeline_parallel;
    const auto fits = [&](int ep) {
      return experts % ep == 0 && region % (static_cast<std::int64_t>(ep) * tensor) == 0;
    };
    if (fits(degree)) return;
    std::vector<std::string> valid;
    for (int ep = 1; ep <= std::min(experts, region); ++ep) {
      if (fits(ep)) valid.push_back(concat(ep));
    }
    fault("--expert-model-parallel-size",
          concat("etp ", tensor, " x ep ", degree, " x pp ", job_.pipeline_parallel, " is ",
                 static_cast<std::int64_t>(tensor) * degree * job_.pipeline_parallel, ", have ", world_size_,
                 " devices and ", experts, " experts"),
          concat("possible: ", join(valid, ", ")));
  }

  void read_layout() {
    const bool ends = has("--decoder-first-pipeline-num-layers") || has("--decoder-last-pipeline-num-layers");
    const int accounted = (has("--account-for-embedding-in-pipeline-split") ? 1 : 0) +
                          (has("--account-for-loss-in-pipeline-split") ? 1 : 0);
    const bool virtual_stages =
        has("--num-layers-per-virtual-pipeline-stage") || has("--num-virtual-stages-per-pipeline-rank");
    if (const std::string layout = word("--pipeline-model-parallel-layout"); has("--pipeline-model-parallel-layout")) {
      if (ends || accounted > 0 || virtual_stages) {
        fault("--pipeline-model-parallel-layout", "excludes the other ways to split layers", "keep the layout alone");
        return;
      }
      job_.layout = read_megatron_layout(layout, concat(file_, ": --pipeline-model-parallel-layout"),
                                         {job_.layers, job_.pipeline_parallel, count("--mtp-num-layers", 0)});
    } else if (ends) {
      read_ends();
    } else {
      read_even(accounted);
    }
    check_chunks(virtual_stages);
  }

  void read_ends() {
    const int first = count("--decoder-first-pipeline-num-layers", 0);
    const int last = count("--decoder-last-pipeline-num-layers", 0);
    const int stages = job_.pipeline_parallel - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
    const int rest = job_.layers - first - last;
    if (stages < 0 || rest < 0 || (stages == 0 ? rest != 0 : rest % stages != 0)) {
      fault("--decoder-first-pipeline-num-layers",
            concat(rest, " layers do not divide over the ", std::max(stages, 0), " other stages"), "");
    }
  }

  void read_even(int accounted) {
    if ((job_.layers + accounted) % job_.pipeline_parallel != 0) {
      fault("--num-layers",
            concat(job_.layers, accounted > 0 ? concat(" + ", accounted) : std::string(), " layers do not divide over ",
                   job_.pipeline_parallel, " stages"),
            "use --pipeline-model-parallel-layout");
      return;
    }
    if (!has("--num-layers-per-virtual-pipeline-stage")) return;
    const int chunk = count("--num-layers-per-virtual-pipeline-stage", 1);
    const int per_stage = job_.layers / job_.pipeline_parallel;
    if (per_stage % chunk == 0) return;
    // Rounding down would leave layers out of the model without a word.
    std::vector<std::string> valid;
    for (int size = 1; size <= per_stage; ++size) {
      if (per_stage % size == 0) valid.push_back(concat(size, " (", per_stage / size, " chunks)"));
    }
    fault("--num-layers-per-virtual-pipeline-stage",
          concat(job_.layers, " layers over ", job_.pipeline_parallel, " stages are ", per_stage,
                 " per stage, not a multiple of ", chunk),
          concat("use ", join(valid, ", "), ", or a layout of ", job_.layers, " layers"));
  }

  void check_chunks(bool virtual_stages) {
    const bool chunked = virtual_stages || job_.layout.size() > static_cast<std::size_t>(job_.pipeline_parallel);
    if (!chunked) return;
    const int needed = has("--no-overlap-p2p-communication") ? 3 : 2;
    if (job_.pipeline_parallel < needed) {
      fault("--pipeline-model-parallel-size", concat(job_.pipeline_parallel, " stages, but chunks need ", needed), "");
    }
  }

  void read_recompute() {
    job_.recompute_granularity = has("--recompute-activations") ? "selective" : word("--recompute-granularity");
    job_.recompute_method = word("--recompute-method");
    job_.recompute_layers = count("--recompute-num-layers", 0, 0);
    if (const Argument* modules = find("--recompute-modules"); modules != nullptr)
      job_.recompute_modules = modules->values;
    const std::string& granularity = job_.recompute_granularity;
    if (!granularity.empty() && granularity != "full" && granularity != "selective") {
      fault("--recompute-granularity", concat("\"", granularity, "\" is neither full nor selective"), "");
    }
    if (granularity == "full" && (!has("--recompute-method") || !has("--recompute-num-layers"))) {
      fault("--recompute-granularity", "full needs --recompute-method and --recompute-num-layers", "");
    }
    if (has("--recompute-method") && job_.recompute_method != "uniform" && job_.recompute_method != "block") {
      fault("--recompute-method", concat("\"", job_.recompute_method, "\" is neither uniform nor block"), "");
    }
    if (granularity == "selective" && has("--recompute-method"))
      fault("--recompute-method", "selective takes no method", "");
    for (const std::string& module : job_.recompute_modules) {
      if (std::find(kModules.begin(), kModules.end(), module) == kModules.end()) {
        fault("--recompute-modules", concat("unknown module \"", module, "\""), "such as core_attn, mlp, layernorm");
      }
    }
    if (!job_.recompute_modules.empty() && granularity != "selective") {
      fault("--recompute-modules", "needs --recompute-granularity selective", "");
    }
    if (has("--distribute-saved-activations") && (granularity != "full" || job_.tensor_parallel < 2)) {
      fault("--distribute-saved-activations", "needs full recomputation and a TP degree above 1", "");
    }
  }

  std::vector<Argument> arguments_;
  TextFaults faults_;
  std::string file_;
  int world_size_ = 1;
  MegatronJob job_;
};

}  // namespace

MegatronJob read_megatron_arguments(const std::string& text, const std::string& file, int world_size) {
  return MegatronReader(text, file, world_size).read();
}

}  // namespace hpplan
