#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "domain/plan.hpp"
#include "predict/problem.hpp"
#include "search/pipeline_timer.hpp"
#include "search/space.hpp"
#include "search/stage_table.hpp"

namespace hpplan {

/// One stage of a candidate pipeline: everything but the place of its devices.
struct CandidateStage {
  int port = 0;
  Split split;
  LayerRange layers;

  friend auto operator<=>(const CandidateStage&, const CandidateStage&) = default;
};

/// A pipeline before its devices are placed and its number of micro-batches is chosen. Recomputation follows from both.
struct Candidate {
  int micro_batch = 1;
  std::vector<CandidateStage> stages;

  friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

/// Thrown where a search is told to end in the middle of its work.
struct SearchStopped {};

/// Stage tables and link times of every micro-batch size, built on first use and then shared (CPC). Not thread-safe.
class SearchTables {
 public:
  SearchTables(StageRows& rows, const Space& space);

  [[nodiscard]] const Problem& problem() const { return rows_->problem(); }
  [[nodiscard]] const Space& space() const { return *space_; }
  /// That work on these tables may use.
  [[nodiscard]] int threads() const { return threads_; }
  [[nodiscard]] WorkShare& share() { return rows_->share(); }
  [[nodiscard]] const RangeClasses& ranges() const { return rows_->ranges(); }
  /// `stop` may be empty; see check_stop().
  void stop_when(std::function<bool()> stop) { stop_ = std::move(stop); }
  /// Throws SearchStopped once the search should end. To be called between pieces of work of some milliseconds.
  void check_stop() const {
    if (stop_ && stop_()) throw SearchStopped{};
  }
  /// Sets of pipelines that do not count as plans: realise() gives nothing for them. May be empty.
  void leave_out(std::function<bool(const std::vector<Candidate>&)> unwanted) { unwanted_ = std::move(unwanted); }
  [[nodiscard]] bool leaves_out() const { return unwanted_ != nullptr; }
  [[nodiscard]] bool is_left_out(const std::vector<Candidate>& pipelines) const {
    return unwanted_ && unwanted_(pipelines);
  }
  /// Work done with these tables, in transitions of the DP.
  void add_work(std::int64_t work) { work_ += work; }
  [[nodiscard]] std::int64_t work() const { return work_; }
  [[nodiscard]] const StageTable& stages(int micro_batch);
  /// [from port * ports + to port]: seconds of one micro-batch's tensor over the best link; infinity where the job
  /// forbids the neighbourhood (type-pure pipelines).
  [[nodiscard]] const std::vector<double>& transfers(int micro_batch);
  /// The same for stages on different nodes.
  [[nodiscard]] const std::vector<double>& outer_transfers(int micro_batch);
  /// The timer of a pipeline over links of these times: plans that share a pipeline share its simulations (CPC).
  [[nodiscard]] PipelineTimer timer(const Candidate& pipeline, const std::vector<double>& links);
  /// As many tables to be used side by side, while these here rest: what is built is shared, all sizes of the job
  /// among it, and each times pipelines anew. They ask whether to stop one after the other.
  [[nodiscard]] std::vector<SearchTables> fork(std::size_t count);
  /// layer_gradient_bytes() of every layer.
  [[nodiscard]] const std::vector<Bytes>& layer_gradients() const { return rows_->layer_gradients(); }

 private:
  template <typename LinkOf>
  [[nodiscard]] std::vector<double> times_of_links(int micro_batch, LinkOf link_of) const;

  StageRows* rows_;
  const Space* space_;
  std::function<bool()> stop_;
  std::function<bool(const std::vector<Candidate>&)> unwanted_;
  std::int64_t work_ = 0;
  int threads_ = 1;
  std::map<int, std::shared_ptr<const StageTable>> stages_;
  std::map<int, std::vector<double>> transfers_;
  std::map<int, std::vector<double>> outer_transfers_;
  std::map<std::pair<Candidate, std::vector<double>>, PipelineTimer> timers_;  // the last ones used
  std::size_t timed_stages_ = 0;
};

/// Seconds of the transfer from each stage of the candidate to the next, over the best link of any placement.
[[nodiscard]] std::vector<double> best_links(SearchTables& tables, const Candidate& candidate);

/// A pipeline alone on its nodes.
struct Chains {
  std::vector<double> links;  // seconds of the transfer from each stage to the next
  std::vector<int> taken;     // devices of each stage's node that hold the next stages
};

/// The chains that spend least on links: neighbours lie on one node as long as it has room for them.
[[nodiscard]] Chains least_links(SearchTables& tables, const Candidate& candidate);

/// A pipeline with half of every stage's replicas and of the micro-batch: two of them take the same time in the place
/// of the whole, with its memory, its groups of gradients and its links, or better ones, while the optimizer is not
/// sharded over a stage's replicas. Nothing if some stage cannot be halved.
[[nodiscard]] std::optional<Candidate> twin_of(const SearchTables& tables, const Candidate& candidate);

/// The largest optimizer time over all stages of the candidates, in seconds.
[[nodiscard]] double slowest_optimizer(SearchTables& tables, std::span<const Candidate> pipelines);

}  // namespace hpplan
