#include "profile/recompute_choices.hpp"

#include <algorithm>
#include <tuple>

#include "domain/operators.hpp"

namespace hpplan {

namespace {

using Names = std::vector<std::string>;

/// Candidate sets in glossary order; operators that the layer lacks drop out of a set.
const std::vector<Names>& candidate_sets() {
  static const std::vector<Names> sets = {
      {"dropout"}, {"score", "softmax", "dropout"},        {"qkv", "score", "softmax", "dropout"},
      {"mlp"},     {"score", "softmax", "dropout", "mlp"},
  };
  return sets;
}

/// With fused attention there is no core to recompute: Q, K, V and the feed-forward part are what is left.
const std::vector<Names>& fused_sets() {
  static const std::vector<Names> sets = {{"qkv"}, {"mlp"}, {"qkv", "mlp"}};
  return sets;
}

RecomputeChoice choice_of(const Names& wanted, const std::vector<RecomputePart>& parts) {
  RecomputeChoice choice;
  for (const std::string& name : wanted) {
    const auto part = std::find_if(parts.begin(), parts.end(), [&](const RecomputePart& p) { return p.name == name; });
    if (part == parts.end()) continue;
    choice.operators.push_back(name);
    choice.freed += part->freed;
    choice.extra += part->forward;
  }
  choice.live = choice.freed;
  return choice;
}

/// Keeps what no other choice beats in both freed bytes and time; ascending in both.
std::vector<RecomputeChoice> pareto(std::vector<RecomputeChoice> choices) {
  std::stable_sort(choices.begin(), choices.end(), [](const RecomputeChoice& a, const RecomputeChoice& b) {
    return std::tie(b.freed, a.extra) < std::tie(a.freed, b.extra);
  });
  std::vector<RecomputeChoice> kept;
  for (RecomputeChoice& choice : choices) {
    if (kept.empty() || choice.extra < kept.back().extra) kept.push_back(std::move(choice));
  }
  std::reverse(kept.begin(), kept.end());
  if (!kept.front().operators.empty()) kept.insert(kept.begin(), RecomputeChoice{});  // a part measured as free
  return kept;
}

}  // namespace

std::vector<RecomputePart> recompute_parts(const ModelledLayer& layer) {
  std::vector<RecomputePart> parts;
  for (std::size_t i = 0; i < layer.operators.size(); ++i) {
    const OperatorCost& cost = layer.operators[i];
    if (!cost.recomputable) continue;
    const std::string name = cost.name == "mlp_up" || cost.name == "mlp_activation" ? "mlp" : cost.name;
    const auto same = std::find_if(parts.begin(), parts.end(), [&](const RecomputePart& p) { return p.name == name; });
    RecomputePart& part = same == parts.end() ? parts.emplace_back(RecomputePart{name, Seconds{}, Bytes{}}) : *same;
    part.forward += layer.times[i].forward_compute;
    part.freed += cost.freed;
  }
  return parts;
}

std::vector<RecomputeChoice> recompute_choices(const LayerKind& kind, const std::vector<RecomputePart>& parts,
                                               const RecomputeLayer& layer) {
  std::vector<RecomputeChoice> choices{RecomputeChoice{}};
  if (kind.role != LayerRole::Block) return choices;
  const bool fused = kind.attention && kind.attention->fused;
  for (const Names& wanted : fused ? fused_sets() : candidate_sets()) {
    RecomputeChoice choice = choice_of(wanted, parts);
    if (choice.freed > Bytes{}) choices.push_back(std::move(choice));
  }
  RecomputeChoice full;
  full.operators = recomputable_operators(kind);
  full.freed = layer.saved - layer.boundary;
  full.extra = layer.forward;
  full.live = layer.saved;
  // A part never frees more than the whole: measured bytes may contradict the shape.
  const Bytes most = full.freed > Bytes{} ? full.freed : layer.saved;
  for (RecomputeChoice& choice : choices) choice.freed = choice.live = std::min(choice.freed, most);
  if (full.freed > Bytes{}) choices.push_back(std::move(full));
  return pareto(std::move(choices));
}

}  // namespace hpplan
