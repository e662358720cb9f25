#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "emit/sweep_summary.hpp"
#include "io/sweep_reader.hpp"
#include "support/catch.hpp"
#include "sweep/runner.hpp"

namespace hpplan {
namespace {

/// A folder that goes away with the test.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hpplan-sweep-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Scratch() { std::filesystem::remove_all(folder_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
};

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<std::string> sorted_lines(const std::string& path) {
  std::istringstream text(content(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

const char* const kSpec =
    "name: example\n"
    "base: {micro_batch: [1, 2, 4]}\n"
    "grid:\n"
    "  model: [small, large, broken]\n"
    "  cluster: [c4, c8]\n"
    "  global_batch: [64, 128, 256]\n";

/// Stands in for the planner: quick, and a function of the point alone.
SweepOutcome fake_plan(const SweepPoint& point) {
  if (point.model == "broken") throw InputError(Diagnostic{"broken.yaml", 3, 1, "layers", "missing", ""});
  SweepOutcome outcome;
  outcome.devices = point.cluster == "c4" ? 4 : 8;
  if (point.model == "large" && outcome.devices == 4) {
    outcome.status = SweepStatus::Infeasible;
    outcome.reason = "device memory: 1.2 GiB short";
    return outcome;
  }
  outcome.status = SweepStatus::Planned;
  outcome.iteration_time = Seconds{point.job.global_batch / 7.0 / outcome.devices};
  outcome.lower_bound = outcome.iteration_time * 0.9;
  outcome.samples_per_second = point.job.global_batch / outcome.iteration_time.value();
  outcome.used_devices = outcome.devices;
  outcome.pipelines = 1;
  outcome.plan = "1 stage, b 4";
  return outcome;
}

std::string key_of(const SweepPoint& point) {
  return concat(point.model, " ", point.cluster, " ", point.job.global_batch);
}

SweepRunOptions run_options(const std::string& results, int threads = 1, SweepShard shard = {}) {
  return {results, shard, threads, key_of, fake_plan, {}, false};
}

std::string refusal(const std::string& spec) {
  try {
    (void)parse_sweep(spec, "sweep.yaml");
  } catch (const InputError& error) {
    return to_text(error.diagnostics().front());
  }
  return "accepted";
}

TEST_CASE("a grid is a product, the last key varying fastest", "[sweep]") {
  const auto points = parse_sweep(kSpec, "sweep.yaml");
  REQUIRE(points.size() == 18);
  CHECK(points[0].model == "small");
  CHECK(points[1].job.global_batch == 128);
  CHECK(points[3].cluster == "c8");
  CHECK(points[0].job.micro_batches == std::vector<int>{1, 2, 4});
  CHECK(points[0].settings.front() == std::pair<std::string, std::string>("micro_batch", "[1, 2, 4]"));
}

TEST_CASE("points are combined with the grid, and win over base", "[sweep]") {
  const auto points = parse_sweep(
      "base: {global_batch: 8, model: m}\ngrid: {cluster: [a, b]}\npoints:\n  - {global_batch: 16, stages: [2, 4]}\n  "
      "- {sequence: 512, schedule: gpipe}\n",
      "s");
  REQUIRE(points.size() == 4);
  CHECK(points[1].job.global_batch == 16);
  CHECK(points[1].job.constraints.stages == CountLimit{2, 4});
  CHECK(points[3].job.global_batch == 8);
  CHECK(points[3].sequence == 512);
  CHECK(points[3].job.schedules == std::vector<std::string>{"gpipe"});
}

TEST_CASE("broken specifications are refused at their place", "[sweep]") {
  CHECK(refusal("grid: {modle: [a]}").find("sweep.yaml:1:15: error: grid.modle: unknown setting") == 0);
  CHECK(refusal("grid: {modl: [a]}").find("did you mean") != std::string::npos);
  CHECK(refusal("grid: {model: [a], cluster: [b]}").find("point 0 has no global_batch") != std::string::npos);
  CHECK(refusal("grid: {model: []}") != "accepted");
  CHECK(refusal("grid: {model: a}") != "accepted");
  CHECK(refusal("grid: {global_batch: [0]}\nbase: {model: a, cluster: b}") != "accepted");
  CHECK(refusal("gird: {model: [a]}").find("sweep.yaml:1") == 0);
  CHECK(refusal("") != "accepted");
}

TEST_CASE("a line reads back as it was written", "[sweep]") {
  for (const SweepPoint& point : parse_sweep(kSpec, "s")) {
    if (point.model == "broken") continue;
    const SweepLine line{point.index, "0123", point.settings, fake_plan(point)};
    const auto again = parse_sweep_line(sweep_line_text(line));
    REQUIRE(again);
    CHECK(again->outcome == line.outcome);
    CHECK(again->settings == line.settings);
  }
  CHECK_FALSE(parse_sweep_line("{\"point\": 1"));
  CHECK_FALSE(parse_sweep_line("{}"));
  CHECK_FALSE(parse_sweep_line("[1]"));
}

TEST_CASE("a sweep goes on past infeasible and broken points", "[sweep]") {
  const Scratch scratch;
  const auto points = parse_sweep(kSpec, "s");
  const SweepSummary summary = run_sweep(points, run_options(scratch.file("r.jsonl")));
  CHECK(summary.planned == 9);
  CHECK(summary.infeasible == 3);
  CHECK(summary.broken == 6);
  CHECK(content(scratch.file("r.jsonl")).find("broken.yaml:3:1: error: layers: missing") != std::string::npos);
}

TEST_CASE("equal problems are planned once", "[sweep]") {
  const Scratch scratch;
  const auto points =
      parse_sweep("base: {model: small, cluster: c4}\ngrid: {micro_batch: [1, 2, 4], global_batch: [64, 128]}\n", "s");
  std::atomic<int> calls = 0;
  SweepRunOptions options = run_options(scratch.file("r.jsonl"), 2);
  options.plan = [&](const SweepPoint& point) {
    ++calls;
    return fake_plan(point);
  };
  const SweepSummary summary = run_sweep(points, options);
  CHECK(calls == 2);  // the key of this test leaves the micro-batch out
  CHECK(summary.computed == 2);
  CHECK(sorted_lines(scratch.file("r.jsonl")).size() == 6);
}

TEST_CASE("threads and shards do not change the lines", "[sweep]") {
  const Scratch scratch;
  const auto points = parse_sweep(kSpec, "s");
  (void)run_sweep(points, run_options(scratch.file("whole")));
  (void)run_sweep(points, run_options(scratch.file("threads"), 3));
  CHECK(sorted_lines(scratch.file("threads")) == sorted_lines(scratch.file("whole")));
  (void)run_sweep(points, run_options(scratch.file("one"), 1, {1, 2}));
  (void)run_sweep(points, run_options(scratch.file("two"), 1, {2, 2}));
  std::ofstream(scratch.file("both"), std::ios::binary) << content(scratch.file("two")) << content(scratch.file("one"));
  CHECK(sorted_lines(scratch.file("both")) == sorted_lines(scratch.file("whole")));
  CHECK(sorted_lines(scratch.file("one")).size() == 9);
}

TEST_CASE("a finished file lies in the order of points, whoever was done first", "[sweep]") {
  const Scratch scratch;
  const auto points = parse_sweep(kSpec, "s");
  (void)run_sweep(points, run_options(scratch.file("whole")));
  std::atomic<int> done = 0;
  SweepRunOptions options = run_options(scratch.file("late"), 2);
  options.plan = [&](const SweepPoint& point) {
    while (point.index == 0 && done < 2) std::this_thread::yield();
    ++done;
    return fake_plan(point);
  };
  (void)run_sweep(points, options);
  CHECK(content(scratch.file("late")) == content(scratch.file("whole")));

  // Behind a link, and with the permissions that it had.
  namespace fs = std::filesystem;
  done = 0;
  std::ofstream(scratch.file("behind")).close();
  fs::permissions(scratch.file("behind"), fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink(scratch.file("behind"), scratch.file("link"));
  options.results = scratch.file("link");
  (void)run_sweep(points, options);
  CHECK(content(scratch.file("behind")) == content(scratch.file("whole")));
  CHECK(fs::is_symlink(scratch.file("link")));
  CHECK(fs::status(scratch.file("behind")).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("a torn last line is cut off and its point planned again", "[sweep]") {
  const Scratch scratch;
  const auto points = parse_sweep(kSpec, "s");
  (void)run_sweep(points, run_options(scratch.file("whole")));
  const std::string whole = content(scratch.file("whole"));
  for (std::size_t length = 0; length <= whole.size(); length += 61) {
    CAPTURE(length);
    std::ofstream(scratch.file("torn"), std::ios::binary | std::ios::trunc) << whole.substr(0, length);
    (void)run_sweep(points, run_options(scratch.file("torn")));
    CHECK(content(scratch.file("torn")) == whole);
  }
}

TEST_CASE("a finished sweep plans nothing and writes nothing", "[sweep]") {
  const Scratch scratch;
  const auto points = parse_sweep(kSpec, "s");
  (void)run_sweep(points, run_options(scratch.file("r")));
  const std::string before = content(scratch.file("r"));
  const SweepSummary summary = run_sweep(points, run_options(scratch.file("r")));
  CHECK(summary.computed == 0);
  CHECK(summary.kept == 18);
  CHECK(summary.planned == 9);
  CHECK(content(scratch.file("r")) == before);
}

TEST_CASE("results of another sweep, of changed inputs and broken lines are refused", "[sweep]") {
  const Scratch scratch;
  const auto points = parse_sweep(kSpec, "s");
  (void)run_sweep(points, run_options(scratch.file("r")));
  const auto others = parse_sweep("base: {model: small, cluster: c4}\ngrid: {global_batch: [1, 2]}\n", "s");
  CHECK_THROWS_AS(run_sweep(others, run_options(scratch.file("r"))), InputError);
  SweepRunOptions changed = run_options(scratch.file("r"));
  changed.key = [](const SweepPoint& point) { return key_of(point) + " edited"; };
  CHECK_THROWS_AS(run_sweep(points, changed), InputError);
  std::ofstream(scratch.file("broken")) << "{\"point\": 0}\n";
  CHECK_THROWS_AS(run_sweep(points, run_options(scratch.file("broken"))), InputError);
  std::ofstream(scratch.file("twice"), std::ios::binary) << content(scratch.file("r")) << content(scratch.file("r"));
  CHECK_THROWS_AS(run_sweep(points, run_options(scratch.file("twice"))), InputError);
  CHECK_THROWS_AS(run_sweep(points, run_options(scratch.file("no/such/folder"))), InputError);
}

TEST_CASE("broken points are planned again on request, and only they", "[sweep]") {
  const Scratch scratch;
  const auto points = parse_sweep(kSpec, "s");
  (void)run_sweep(points, run_options(scratch.file("r")));
  SweepRunOptions mended = run_options(scratch.file("r"), 2);
  std::atomic<int> calls = 0;
  mended.plan = [&](const SweepPoint& point) {
    ++calls;
    SweepPoint known = point;
    if (known.model == "broken") known.model = "small";
    return fake_plan(known);
  };
  CHECK(run_sweep(points, mended).computed == 0);
  mended.retry_broken = true;
  const SweepSummary summary = run_sweep(points, mended);
  CHECK(calls == 6);
  CHECK(summary.kept == 12);
  CHECK(summary.retried == 6);
  CHECK(summary.planned == 15);
  CHECK(summary.broken == 0);
  CHECK(sorted_lines(scratch.file("r")).size() == 18);
  CHECK_FALSE(std::filesystem::exists(scratch.file("r.retry")));
  CHECK(run_sweep(points, mended).computed == 0);
}

TEST_CASE("a broken point whose input was mended is not taken for one of other inputs without a word", "[sweep]") {
  const Scratch scratch;
  const auto points = parse_sweep("base: {model: broken, cluster: c4, global_batch: 8}\n", "s");
  SweepRunOptions options = run_options(scratch.file("r"));
  options.key = [](const SweepPoint&) -> std::string {
    throw InputError(Diagnostic{"broken.yaml", 3, 1, "", "missing", ""});
  };
  (void)run_sweep(points, options);
  std::string hint;
  try {
    (void)run_sweep(points, run_options(scratch.file("r")));
  } catch (const InputError& error) {
    hint = error.diagnostics().front().hint;
  }
  CHECK(hint == "it was broken; --retry-broken plans it again");
  SweepRunOptions again = run_options(scratch.file("r"));
  again.retry_broken = true;
  CHECK(run_sweep(points, again).retried == 1);
}

/// Runs the sweep in a process of its own and kills it after `delay`.
void run_and_kill(const std::vector<SweepPoint>& points, const std::string& results, std::chrono::microseconds delay) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    SweepRunOptions options = run_options(results, 1);
    options.plan = [](const SweepPoint& point) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      return fake_plan(point);
    };
    try {
      (void)run_sweep(points, options);
    } catch (...) {
      ::_exit(9);
    }
    ::_exit(0);
  }
  std::this_thread::sleep_for(delay);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  const bool refused = WIFEXITED(status) && WEXITSTATUS(status) == 9;
  CHECK_FALSE(refused);
}

TEST_CASE("a sweep killed at fifty random moments loses and doubles nothing", "[sweep]") {
  const Scratch scratch;
  const auto points = parse_sweep(
      "base: {model: small}\ngrid: {cluster: [c4, c8], global_batch: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, "
      "15, 16, 17, 18, 19, 20]}\n",
      "s");
  (void)run_sweep(points, run_options(scratch.file("whole")));
  const auto whole = sorted_lines(scratch.file("whole"));
  std::mt19937 random(5);
  int kills = 0;
  while (kills < 50) {
    const std::string results = scratch.file(concat("r", kills));
    for (int i = 0; i < 5; ++i, ++kills)
      run_and_kill(points, results, std::chrono::microseconds(500 + random() % 8000));
    (void)run_sweep(points, run_options(results));
    CHECK(sorted_lines(results) == whole);
  }
}

TEST_CASE("only one run may write a file", "[sweep]") {
  const Scratch scratch;
  const auto points = parse_sweep(kSpec, "s");
  SweepRunOptions options = run_options(scratch.file("r"));
  bool refused = false;
  options.plan = [&](const SweepPoint& point) {
    try {
      (void)run_sweep(points, run_options(scratch.file("r")));
    } catch (const InputError&) {
      refused = true;
    }
    return fake_plan(point);
  };
  (void)run_sweep(points, options);
  CHECK(refused);
}

TEST_CASE("summaries show every point, and the best time per number of devices", "[sweep]") {
  const Scratch scratch;
  (void)run_sweep(parse_sweep(kSpec, "s"), run_options(scratch.file("r")));
  const auto lines = parse_sweep_results(content(scratch.file("r")), "r");
  const std::string table = sweep_table(lines);
  CHECK(std::count(table.begin(), table.end(), '\n') == 19);
  CHECK(table.find("11.1 %") != std::string::npos);
  const std::string csv = sweep_csv(lines);
  CHECK(csv.find("point,micro_batch,model,cluster,global_batch,status,") == 0);
  CHECK(csv.find("\"[1, 2, 4]\"") != std::string::npos);
  const std::string svg = sweep_svg(lines);
  CHECK(svg.find("small, global_batch 128") != std::string::npos);
  CHECK(svg.find("iteration time (s)") != std::string::npos);
  CHECK(svg.find("</svg>") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(sweep_svg({}).find("no plan") != std::string::npos);
  CHECK(sweep_table({}) == "no results\n");
}

TEST_CASE("the picture of a sweep keeps clusters of one size apart, and joins those of one family", "[sweep]") {
  const Scratch scratch;
  const auto points =
      parse_sweep("base: {model: small, global_batch: 8}\ngrid: {cluster: [b2-b4-4, b2-b4-8, b3-b4-4]}\n", "s");
  (void)run_sweep(points, run_options(scratch.file("r")));
  auto lines = parse_sweep_results(content(scratch.file("r")), "r");
  const int devices[] = {4, 8, 4};
  for (std::size_t k = 0; k < lines.size(); ++k) lines[k].outcome.devices = devices[lines[k].index];
  const std::string svg = sweep_svg(lines);
  CHECK(svg.find(">on b2-b4</text>") != std::string::npos);
  CHECK(svg.find(">on b3-b4</text>") != std::string::npos);
  CHECK(svg.find("b2-b4-8") == std::string::npos);
}

TEST_CASE("500 small problems are planned and written, each once", "[sweep]") {
  const Scratch scratch;
  std::string batches;
  for (int i = 1; i <= 250; ++i) batches += concat(i > 1 ? ", " : "", i);
  const auto points =
      parse_sweep(concat("base: {model: small}\ngrid: {cluster: [c4, c8], global_batch: [", batches, "]}\n"), "s");
  (void)run_sweep(points, run_options(scratch.file("r"), 2));
  CHECK(sorted_lines(scratch.file("r")).size() == 500);
}

}  // namespace
}  // namespace hpplan
