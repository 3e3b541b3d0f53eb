#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "checker.h"
#include "dyad/io/npy.h"
#include "dyad/onnx/load.h"
#include "dyad/ops/ops.h"

// Trained models that others made, as packages of theirs carry them: speech detection, detection
// and recognition of text, types of files. trained_models.py makes their inputs, and has ONNX
// Runtime's results.

namespace dyad::testing {
namespace {

using nlohmann::json;

constexpr double kTolerance = 1e-4;

/// What trained_models.py writes; nothing where a package is missing.
std::optional<json> trained_models() {
  const std::string path = temporary("manifest.json");
  const std::optional<int> status = run_python(
      "tests/onnx/trained_models.py", {std::filesystem::path(path).parent_path().string()});
  if (!status) return {};
  if (*status != 0) throw std::runtime_error("trained_models.py failed");
  return json::parse(std::ifstream(path));
}

double largest_difference(const Tensor& got, const Tensor& want) {
  EXPECT_EQ(type_string(got), type_string(want));
  if (!got.shape().same_as(want.shape()) || got.dtype() != want.dtype()) return INFINITY;
  return to(max(abs(got - want)), f64).item<double>();
}

/// All runs of a model, its own state carried from one to the next: the largest difference.
double run_all(const json& entry, const onnx::LoadOptions& options) {
  const onnx::Model model = onnx::load(entry["model"].get<std::string>(), options);
  double largest = 0;
  std::vector<Feed> state;
  for (const json& run : entry["runs"]) {
    const TensorDict inputs = io::load_npz(run["inputs"].get<std::string>());
    const TensorDict wanted = io::load_npz(run["outputs"].get<std::string>());
    std::vector<Feed> feeds;
    for (const auto& [name, value] : inputs) feeds.emplace_back(name, value);
    for (const Feed& kept : state) {
      if (!inputs.contains(kept.name)) feeds.push_back(kept);
    }
    const std::vector<Tensor> results = model.run(feeds);
    state.clear();
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::string& name = model.outputs()[i];
      const double difference = largest_difference(results[i], wanted.at(name));
      EXPECT_LE(difference, kTolerance) << name << " of " << run["inputs"];
      largest = std::max(largest, std::isnan(difference) ? INFINITY : difference);
      for (const auto& [input, output] : entry["state"].items()) {
        if (output == name) state.emplace_back(input, results[i]);
      }
    }
  }
  return largest;
}

TEST(TrainedModels, GiveWhatOnnxRuntimeGives) {
  const auto models = trained_models();
  if (!models) {
    GTEST_SKIP() << "needs the Python packages of tests/python/models.txt (./dev setup installs "
                    "them; DYAD_PYTHON names the Python that has them)";
  }
  EXPECT_GE(models->size(), 10u);
  for (const json& entry : *models) {
    SCOPED_TRACE(entry["name"].get<std::string>());
    // As variables, and as constants, which are folded into one another.
    for (const bool trainable : {true, false}) {
      const double largest = run_all(entry, {.trainable = trainable});
      RecordProperty(entry["name"].get<std::string>(), std::to_string(largest));
    }
  }
}

}  // namespace
}  // namespace dyad::testing
