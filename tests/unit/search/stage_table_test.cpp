#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <variant>

#include "predict/stage.hpp"
#include "search/infeasible.hpp"
#include "support/builders.hpp"
#include "support/search_pieces.hpp"

namespace hpplan::testing {

TEST_CASE("the stage table says of every stage what the prediction of that stage says", "[search]") {
  std::int64_t fitting = 0;
  std::int64_t too_large = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Inputs inputs = random_inputs(seed, {6, 2, 8, 16});
    if (seed % 3 == 0) restrict_places(inputs, seed);
    INFO("seed " << seed << ": " << describe(inputs));
    Pieces pieces(inputs);
    const RangeClasses& ranges = pieces.rows.ranges();
    for (const int b : pieces.problem.job.micro_batches) {
      const StageTable& table = pieces.tables.stages(b);
      for (std::size_t v = 0; v < table.variants().size(); ++v) {
        const auto& [port, split] = table.variants()[v];
        const int group = pieces.space.ports[static_cast<std::size_t>(port)].group;
        const auto variant = static_cast<int>(v);
        for (int first = 0; first < ranges.layers(); ++first) {
          for (int last = first + 1; last <= ranges.layers(); ++last) {
            const int range = ranges.of(first, last);
            for (int w = 1; w <= table.max_in_flight(); ++w) {
              const StageQuery query{group, split.tensor_parallel, split.data_parallel, b, ranges.example(range), w};
              const auto predicted = predict_stage(pieces.problem, query);
              const auto* estimate = std::get_if<StageEstimate>(&predicted);
              const bool fits = estimate != nullptr && pieces.problem.places.may_hold(group, query.layers);
              (fits ? fitting : too_large) += 1;
              REQUIRE((table.backward(variant, range, w) < kInfinity) == fits);
              if (!fits) continue;
              REQUIRE(table.forward(variant, range) == estimate->forward.value());
              REQUIRE(table.backward(variant, range, w) == Approx(estimate->backward.value()).epsilon(1e-12));
            }
          }
        }
      }
    }
  }
  CHECK(fitting > 10'000);
  CHECK(too_large > 10'000);
}

TEST_CASE("layer ranges are one class exactly where ends, kinds and spans are alike", "[search]") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Dice dice(seed);
    ModelSpec model = model_of({});
    model.layers.assign(1, 0);
    while (model.kinds.size() < 5) model.kinds.push_back(model.kinds[1]);
    const int blocks = dice.whole(1, 9);
    for (int i = 0; i < blocks; ++i) model.layers.push_back(dice.whole(3, 4));
    model.layers.push_back(2);
    const int layers = model.layer_count();
    std::vector<LayerRange> spans;
    for (int i = dice.whole(0, 2); i > 0; --i) {
      const int first = dice.whole(0, layers - 1);
      spans.push_back({first, dice.whole(first + 1, layers)});
    }
    const RangeClasses ranges(model, spans);
    std::map<std::vector<int>, int> known;
    for (int first = 0; first < layers; ++first) {
      for (int last = first + 1; last <= layers; ++last) {
        std::vector<int> kinds(model.layers.begin() + first, model.layers.begin() + last);
        std::sort(kinds.begin(), kinds.end());
        for (const LayerRange& span : spans) kinds.push_back(first < span.last && span.first < last ? 1 : 0);
        kinds.push_back(first == 0 ? 1 : 0);
        kinds.push_back(last == layers ? 1 : 0);
        const auto [place, added] = known.try_emplace(kinds, ranges.of(first, last));
        REQUIRE(place->second == ranges.of(first, last));
        if (added) REQUIRE(ranges.example(ranges.of(first, last)) == LayerRange{first, last});
      }
    }
    REQUIRE(ranges.count() == static_cast<int>(known.size()));
  }
}

TEST_CASE("the nearest miss of a pipeline is that of the best way to cut the layers, up to a buffer", "[search]") {
  int checked = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Inputs inputs = random_inputs(seed, {4, 2, 7, 16});
    for (DeviceType& type : inputs.cluster.device_types) type.memory = Bytes{type.memory.count() / 2};
    INFO("seed " << seed << ": " << describe(inputs));
    const Problem problem = inputs.problem();
    const Space space = make_space(problem);
    if (space.ports.empty() || !states_fit(problem)) continue;
    const std::vector<Rejection> rejections = explain_infeasible(problem);
    if (rejections.empty() || rejections.front().text.find("a pipeline of") == std::string::npos) continue;
    const int stages = std::min(problem.cluster.device_count(), space.max_stages);
    const int micro_batch = problem.job.micro_batches.front();
    // The worst miss of stages s.. over the layers from `first` on, at best; stages may be empty.
    const std::function<Bytes(int, int)> least = [&](int s, int first) {
      const int layers = problem.model.layer_count();
      std::optional<Bytes> best;
      for (int last = s + 1 == stages ? layers : first; last <= layers; ++last) {
        const int in_flight = std::min(stages - s, std::max(1, problem.job.global_batch / micro_batch));
        const int group = place_of_rank(problem.cluster, problem.cluster.device_count() * s / stages).group;
        Bytes own;
        if (first < last) {
          const auto predicted = predict_stage(problem, {group, 1, 1, micro_batch, {first, last}, in_flight});
          if (const auto* miss = std::get_if<Rejection>(&predicted)) own = miss->needed - miss->available;
        }
        const Bytes worst = s + 1 == stages ? own : std::max(own, least(s + 1, last));
        if (!best || worst < *best) best = worst;
      }
      return *best;
    };
    ++checked;
    INFO(rejections.front().text);
    const Bytes found = rejections.front().needed - rejections.front().available;
    REQUIRE(found >= least(0, 0));
    REQUIRE(found <= least(0, 0) + boundary_bytes(problem.model, micro_batch) * 2);
  }
  CHECK(checked > 10);
}

}  // namespace hpplan::testing
