#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "dyad/exec/graph.h"
#include "dyad/nn/tensor_dict.h"
#include "dyad/onnx/export.h"

namespace dyad::testing {

/// Inputs of a model, and what it gives for them.
struct ModelCase {
  TensorDict inputs, outputs;
};

/// A model file to be looked at by the onnx package and, when it has cases, by ONNX Runtime.
struct ModelFile {
  std::string path;
  std::vector<ModelCase> cases;
  double tolerance = 1e-5;  ///< relative to each element
  double floor = 1e-6;      ///< relative to the largest element
};

/// What check_models.py says of each file (`error` is empty when all is well), or nothing where
/// Python has no onnx package or no ONNX Runtime.
std::optional<std::vector<nlohmann::json>> check(const std::vector<ModelFile>& models);
/// The same of one file.
std::optional<nlohmann::json> check(const ModelFile& model);

/// Runs a script of the tests with these arguments, what it prints going to a file: its exit
/// status, or nothing where Python has not the packages that it needs.
std::optional<int> run_python(const std::string& script, const std::vector<std::string>& arguments,
                              const std::string& output = {});

/// A path for a file that a test writes.
std::string temporary(const std::string& name);

/// Elements from a generator of its own: floats in [low, high), integers likewise, bools.
Tensor random_tensor(DType dtype, const Shape& shape, double low, double high, unsigned seed);

/// Numbers for symbolic sizes.
using Sizes = std::vector<std::pair<std::string, std::int64_t>>;
Shape with_sizes(const Shape& shape, const Sizes& sizes);

/// Random inputs of the described types, and what `function` gives for them eagerly.
ModelCase eager_case(std::span<const onnx::Input> inputs, const Sizes& sizes,
                     const onnx::detail::Function& function, double low = -1, double high = 1);

#define SKIP_WITHOUT(report)                                                                 \
  if (!(report))                                                                             \
  GTEST_SKIP() << "needs the Python packages of tests/python/requirements.txt (./dev setup " \
                  "installs them; DYAD_PYTHON names the Python that has them)"

}  // namespace dyad::testing
