#include "search/simple_plans.hpp"

#include <algorithm>
#include <cmath>

namespace hpplan {

namespace {

class SimplePlans {
 public:
  explicit SimplePlans(SearchTables& tables) : tables_(tables), space_(tables.space()) {}

  std::vector<std::vector<Candidate>> run() {
    const Problem& problem = tables_.problem();
    std::vector<int> all;
    for (int g = 0; g < problem.cluster.group_count(); ++g) {
      if (problem.places.device_count(g) > 0) all.push_back(g);
    }
    for (const int b : problem.job.micro_batches) {
      if (b > problem.job.global_batch) continue;
      for (int count = 1; count <= space_.max_pipelines; count *= 2) {
        for (int most = 1; most <= problem.cluster.device_count(); most *= 2) {
          for (int tp = 1; tp <= most; tp *= 2) {
            add(b, {all}, count, most, tp);
            std::vector<std::vector<int>> apart;
            for (const int g : all) apart.push_back({g});
            if (apart.size() > 1) add(b, apart, count, most, tp);
          }
        }
      }
    }
    return std::move(plans_);
  }

 private:
  /// `count` pipelines over each of the sets of groups, with stages of at most `most` devices.
  void add(int micro_batch, const std::vector<std::vector<int>>& sets, int count, int most, int tensor_parallel) {
    std::vector<Candidate> pipelines;
    for (const std::vector<int>& groups : sets) {
      const Candidate pipeline = one(micro_batch, groups, count, most, tensor_parallel);
      if (pipeline.stages.empty()) return;
      pipelines.insert(pipelines.end(), static_cast<std::size_t>(count), pipeline);
    }
    const Constraints& limits = tables_.problem().job.constraints;
    const auto allowed = [&](const Candidate& c) { return limits.stages.allows(static_cast<int>(c.stages.size())); };
    if (!limits.pipelines.allows(static_cast<int>(pipelines.size()))) return;
    if (!std::all_of(pipelines.begin(), pipelines.end(), allowed)) return;
    plans_.push_back(std::move(pipelines));
  }

  Candidate one(int micro_batch, const std::vector<int>& groups, int count, int most, int tensor_parallel) {
    const StageTable& table = tables_.stages(micro_batch);
    Candidate pipeline{micro_batch, {}};
    std::vector<double> powers;
    for (const int g : groups) {
      const int devices = tables_.problem().places.device_count(g) / count;
      const auto port = std::find(space_.ports.begin(), space_.ports.end(), Port{g, std::min(most, devices)});
      if (port == space_.ports.end() || devices % port->devices != 0) return {};
      const int p = static_cast<int>(port - space_.ports.begin());
      const int tp = std::min(tensor_parallel, port->devices);
      const Split split{tp, port->devices / tp};
      double best = 0.0;
      for (int v = table.first_variant(p); v < table.first_variant(p + 1); ++v) {
        if (table.variants()[static_cast<std::size_t>(v)].split != split) continue;
        best = 1.0 / table.forward(v, tables_.ranges().of(1, 2));
      }
      if (best == 0.0) return {};
      for (int s = 0; s < devices / port->devices; ++s) {
        pipeline.stages.push_back({p, split, {}});
        powers.push_back(best);
      }
    }
    return divide(pipeline, powers) ? pipeline : Candidate{};
  }

  bool divide(Candidate& pipeline, const std::vector<double>& powers) {
    const int layers = tables_.problem().model.layer_count();
    const auto stages = static_cast<int>(powers.size());
    if (stages > layers || stages == 0) return false;
    double sum = 0.0;
    for (const double power : powers) sum += power;
    const auto ports = space_.ports.size();
    const std::vector<double>& links = tables_.transfers(pipeline.micro_batch);
    double reached = 0.0;
    int first = 0;
    for (int s = 0; s < stages; ++s) {
      CandidateStage& stage = pipeline.stages[static_cast<std::size_t>(s)];
      reached += powers[static_cast<std::size_t>(s)];
      const int ideal = static_cast<int>(std::lround(layers * reached / sum));
      const int last = s + 1 == stages ? layers : std::clamp(ideal, first + 1, layers - (stages - s - 1));
      stage.layers = {first, last};
      first = last;
      if (s == 0) continue;
      const auto before = static_cast<std::size_t>(pipeline.stages[static_cast<std::size_t>(s) - 1].port);
      if (links[before * ports + static_cast<std::size_t>(stage.port)] == kInfinity) return false;
    }
    return true;
  }

  SearchTables& tables_;
  const Space& space_;
  std::vector<std::vector<Candidate>> plans_;
};

}  // namespace

std::vector<std::vector<Candidate>> simple_plans(SearchTables& tables) { return SimplePlans(tables).run(); }

}  // namespace hpplan
