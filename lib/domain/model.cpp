#include "domain/model.hpp"

#include <cstdint>

#include "base/check.hpp"
#include "base/text.hpp"

namespace hpplan {

namespace {

/// "28 heads are not a multiple of 8", or "" if they are.
std::string multiple_fault(int count, const char* what, int tensor_parallel) {
  if (count % tensor_parallel == 0) return "";
  return concat(count, " ", what, " are not a multiple of ", tensor_parallel);
}

std::string kind_fault(const LayerKind& kind, int tensor_parallel) {
  std::string fault;
  if (kind.attention) {
    fault = multiple_fault(kind.attention->heads, "heads", tensor_parallel);
    // Key/value groups could be replicated instead, but no field of the model asks for it: say so rather than assume.
    if (fault.empty()) fault = multiple_fault(kind.attention->kv_heads, "key/value groups", tensor_parallel);
  }
  if (kind.mlp) {
    if (fault.empty()) fault = multiple_fault(kind.mlp->ffn, "feed-forward columns", tensor_parallel);
    if (fault.empty()) fault = multiple_fault(kind.mlp->shared_ffn, "shared-expert columns", tensor_parallel);
  }
  return fault;
}

}  // namespace

int padded_vocabulary(const ModelSpec& model, int tensor_parallel) {
  check_invariant(tensor_parallel >= 1, "a TP degree of at least 1");
  const std::int64_t unit = static_cast<std::int64_t>(model.vocabulary_multiple) * tensor_parallel;
  const std::int64_t units = (model.vocabulary + unit - 1) / unit;
  return static_cast<int>(units * unit);
}

std::string tensor_parallel_fault(const ModelSpec& model, int tensor_parallel) {
  if (tensor_parallel < 1) return concat("TP degree ", tensor_parallel, " is less than 1");
  for (const LayerKind& kind : model.kinds) {
    const std::string fault = kind_fault(kind, tensor_parallel);
    if (!fault.empty()) return fault;
  }
  if (model.sequence_parallel) return multiple_fault(model.sequence, "sequence positions", tensor_parallel);
  return "";
}

std::vector<int> allowed_tensor_parallel(const ModelSpec& model, int limit) {
  std::vector<int> allowed;
  for (int degree = 1; degree <= limit; ++degree) {
    if (tensor_parallel_fault(model, degree).empty()) allowed.push_back(degree);
  }
  return allowed;
}

}  // namespace hpplan
