#include "dyad/onnx/conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "dyad/base/error.h"
#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/literal.h"
#include "dyad/onnx/load.h"
#include "dyad/onnx/tensor_reader.h"
#include "dyad/onnx/unsupported.h"

namespace dyad::onnx {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

Tensor read_tensor_file(const fs::path& path) {
  pb::TensorProto proto;
  if (!proto.ParseFromString(contents(path))) {
    throw OnnxError(fmt::format("'{}' holds no tensor", path.string()));
  }
  ExternalData none({});
  return read_tensor(proto, none, Loc());
}

/// `input_0.pb`, `input_1.pb`... in their order.
std::vector<fs::path> numbered(const fs::path& folder, std::string_view prefix) {
  std::vector<fs::path> found;
  for (int i = 0;; ++i) {
    const fs::path path = folder / fmt::format("{}_{}.pb", prefix, i);
    if (!fs::exists(path)) return found;
    found.push_back(path);
  }
}

std::vector<double> numbers(const Tensor& x) {
  std::vector<double> values;
  visit_element(x.dtype(), [&]<class T>(std::type_identity<T>) {
    for_each_offset(x.shape(), x.strides(), [&](std::int64_t offset) {
      const T element = reinterpret_cast<const T*>(x.impl()->data)[offset];
      if constexpr (is_complex_element<T>) {
        values.insert(values.end(), {element.real(), element.imag()});
      } else {
        values.push_back(convert_element<double>(element));
      }
    });
  });
  return values;
}

std::string difference(const Tensor& got, const Tensor& want, Tolerance tolerance) {
  if (got.dtype() != want.dtype() || !got.shape().same_as(want.shape())) {
    return fmt::format("is {}, not {}", type_string(got), type_string(want));
  }
  const std::vector<double> a = numbers(got), b = numbers(want);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (std::abs(a[i] - b[i]) <= tolerance.absolute + tolerance.relative * std::abs(b[i])) continue;
    return fmt::format("element {} of {} is {}, not {}", i, type_string(want), number_text(a[i]),
                       number_text(b[i]));
  }
  return {};
}

std::string run_data_set(const Model& model, const fs::path& folder, Tolerance tolerance) {
  std::vector<Feed> feeds;
  const std::vector<fs::path> inputs = numbered(folder, "input");
  for (std::size_t i = 0; i < std::min(inputs.size(), model.inputs().size()); ++i) {
    feeds.emplace_back(model.inputs()[i], read_tensor_file(inputs[i]));
  }
  const std::vector<Tensor> results = model.run(feeds);
  const std::vector<fs::path> outputs = numbered(folder, "output");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string found = difference(results.at(i), read_tensor_file(outputs[i]), tolerance);
    if (!found.empty()) return fmt::format("\"{}\" {}", model.outputs()[i], found);
  }
  return {};
}

}  // namespace

std::vector<std::string> find_cases(const std::string& path) {
  std::vector<std::string> found;
  if (fs::exists(fs::path(path) / "model.onnx")) return {path};
  if (!fs::is_directory(path)) throw IoError(fmt::format("'{}' is no folder", path));
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.path().filename() == "model.onnx") {
      found.push_back(entry.path().parent_path().string());
    }
  }
  std::ranges::sort(found);
  return found;
}

CaseResult run_case(const std::string& folder, Tolerance tolerance) {
  CaseResult result{.name = fs::path(folder).filename().string(), .reason = {}};
  try {
    if (std::ifstream file(fs::path(folder) / "tolerance.txt"); file) {
      file >> tolerance.relative >> tolerance.absolute;
    }
    const Model model = load((fs::path(folder) / "model.onnx").string());
    std::vector<fs::path> sets;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().filename().string().starts_with("test_data_set_")) sets.push_back(entry);
    }
    std::ranges::sort(sets);
    for (const fs::path& set : sets) {
      result.reason = run_data_set(model, set, tolerance);
      if (!result.reason.empty()) return result;
    }
    result.outcome = sets.empty() ? CaseResult::Outcome::skipped : CaseResult::Outcome::passed;
    if (sets.empty()) result.reason = "there is no test_data_set_* beside the model";
  } catch (const UnsupportedError& error) {
    result.outcome = CaseResult::Outcome::skipped;
    result.reason = error.message();
  } catch (const std::exception& error) {
    result.reason = error.what();
  }
  return result;
}

}  // namespace dyad::onnx
