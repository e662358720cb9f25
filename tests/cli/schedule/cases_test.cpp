// Mistakes that users of such tools met, as the schedule verb answers them.
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "support/catch.hpp"
#include "support/command.hpp"

using namespace hpplan;
using test::CommandResult;
using test::run_hpplan;

TEST_CASE("A08: fewer micro-batches than stages run, with their bubble and a note", "[cli][cases]") {
  // (m + p - 1) * 30 with p = 8, 10/20 per stage; the bubble is (p - 1) / (m + p - 1).
  const auto [micro_batches, makespan, bubble] =
      GENERATE(table<int, double, double>({{3, 300.0, 0.7}, {1, 240.0, 0.875}, {8, 450.0, 7.0 / 15.0}}));
  CAPTURE(micro_batches);
  const CommandResult result = run_hpplan(concat("schedule --family 1f1b --stages 8 --micro-batches ", micro_batches,
                                                 " --forward 10 --backward 20 --json"));
  CHECK(result.code == 0);
  const auto json = nlohmann::json::parse(result.out);
  CHECK(json["makespan"] == makespan);
  CHECK(json["bubble_rate"].get<double>() == Approx(bubble));
  if (micro_batches == 3) CHECK(json["peak_in_flight"] == std::vector<int>{3, 3, 3, 3, 3, 3, 2, 1});
  const std::string note =
      micro_batches < 8 ? concat("note: ", micro_batches, " micro-batches for 8 stages: the stages are idle for ",
                                 micro_batches == 3 ? "70.0" : "87.5", " % of the time\n")
                        : "";
  CHECK(result.err == note);
}

TEST_CASE("A21: the place of the slow stage decides, not its time alone", "[cli][cases]") {
  const auto [forward, backward, four, sixteen] = GENERATE(table<std::string, std::string, double, double>({
      {"3,3,3,9", "6,6,6,18", 135.0, 459.0},
      {"3,9,3,3", "6,18,6,6", 117.0, 441.0},
      {"9,3,3,3", "18,6,6,6", 108.0, 432.0},
  }));
  CAPTURE(forward);
  for (const int micro_batches : {4, 16}) {
    const CommandResult result = run_hpplan(concat("schedule --family 1f1b --stages 4 --micro-batches ", micro_batches,
                                                   " --forward ", forward, " --backward ", backward, " --json"));
    CHECK(nlohmann::json::parse(result.out)["makespan"] == (micro_batches == 4 ? four : sixteen));
  }
}
