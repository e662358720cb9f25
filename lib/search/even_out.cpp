#include "search/even_out.hpp"

#include <vector>

namespace hpplan {

namespace {

constexpr int kPlacements = 64;

/// The pipeline with one layer less on stage `from` and one more on stage `to`.
bool move_layer(Candidate& pipeline, std::size_t from, std::size_t to) {
  std::vector<CandidateStage>& stages = pipeline.stages;
  if (stages[from].layers.size() < 2) return false;
  const std::size_t low = from < to ? from : to;
  const std::size_t high = from < to ? to : from;
  const int shift = from < to ? -1 : 1;
  for (std::size_t s = low; s < high; ++s) {
    stages[s].layers.last += shift;
    stages[s + 1].layers.first += shift;
  }
  return true;
}

/// The first move that makes pipeline `p` more even within the limit.
bool improve(SearchTables& tables, Realised& plan, std::size_t p, double limit, int& tries) {
  const Candidate& pipeline = plan.pipelines[p];
  const float now = unevenness(tables, pipeline);
  for (std::size_t from = 0; from < pipeline.stages.size(); ++from) {
    for (std::size_t to = 0; to < pipeline.stages.size(); ++to) {
      if (from == to) continue;
      Candidate moved = pipeline;
      if (!move_layer(moved, from, to) || !(unevenness(tables, moved) < now)) continue;
      if (--tries < 0) return false;
      std::vector<Candidate> pipelines = plan.pipelines;
      pipelines[p] = std::move(moved);
      Realised trial = realise(tables, std::move(pipelines), limit, kPlacements, plan.placement);
      if (trial.time > limit) continue;
      plan = std::move(trial);
      return true;
    }
  }
  return false;
}

}  // namespace

float unevenness(SearchTables& tables, const Candidate& pipeline) {
  const StageTable& table = tables.stages(pipeline.micro_batch);
  std::vector<double> times;
  double sum = 0.0;
  for (const CandidateStage& stage : pipeline.stages) {
    const int range = tables.ranges().of(stage.layers.first, stage.layers.last);
    times.push_back(table.time(table.variant_of(stage.port, stage.split), range, 1));
    sum += times.back();
  }
  double squares = 0.0;
  for (const double time : times) {
    const double distance = time * static_cast<double>(times.size()) / sum - 1.0;
    squares += distance * distance;
  }
  return static_cast<float>(squares);
}

Realised even_out(SearchTables& tables, Realised plan, double limit, int most_tries) {
  int tries = most_tries;
  for (bool moved = true; moved && tries > 0;) {
    moved = false;
    // A move may change the order of the pipelines: each round looks at the places as they are then.
    for (std::size_t p = 0; p < plan.pipelines.size() && !moved; ++p) moved = improve(tables, plan, p, limit, tries);
  }
  return plan;
}

}  // namespace hpplan
