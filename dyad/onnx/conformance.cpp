#include "dyad/onnx/conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <fstream>

#include "dyad/base/error.h"
#include "dyad/core/element.h"
#include "dyad/core/generator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/core/text.h"
#include "dyad/ir/literal.h"
#include "dyad/onnx/load.h"
#include "dyad/onnx/model_reader.h"
#include "dyad/onnx/numbers.h"
#include "dyad/onnx/unsupported.h"
#include "dyad/onnx/value_file.h"

namespace dyad::onnx {
namespace {

namespace fs = std::filesystem;

/// `input_0.pb`, `input_1.pb`... in their order. OnnxError where one is missing before others.
std::vector<fs::path> numbered(const fs::path& folder, std::string_view prefix) {
  const auto count = std::ranges::count_if(fs::directory_iterator(folder), [&](const auto& entry) {
    const std::string name = entry.path().filename().string();
    return name.starts_with(fmt::format("{}_", prefix)) && name.ends_with(".pb");
  });
  std::vector<fs::path> found;
  for (int i = 0; i < count; ++i) {
    found.push_back(folder / fmt::format("{}_{}.pb", prefix, i));
    if (!fs::exists(found.back())) {
      throw OnnxError(fmt::format("{} has {} files {}_*.pb, but {} is missing",
                                  folder.filename().string(), count, prefix,
                                  found.back().filename().string()));
    }
  }
  return found;
}

std::string difference_of_texts(const Tensor& got, const Tensor& want) {
  const std::vector<std::string> a = to_strings(got), b = to_strings(want);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    return fmt::format("element {} of {} is \"{}\", not \"{}\"", i, type_string(want), a[i], b[i]);
  }
  return {};
}

/// Mean and variance of numbers, with the variances that these have among samples of so many.
struct Moments {
  double mean = 0, variance = 0, of_mean = 0, of_variance = 0;

  explicit Moments(const std::vector<double>& values) {
    const auto count = static_cast<double>(values.size());
    double fourth = 0;
    for (const double v : values) mean += v / count;
    for (const double v : values) {
      variance += std::pow(v - mean, 2) / count;
      fourth += std::pow(v - mean, 4) / count;
    }
    of_mean = variance / count;
    of_variance = (fourth - variance * variance) / count;
  }
};

/// Numbers that were drawn are compared by mean and variance, five standard deviations wide.
std::string difference_of_draws(const Tensor& got, const Tensor& want) {
  if (want.impl()->numel() == 0) return {};
  const Moments a(numbers(got)), b(numbers(want));
  const auto differ = [](double x, double y, double variance) {
    return std::abs(x - y) > 5 * std::sqrt(variance) + 1e-6;
  };
  if (differ(a.mean, b.mean, a.of_mean + b.of_mean)) {
    return fmt::format("has the mean {}, not {}", number_text(a.mean), number_text(b.mean));
  }
  if (differ(a.variance, b.variance, a.of_variance + b.of_variance)) {
    return fmt::format("has the variance {}, not {}", number_text(a.variance),
                       number_text(b.variance));
  }
  return {};
}

/// How results are compared.
struct Comparison {
  Tolerance tolerance;
  bool draws = false;   ///< the model draws random numbers
  bool* by_statistics;  ///< set when that mattered
};

std::string difference(const Tensor& got, const Tensor& want, const Comparison& by) {
  if (got.dtype() != want.dtype() || !got.shape().same_as(want.shape())) {
    return fmt::format("is {}, not {}", type_string(got), type_string(want));
  }
  if (got.dtype() == DType::string) return difference_of_texts(got, want);
  const std::vector<double> a = numbers(got), b = numbers(want);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    // Relative to infinity everything would be near.
    const double allowed =
        std::isinf(b[i]) ? 0 : by.tolerance.absolute + by.tolerance.relative * std::abs(b[i]);
    if (std::abs(a[i] - b[i]) <= allowed) continue;
    if (by.draws) {
      *by.by_statistics = true;
      return difference_of_draws(got, want);
    }
    return fmt::format("element {} of {} is {}, not {}", i, type_string(want), number_text(a[i]),
                       number_text(b[i]));
  }
  return {};
}

std::string_view kind_of(const ModelValue& value) {
  if (value.is_tensor()) return "a tensor";
  return value.is_sequence() ? "a sequence" : "an empty optional";
}

std::string difference(const ModelValue& got, const ModelValue& want, const Comparison& by) {
  if (kind_of(got) != kind_of(want)) {
    return fmt::format("is {}, not {}", kind_of(got), kind_of(want));
  }
  if (got.is_tensor()) return difference(got.tensor(), want.tensor(), by);
  const auto &a = got.sequence(), &b = want.sequence();
  if (a.size() != b.size()) return fmt::format("has {} elements, not {}", a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::string found = difference(a[i], b[i], by);
    if (!found.empty()) return fmt::format("element {} {}", i, found);
  }
  return {};
}

bool draws_numbers(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes) {
  return std::ranges::any_of(nodes, [](const pb::NodeProto& node) {
    const std::string& op = node.op_type();
    if (op.starts_with("Random") || op == "Bernoulli" || op == "Multinomial" || op == "Dropout") {
      return true;
    }
    return std::ranges::any_of(node.attribute(), [](const pb::AttributeProto& attribute) {
      return attribute.has_g() && draws_numbers(attribute.g().node());
    });
  });
}

bool draws_numbers(const pb::ModelProto& model) {
  return draws_numbers(model.graph().node()) ||
         std::ranges::any_of(model.functions(),
                             [](const auto& function) { return draws_numbers(function.node()); });
}

std::string run_data_set(const Model& model, const fs::path& folder, const Comparison& by) {
  const auto with_names = [&](const std::vector<fs::path>& files,
                              const std::vector<ValueInfo>& infos) {
    std::vector<NamedValue> values;
    for (const fs::path& file : files) {
      if (values.size() == infos.size()) {
        throw OnnxError(fmt::format("{} holds {}, which the model does not have",
                                    folder.filename().string(), file.filename().string()));
      }
      const ValueInfo& info = infos[values.size()];
      if (!info.is_keys) {
        values.push_back({info.name, load_value(file.string(), info.kind, Loc())});
        continue;
      }
      auto [keys, elements] = load_map(file.string(), info.is_list, Loc());
      values.push_back({info.name, std::move(keys)});
      values.push_back({infos[values.size()].name, std::move(elements)});
    }
    return values;
  };
  const std::vector<NamedValue> wanted =
      with_names(numbered(folder, "output"), model.output_info());
  if (wanted.empty()) {
    return fmt::format("{} holds no output_0.pb to compare with", folder.filename().string());
  }
  const std::vector<ModelValue> results =
      model.run_values(with_names(numbered(folder, "input"), model.input_info()), Loc());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string found = difference(results.at(i), wanted[i].value, by);
    if (!found.empty()) return fmt::format("\"{}\" {}", wanted[i].name, found);
  }
  return {};
}

/// What the file says, if there is one. OnnxError for other text than two numbers from 0 on.
void take_tolerance(const fs::path& path, Tolerance& tolerance) {
  std::ifstream file(path);
  if (!file) return;
  std::string rest;
  if (!(file >> tolerance.relative >> tolerance.absolute) || file >> rest ||
      !(tolerance.relative >= 0 && tolerance.absolute >= 0)) {
    throw OnnxError("tolerance.txt holds other text than two numbers from 0 on (\"rtol atol\")");
  }
}

}  // namespace

std::vector<std::string> find_cases(const std::string& path, Loc loc) {
  std::vector<std::string> found;
  if (fs::exists(fs::path(path) / "model.onnx")) return {path};
  if (!fs::is_directory(path)) throw IoError(fmt::format("'{}' is no folder", path), loc);
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.path().filename() == "model.onnx") {
      found.push_back(entry.path().parent_path().string());
    }
  }
  if (found.empty()) {
    throw IoError(fmt::format("'{}' holds no case: there is no model.onnx in it or below", path),
                  loc);
  }
  std::ranges::sort(found);
  return found;
}

CaseResult run_case(const std::string& folder, Tolerance tolerance) {
  CaseResult result{.name = fs::absolute(fs::path(folder) / "model.onnx")
                                .lexically_normal()
                                .parent_path()
                                .filename()
                                .string(),
                    .reason = {}};
  try {
    take_tolerance(fs::path(folder) / "tolerance.txt", tolerance);
    manual_seed(0);
    const fs::path path = fs::path(folder) / "model.onnx";
    const Model model = load(path.string(), {}, Loc());
    const MappedFile file(path.string(), {});
    const bool draws = draws_numbers(read_model(file.bytes, file.name, {}));
    std::vector<fs::path> sets;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().filename().string().starts_with("test_data_set_")) sets.push_back(entry);
    }
    std::ranges::sort(sets);
    for (const fs::path& set : sets) {
      result.reason = run_data_set(
          model, set,
          {.tolerance = tolerance, .draws = draws, .by_statistics = &result.by_statistics});
      if (!result.reason.empty()) return result;
    }
    result.outcome = sets.empty() ? CaseResult::Outcome::skipped : CaseResult::Outcome::passed;
    if (sets.empty()) result.reason = "there is no test_data_set_* beside the model";
  } catch (const UnsupportedError& error) {
    result.outcome = CaseResult::Outcome::skipped;
    result.reason = error.message();
  } catch (const Error& error) {
    result.reason = error.message();
  } catch (const std::exception& error) {
    result.reason = error.what();
  }
  return result;
}

}  // namespace dyad::onnx
