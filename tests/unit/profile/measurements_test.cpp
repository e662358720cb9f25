// Compares with measurements that lie beside the sources; skipped, with a warning, where they are absent.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "io/profile_import.hpp"
#include "profile/device_model.hpp"
#include "support/catch.hpp"
#include "support/models.hpp"

using namespace hpplan;
using namespace hpplan::testing;

namespace {

namespace fs = std::filesystem;

const std::string kShared = HPPLAN_SOURCE_DIR "/../shared/data";

bool absent(const std::string& path) {
  if (fs::exists(path)) return false;
  WARN("skipped: no " << path);
  return true;
}

ImportFile file_at(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return {path.string(), text.str()};
}

std::vector<ImportFile> files_below(const fs::path& folder) {
  std::vector<ImportFile> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".json") files.push_back(file_at(entry.path()));
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

bool contains(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

std::string import_fault(const std::vector<ImportFile>& files) {
  try {
    (void)import_profiles(files, {});
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> split_row(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream row(line);
  for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
  return cells;
}

const std::map<std::string, std::string> kOperators = {
    {"enc-attention-qkv", "qkv"},         {"enc-attention-score", "score"},     {"enc-attention-softmax", "softmax"},
    {"enc-attention-dropout", "dropout"}, {"enc-attention-context", "context"}, {"enc-MLP-GEMM-1", "mlp_up"},
    {"enc-MLP-gelu", "mlp_activation"},   {"enc-MLP-GEMM-2", "mlp_down"}};

const std::map<std::string, DeviceType> kDevices = {
    {"A100-40", {"A100-40", Bytes{}, FlopPerSecond{312e12}, BytesPerSecond{1.555e12}}},
    {"RTX-3090", {"RTX-3090", Bytes{}, FlopPerSecond{80e12}, BytesPerSecond{0.936e12}}},
    {"V100-16", {"V100-16", Bytes{}, FlopPerSecond{125e12}, BytesPerSecond{0.9e12}}},
    {"GH-96", {"GH-96", Bytes{}, FlopPerSecond{989e12}, BytesPerSecond{4.0e12}}}};

/// Modelled over measured forward time of one row of operator_profiles.csv; 0 for rows that are not compared.
double forward_ratio(const std::vector<std::string>& cells, std::map<std::string, std::size_t>& column) {
  const auto device = kDevices.find(cells[column["gpu"]]);
  const auto name = kOperators.find(cells[column["op"]]);
  const double measured = std::strtod(cells[column["fwd_us"]].c_str(), nullptr) * 1e-6;
  if (device == kDevices.end() || name == kOperators.end() || cells[column["precision"]] != "fp16") return 0.0;
  if (cells[column["tp"]] != "1" || cells[column["heads"]].empty() || measured <= 0.0) return 0.0;
  const ModelSpec model = gpt_model(1, std::stoi(cells[column["hidden"]]), std::stoi(cells[column["heads"]]));
  const Link link = fast_link();
  const DeviceSetting setting{model, device->second, link, 1};
  const ModelledLayer layer = model_layer(setting, model.kinds[1], std::stoi(cells[column["micro_batch"]]));
  for (std::size_t i = 0; i < layer.operators.size(); ++i) {
    if (layer.operators[i].name == name->second) return layer.times[i].forward.value() / measured;
  }
  return 0.0;
}

}  // namespace

TEST_CASE("every Sailor planner profile but the mislabelled one is imported", "[profile][measured]") {
  const fs::path folder = kShared + "/sailor/sailor_planner_profiles";
  if (absent(folder.string())) return;
  const ImportFile info = file_at(kShared + "/sailor/llm_info.json");
  int imported = 0;
  std::vector<std::string> refused;
  for (const ImportFile& file : files_below(folder)) {
    try {
      const auto profiles = import_profiles({file, info}, {});
      REQUIRE(profiles.size() == 1);
      CHECK(profiles.front().points.size() == 3);
      CHECK_FALSE(profiles.front().notes.empty());
      ++imported;
    } catch (const InputError& error) {
      refused.push_back(error.what());
    }
  }
  CHECK(imported > 10);
  REQUIRE(refused.size() == 1);
  CHECK(contains(refused.front(), "GPT-Neo-2.7/GH-96/profile.json"));
  CHECK(contains(refused.front(), "26 layers, but llm_info.json describes the model with 34"));
}

TEST_CASE("the Sailor collection holds the right profile of GPT-Neo on GH-96", "[profile][measured]") {
  const std::string path = kShared + "/sailor/profiles_tmp.json";
  if (absent(path)) return;
  const auto profiles = import_profiles({file_at(path), file_at(kShared + "/sailor/llm_info.json")}, {});
  CHECK(profiles.size() == 16);
  const auto found = std::find_if(profiles.begin(), profiles.end(), [](const DeviceProfile& profile) {
    return profile.model == "GPT-Neo-2.7" && profile.device_type == "GH-96";
  });
  REQUIRE(found != profiles.end());
  CHECK(found->shape.layers == 34);
}

TEST_CASE("every Metis file of Sailor is imported, or refused for lists of unequal length", "[profile][measured]") {
  const fs::path folder = kShared + "/sailor/metis_format";
  if (absent(folder.string())) return;
  for (const auto& model : fs::directory_iterator(folder)) {
    const std::vector<ImportFile> files = files_below(model.path());
    CAPTURE(model.path().string());
    if (model.path().filename() == "LLAMA-3-8") {
      CHECK(contains(import_fault(files), "35 values, but num_layers is 34"));
    } else {
      CHECK(import_profiles(files, {}).size() >= 3);
    }
  }
}

TEST_CASE("modelled operator times are near measured ones", "[profile][measured]") {
  const std::string path = kShared + "/ground-truth/operator_profiles.csv";
  if (absent(path)) return;
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  std::map<std::string, std::size_t> column;
  for (const std::string& name : split_row(line)) column.emplace(name, column.size());
  std::vector<double> errors;
  std::map<std::string, std::vector<double>> logs;
  while (std::getline(in, line)) {
    const std::vector<std::string> cells = split_row(line);
    const double ratio = forward_ratio(cells, column);
    if (ratio <= 0.0) continue;
    errors.push_back(std::abs(ratio - 1.0));
    logs[cells[column["gpu"]]].push_back(std::abs(ratio - 1.0));
  }
  REQUIRE(errors.size() > 300);
  std::string report;
  for (auto& [device, values] : logs) {
    std::sort(values.begin(), values.end());
    report += concat(device, ": median ", fixed(values[values.size() / 2] * 100, 1), " %; ");
  }
  std::sort(errors.begin(), errors.end());
  double sum = 0.0;
  for (const double error : errors) sum += error;
  const double mean = sum / static_cast<double>(errors.size());
  WARN("forward of single operators, TP 1, 16 bit, " << errors.size() << " rows: mean error " << fixed(mean * 100, 1)
                                                     << " %, " << report);
  CHECK(mean < 0.25);
}

TEST_CASE("a modelled layer is near the layer times of two papers", "[profile][measured]") {
  // Korthikanti et al. 2022, Table 4: 22B layer, h 6144, a 64, s 2048, b 4, TP 8 on A100-80: 7.7 and 11.9 ms.
  // Zero Bubble 2023, Table 9, GPT 6.2B: h 4096, a 32, s 1024, b 3 on A100-80: 7.4 and 12.3 ms a layer.
  const DeviceType type = a100();
  const Link nvlink{BytesPerSecond{235e9}, Seconds{5e-6}};
  const ModelSpec large = gpt_model(1, 6144, 64);
  const OperatorTime korthikanti = model_layer({large, type, nvlink, 8}, large.kinds[1], 4).total;
  CHECK(korthikanti.forward.value() == Approx(0.0077).epsilon(0.15));
  CHECK(korthikanti.backward.value() == Approx(0.0119).epsilon(0.25));
  const ModelSpec medium = gpt_model(1, 4096, 32, 1024);
  const OperatorTime zero_bubble = model_layer({medium, type, nvlink, 1}, medium.kinds[1], 3).total;
  CHECK(zero_bubble.forward.value() == Approx(0.0074).epsilon(0.25));
  CHECK(zero_bubble.backward.value() == Approx(0.0123).epsilon(0.25));
}
