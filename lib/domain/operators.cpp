#include "domain/operators.hpp"

#include <algorithm>
#include <cstdint>

#include "base/check.hpp"

namespace hpplan {

namespace {

/// Sizes that every formula below needs. Letters as in the literature: s sequence, b samples, h hidden, a query heads,
/// g key/value groups, d width of a head, t TP degree, V padded vocabulary.
struct Sizes {
  std::int64_t tokens = 0;    // s b
  std::int64_t sequence = 0;  // s
  std::int64_t samples = 0;   // b
  std::int64_t hidden = 0;    // h
  std::int64_t element = 0;   // bytes of an activation element
  std::int64_t split = 1;     // t
  std::int64_t outside = 1;   // divides activations outside the TP regions: t with sequence parallelism, else 1
};

Sizes sizes_of(const ModelSpec& model, int tensor_parallel, int samples) {
  check_invariant(tensor_parallel >= 1 && samples >= 1, "a TP degree and a number of samples of at least 1");
  Sizes sizes;
  sizes.sequence = model.sequence;
  sizes.samples = samples;
  sizes.tokens = sizes.sequence * samples;
  sizes.hidden = model.hidden;
  sizes.element = model.activation_bytes;
  sizes.split = tensor_parallel;
  sizes.outside = model.sequence_parallel ? tensor_parallel : 1;
  return sizes;
}

/// An operator that multiplies matrices. `moved` counts inputs, weights and outputs once; the backward reads and
/// writes about twice as much.
OperatorCost matmul_operator(std::string name, const Matmul& matmul, Bytes moved) {
  OperatorCost cost;
  cost.name = std::move(name);
  cost.forward = matmul.flop();
  cost.matmuls = {matmul};
  cost.weighted = true;
  cost.moved = moved;
  cost.moved_backward = moved * 2;
  return cost;
}

OperatorCost memory_operator(std::string name, Bytes moved, Bytes moved_backward, Bytes saved) {
  OperatorCost cost;
  cost.name = std::move(name);
  cost.moved = moved;
  cost.moved_backward = moved_backward;
  cost.saved = saved;
  return cost;
}

Bytes matmul_bytes(const Matmul& matmul, std::int64_t element) {
  const double elements =
      matmul.count * (matmul.rows * matmul.inner + matmul.inner * matmul.columns + matmul.rows * matmul.columns);
  return Bytes{static_cast<std::int64_t>(elements * static_cast<double>(element))};
}

OperatorCost linear(std::string name, const Sizes& sizes, double count, double rows, double columns, double inner) {
  const Matmul matmul{count, rows, columns, inner};
  return matmul_operator(std::move(name), matmul, matmul_bytes(matmul, sizes.element));
}

/// A norm reads and writes the tensor and makes one pass for its statistics; the backward also reduces the gradients
/// of scale and shift over all tokens. Traffic as measured on seven GPU types (operator_profiles: 6 and about 20
/// bytes per 16-bit element).
OperatorCost norm(std::string name, const Sizes& sizes) {
  const std::int64_t bytes = sizes.element * sizes.tokens * sizes.hidden / sizes.outside;
  return memory_operator(std::move(name), Bytes{3 * bytes}, Bytes{10 * bytes}, Bytes{bytes});
}

/// Bias, residual addition and (optional) dropout that follow a row-parallel projection. Unfused: the traffic
/// measured is about twice the least possible.
Bytes residual_bytes(const Sizes& sizes) {
  return Bytes{8 * sizes.element * sizes.tokens * sizes.hidden / sizes.outside};
}

Bytes dropout_mask(const Sizes& sizes) { return Bytes{sizes.tokens * sizes.hidden / sizes.outside}; }

Bytes full_activation(const Sizes& sizes) { return Bytes{sizes.element * sizes.tokens * sizes.hidden}; }

Bytes outside_activation(const Sizes& sizes) {
  return Bytes{sizes.element * sizes.tokens * sizes.hidden / sizes.outside};
}

/// Scores, softmax, dropout and scores times V with stored s x s tensors.
std::vector<OperatorCost> unfused_attention(const Sizes& sizes, const AttentionShape& shape) {
  const std::int64_t heads = shape.heads / sizes.split;
  const std::int64_t scores = heads * sizes.sequence * sizes.sequence * sizes.samples;  // a s^2 b / t
  const Bytes tensor{sizes.element * scores};
  const double count = static_cast<double>(heads * sizes.samples);
  const auto s = static_cast<double>(sizes.sequence);
  const auto d = static_cast<double>(shape.head_dim);

  // The score tensor itself is not kept (softmax output replaces it); writing it and the mask moves 3 bytes per
  // 16-bit element, and the backward reads its gradient twice.
  OperatorCost score = matmul_operator("score", Matmul{count, s, s, d}, Bytes{3 * tensor.count() / 2});
  score.weighted = false;
  score.moved_backward = Bytes{5 * tensor.count() / 2};
  OperatorCost softmax = memory_operator("softmax", tensor * 2, Bytes{5 * tensor.count() / 2}, tensor);
  OperatorCost context = matmul_operator("context", Matmul{count, s, d, s}, Bytes{3 * tensor.count() / 2});
  context.weighted = false;
  context.moved_backward = Bytes{5 * tensor.count() / 2};
  std::vector<OperatorCost> operators{score, softmax};
  if (shape.dropout) {
    const Bytes mask{scores};
    operators.push_back(memory_operator("dropout", tensor * 2 + mask, tensor * 2 + mask, tensor + mask));
  }
  operators.push_back(context);
  for (OperatorCost& cost : operators) {
    cost.recomputable = cost.name != "context";
    cost.freed = cost.saved;
  }
  return operators;
}

/// Fused attention: no s x s tensor exists; Q, K, V and the output are the traffic. Its backward recomputes the
/// scores (2.5 times the forward) while kernels for causal masks skip half of all products; the two are left out
/// together. The log-sum-exp (4 a s b bytes, 0.1 % of a block) is not counted.
OperatorCost fused_attention(const Sizes& sizes, const AttentionShape& shape) {
  const std::int64_t heads = shape.heads / sizes.split;
  const double count = static_cast<double>(heads * sizes.samples);
  const auto s = static_cast<double>(sizes.sequence);
  const auto d = static_cast<double>(shape.head_dim);
  const std::int64_t width = (2 * shape.heads + 2 * shape.kv_heads) * shape.head_dim / sizes.split;
  OperatorCost cost;
  cost.name = "attention";
  cost.matmuls = {Matmul{count, s, s, d}, Matmul{count, s, d, s}};
  cost.forward = cost.matmuls[0].flop() + cost.matmuls[1].flop();
  cost.moved = Bytes{sizes.element * sizes.tokens * width};
  cost.moved_backward = cost.moved * 2;
  return cost;
}

void append_attention(std::vector<OperatorCost>& operators, const Sizes& sizes, const AttentionShape& shape) {
  const std::int64_t query_width = static_cast<std::int64_t>(shape.heads) * shape.head_dim;
  const std::int64_t qkv_width =
      (query_width + 2 * static_cast<std::int64_t>(shape.kv_heads) * shape.head_dim) / sizes.split;
  const auto rows = static_cast<double>(sizes.tokens);
  const auto h = static_cast<double>(sizes.hidden);

  operators.push_back(norm("attention_norm", sizes));

  OperatorCost qkv = linear("qkv", sizes, 1.0, rows, static_cast<double>(qkv_width), h);
  // Its input (the norm's output) and Q, K, V; recomputing frees only Q, K, V.
  qkv.saved = outside_activation(sizes) + Bytes{sizes.element * sizes.tokens * qkv_width};
  qkv.all_reduce_backward = full_activation(sizes);
  qkv.recomputable = true;
  qkv.freed = Bytes{sizes.element * sizes.tokens * qkv_width};
  operators.push_back(qkv);

  if (shape.fused) {
    operators.push_back(fused_attention(sizes, shape));
  } else {
    for (OperatorCost& cost : unfused_attention(sizes, shape)) operators.push_back(std::move(cost));
  }

  OperatorCost output = linear("attention_output", sizes, 1.0, rows, h, static_cast<double>(query_width / sizes.split));
  output.saved = Bytes{sizes.element * sizes.tokens * query_width / sizes.split};  // its input, the context
  if (shape.dropout) output.saved += dropout_mask(sizes);
  output.moved += residual_bytes(sizes);
  output.moved_backward += residual_bytes(sizes);
  output.all_reduce_forward = full_activation(sizes);
  operators.push_back(output);
}

/// Two or three matrices of `count` experts of width `ffn`, `rows` tokens in each.
void append_feed_forward(std::vector<OperatorCost>& operators, const Sizes& sizes, const MlpShape& shape, double count,
                         double rows, std::int64_t ffn, std::int64_t token_copies) {
  const std::int64_t width = ffn / sizes.split;
  const std::int64_t up_count = shape.gated ? 2 : 1;
  const auto h = static_cast<double>(sizes.hidden);
  const Bytes inner{sizes.element * token_copies * width};

  OperatorCost up = linear("mlp_up", sizes, count, rows, static_cast<double>(up_count * width), h);
  up.saved = inner * up_count;
  up.recomputable = true;
  up.freed = up.saved;
  operators.push_back(up);
  OperatorCost activation =
      memory_operator("mlp_activation", inner * (up_count + 1), inner * (2 * up_count + 1), inner);
  activation.recomputable = true;
  activation.freed = activation.saved;
  operators.push_back(activation);
  operators.push_back(linear("mlp_down", sizes, count, rows, h, static_cast<double>(width)));
}

void append_experts(std::vector<OperatorCost>& operators, const Sizes& sizes, const MlpShape& shape) {
  const std::int64_t copies = sizes.tokens * shape.top_k;  // every routed token is stored top_k times
  const std::int64_t copy_bytes = sizes.element * copies * sizes.hidden;
  const auto experts = static_cast<double>(shape.experts);

  OperatorCost router =
      linear("router", sizes, 1.0, static_cast<double>(sizes.tokens), experts, static_cast<double>(sizes.hidden));
  // Input, logits and probabilities, the latter two in 4 bytes.
  router.saved = outside_activation(sizes) + Bytes{8 * sizes.tokens * shape.experts / sizes.outside};
  router.moved += Bytes{2 * copy_bytes};  // dispatch: reads and writes every copy
  router.moved_backward += Bytes{2 * copy_bytes};
  router.all_reduce_backward = full_activation(sizes);
  operators.push_back(router);

  // Balanced load: every expert gets the same share of the token copies.
  append_feed_forward(operators, sizes, shape, experts, static_cast<double>(copies) / experts, shape.ffn, copies);
  operators[operators.size() - 3].saved += Bytes{copy_bytes};  // mlp_up: the dispatched input
  operators.back().saved += Bytes{copy_bytes};                 // mlp_down: input of the weighted sum
  operators.back().moved += Bytes{copy_bytes};
  operators.back().moved_backward += Bytes{2 * copy_bytes};
}

void append_mlp(std::vector<OperatorCost>& operators, const Sizes& sizes, const LayerKind& kind) {
  const MlpShape& shape = *kind.mlp;
  const auto rows = static_cast<double>(sizes.tokens);
  operators.push_back(norm("mlp_norm", sizes));
  if (shape.experts > 0) {
    append_experts(operators, sizes, shape);
    if (shape.shared_ffn > 0) append_feed_forward(operators, sizes, shape, 1.0, rows, shape.shared_ffn, sizes.tokens);
  } else {
    append_feed_forward(operators, sizes, shape, 1.0, rows, shape.ffn, sizes.tokens);
    OperatorCost& up = operators[operators.size() - 3];
    up.saved += outside_activation(sizes);  // its input, the norm's output
    up.all_reduce_backward = full_activation(sizes);
  }
  OperatorCost& down = operators.back();
  if (kind.attention && kind.attention->dropout) down.saved += dropout_mask(sizes);
  down.moved += residual_bytes(sizes);
  down.moved_backward += residual_bytes(sizes);
  down.all_reduce_forward = full_activation(sizes);
}

OperatorCost stated_operator(const Sizes& sizes, const StatedLayer& layer) {
  OperatorCost cost;
  cost.name = "stated";
  cost.forward = layer.forward * (static_cast<double>(sizes.samples) / static_cast<double>(sizes.split));
  cost.weighted = true;
  cost.saved = Bytes{layer.saved.count() * sizes.samples / sizes.split};
  cost.all_reduce_forward = full_activation(sizes);
  cost.all_reduce_backward = full_activation(sizes);
  return cost;
}

bool has_dropout(const ModelSpec& model) {
  return std::any_of(model.kinds.begin(), model.kinds.end(),
                     [](const LayerKind& kind) { return kind.attention && kind.attention->dropout; });
}

OperatorCost embedding_operator(const ModelSpec& model, const Sizes& sizes, int tensor_parallel) {
  const std::int64_t table = sizes.element * padded_vocabulary(model, tensor_parallel) / tensor_parallel * sizes.hidden;
  const Bytes rows = full_activation(sizes);
  // Backward: a dense gradient of the table is cleared, filled and added to the accumulated one. Measured: about
  // five times the table, whatever the micro-batch.
  OperatorCost cost = memory_operator("embedding", rows * 2, rows * 2 + Bytes{5 * table}, Bytes{8 * sizes.tokens});
  if (has_dropout(model)) cost.saved += dropout_mask(sizes);
  cost.weighted = true;
  cost.all_reduce_forward = rows;
  return cost;
}

std::vector<OperatorCost> head_operators(const ModelSpec& model, const Sizes& sizes, int tensor_parallel) {
  const std::int64_t columns = padded_vocabulary(model, tensor_parallel) / tensor_parallel;
  OperatorCost logits = linear("logits", sizes, 1.0, static_cast<double>(sizes.tokens), static_cast<double>(columns),
                               static_cast<double>(sizes.hidden));
  logits.saved = outside_activation(sizes);
  logits.all_reduce_backward = full_activation(sizes);
  // Copy to 4 bytes, maximum, subtraction, exponential and sum, each a pass over the logits. Measured: about 36 bytes
  // per logit forward and 14 backward.
  const std::int64_t logit_count = sizes.tokens * columns;
  OperatorCost loss = memory_operator("loss", Bytes{36 * logit_count}, Bytes{14 * logit_count}, Bytes{});
  loss.all_reduce_forward = Bytes{12 * sizes.tokens};  // three 4-byte scalars per token
  std::vector<OperatorCost> operators;
  if (model.norm != NormKind::None) operators.push_back(norm("final_norm", sizes));
  operators.push_back(logits);
  operators.push_back(loss);
  return operators;
}

double norm_parameters(const ModelSpec& model) {
  const auto h = static_cast<double>(model.hidden);
  switch (model.norm) {
    case NormKind::LayerNorm: return 2.0 * h;
    case NormKind::RmsNorm: return h;
    case NormKind::None: return 0.0;
  }
  return 0.0;
}

double attention_parameters(const ModelSpec& model, const AttentionShape& shape, double split) {
  const auto h = static_cast<double>(model.hidden);
  const double query_width = static_cast<double>(shape.heads) * shape.head_dim;
  const double qkv_width = query_width + 2.0 * static_cast<double>(shape.kv_heads) * shape.head_dim;
  double count = norm_parameters(model) + h * qkv_width / split + query_width * h / split;
  if (shape.qkv_bias) count += qkv_width / split;
  if (shape.output_bias) count += h;
  if (shape.qk_norm) count += 2.0 * shape.head_dim;
  return count;
}

double feed_forward_parameters(const ModelSpec& model, const MlpShape& shape, double ffn, double split) {
  const auto h = static_cast<double>(model.hidden);
  const double up_count = shape.gated ? 2.0 : 1.0;
  double count = (up_count + 1.0) * h * ffn / split;
  if (shape.bias) count += up_count * ffn / split + h;
  return count;
}

/// `experts` experts are counted: all of them for memory, top_k for what one token uses.
double mlp_parameters(const ModelSpec& model, const MlpShape& shape, int experts, double split) {
  double count = norm_parameters(model);
  if (shape.experts == 0) return count + feed_forward_parameters(model, shape, shape.ffn, split);
  count += static_cast<double>(model.hidden) * shape.experts;  // router
  count += experts * feed_forward_parameters(model, shape, shape.ffn, split);
  if (shape.shared_ffn > 0) count += feed_forward_parameters(model, shape, shape.shared_ffn, split);
  return count;
}

enum class Experts { All, TopK };

double block_parameters(const ModelSpec& model, const LayerKind& kind, double split, Experts experts) {
  double count = 0.0;
  if (kind.attention) count += attention_parameters(model, *kind.attention, split);
  if (kind.mlp) {
    const int counted = experts == Experts::All ? kind.mlp->experts : kind.mlp->top_k;
    count += mlp_parameters(model, *kind.mlp, counted, split);
  }
  if (kind.stated) count += kind.stated->parameters / split;
  return count;
}

double model_parameters(const ModelSpec& model, Experts experts) {
  const double table = static_cast<double>(model.vocabulary) * model.hidden;
  double count = table + norm_parameters(model);
  if (!model.tied_embeddings) count += table;
  if (model.learned_positions) count += static_cast<double>(model.sequence) * model.hidden;
  const LayerKind* last = nullptr;
  double each = 0.0;  // of this kind: neighbours are mostly alike
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    const LayerKind& kind = model.kind_of(layer);
    if (kind.role != LayerRole::Block) continue;
    if (&kind != last) each = block_parameters(model, kind, 1.0, experts);
    last = &kind;
    count += each;
  }
  return count;
}

}  // namespace

std::vector<OperatorCost> layer_operators(const ModelSpec& model, const LayerKind& kind, int tensor_parallel,
                                          int samples) {
  const Sizes sizes = sizes_of(model, tensor_parallel, samples);
  std::vector<OperatorCost> operators;
  switch (kind.role) {
    case LayerRole::Embedding: operators.push_back(embedding_operator(model, sizes, tensor_parallel)); break;
    case LayerRole::Head: operators = head_operators(model, sizes, tensor_parallel); break;
    case LayerRole::Block:
      if (kind.attention) append_attention(operators, sizes, *kind.attention);
      if (kind.mlp) append_mlp(operators, sizes, kind);
      break;
  }
  if (kind.stated) operators.push_back(stated_operator(sizes, *kind.stated));
  if (tensor_parallel == 1) {
    for (OperatorCost& cost : operators) cost.all_reduce_forward = cost.all_reduce_backward = Bytes{};
  }
  return operators;
}

std::vector<std::string> recomputable_operators(const LayerKind& kind) {
  std::vector<std::string> names;
  if (kind.role != LayerRole::Block) return names;
  if (kind.attention) {
    names = {"attention_norm", "qkv"};
    if (kind.attention->fused) {
      names.emplace_back("attention");
    } else {
      names.insert(names.end(), {"score", "softmax"});
      if (kind.attention->dropout) names.emplace_back("dropout");
      names.emplace_back("context");
    }
    names.emplace_back("attention_output");
  }
  if (kind.mlp) names.insert(names.end(), {"mlp_norm", "mlp"});
  if (kind.stated) names.emplace_back("stated");
  return names;
}

Bytes boundary_bytes(const ModelSpec& model, int tensor_parallel, int samples) {
  return outside_activation(sizes_of(model, tensor_parallel, samples));
}

Bytes head_workspace(const ModelSpec& model, int tensor_parallel, int samples) {
  const Sizes sizes = sizes_of(model, tensor_parallel, samples);
  const std::int64_t logits = sizes.tokens * (padded_vocabulary(model, tensor_parallel) / tensor_parallel);
  return Bytes{(sizes.element + 4) * logits};
}

double device_parameters(const ModelSpec& model, const LayerKind& kind, int tensor_parallel) {
  const double split = tensor_parallel;
  const double table = static_cast<double>(padded_vocabulary(model, tensor_parallel)) / split * model.hidden;
  switch (kind.role) {
    case LayerRole::Embedding: {
      const double positions = model.learned_positions ? static_cast<double>(model.sequence) * model.hidden : 0.0;
      return table + positions;
    }
    case LayerRole::Head: return table + norm_parameters(model);
    case LayerRole::Block: return block_parameters(model, kind, split, Experts::All);
  }
  return 0.0;
}

double total_parameters(const ModelSpec& model) { return model_parameters(model, Experts::All); }

double active_parameters(const ModelSpec& model) { return model_parameters(model, Experts::TopK); }

Flop model_flop_per_sample(const ModelSpec& model) {
  Flop total;
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    const LayerKind& kind = model.kind_of(layer);
    if (kind.role == LayerRole::Head) continue;
    for (const OperatorCost& cost : layer_operators(model, kind, 1, 1)) total += cost.forward * 3.0;
  }
  // The head counts the vocabulary as the model states it: padding is our work, not the model's.
  total += Flop{6.0 * model.sequence * static_cast<double>(model.hidden) * model.vocabulary};
  return total;
}

}  // namespace hpplan
