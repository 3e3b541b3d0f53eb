#include "checker.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "dyad/core/create.h"
#include "dyad/io/npy.h"
#include "dyad/ops/elementary.h"

namespace dyad::testing {
namespace {

constexpr int kPackageMissing = 77;

std::string python() {
  const char* const chosen = std::getenv("DYAD_PYTHON");
  return chosen ? chosen : "python3";
}

}  // namespace

std::string temporary(const std::string& name) {
  const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) /
      (std::string("dyad_onnx_") + test->test_suite_name() + "_" + test->name());
  std::filesystem::create_directories(folder);
  return folder / name;
}

std::optional<std::vector<nlohmann::json>> check(const std::vector<ModelFile>& models) {
  nlohmann::json manifest = nlohmann::json::array();
  std::size_t number = 0;
  for (const ModelFile& model : models) {
    nlohmann::json cases = nlohmann::json::array();
    for (const ModelCase& each : model.cases) {
      const std::string stem = temporary("case" + std::to_string(number++));
      io::save_npz(stem + "_in.npz", each.inputs);
      io::save_npz(stem + "_out.npz", each.outputs);
      cases.push_back({{"inputs", stem + "_in.npz"}, {"outputs", stem + "_out.npz"}});
    }
    manifest.push_back({{"model", model.path},
                        {"run", !model.cases.empty()},
                        {"cases", cases},
                        {"tolerance", model.tolerance},
                        {"floor", model.floor}});
  }
  const std::string manifest_path = temporary("manifest.json"), result = temporary("report.json");
  std::ofstream(manifest_path) << manifest;
  const std::string command =
      python() + " tests/onnx/check_models.py '" + manifest_path + "' > '" + result + "'";
  const int status = std::system(command.c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == kPackageMissing) return {};
  std::stringstream text;
  text << std::ifstream(result).rdbuf();
  if (status != 0) throw std::runtime_error("check_models.py failed: " + text.str());
  return nlohmann::json::parse(text.str()).get<std::vector<nlohmann::json>>();
}

std::optional<int> run_python(const std::string& script, const std::vector<std::string>& arguments,
                              const std::string& output) {
  std::string command = python() + " " + script;
  for (const std::string& argument : arguments) command += " '" + argument + "'";
  if (!output.empty()) command += " > '" + output + "'";
  const int status = std::system(command.c_str());
  if (!WIFEXITED(status)) return status;
  if (WEXITSTATUS(status) == kPackageMissing) return {};
  return WEXITSTATUS(status);
}

std::optional<nlohmann::json> check(const ModelFile& model) {
  const auto reports = check(std::vector{model});
  if (!reports) return {};
  return reports->at(0);
}

Tensor random_tensor(DType dtype, const Shape& shape, double low, double high, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> range(low, high);
  std::vector<double> values(static_cast<std::size_t>(shape.numel().number()));
  for (double& value : values)
    value = is_floating(dtype) ? range(generator) : std::floor(range(generator));
  return to(tensor(values, shape), dtype);
}

Shape with_sizes(const Shape& shape, const Sizes& sizes) {
  Shape numbers;
  for (const Dim dim : shape) {
    numbers.push_back(substitute(dim, [&](Dim symbol) {
      for (const auto& [name, size] : sizes) {
        if (symbol.same_as(Dim(name))) return Dim(size);
      }
      return symbol;
    }));
  }
  return numbers;
}

ModelCase eager_case(std::span<const onnx::Input> inputs, const Sizes& sizes,
                     const onnx::detail::Function& function, double low, double high) {
  ModelCase made;
  std::vector<Tensor> given;
  unsigned seed = 1;
  for (const onnx::Input& input : inputs) {
    given.push_back(random_tensor(input.dtype, with_sizes(input.shape, sizes), low, high, seed++));
    made.inputs.add(input.name, given.back());
  }
  std::size_t number = 0;
  for (const Tensor& output : function(given)) {
    made.outputs.add("output" + std::to_string(number++), output.detach());
  }
  return made;
}

}  // namespace dyad::testing
