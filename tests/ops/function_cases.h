#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dyad/core/tensor.h"
#include "dyad/ops/ops.h"

namespace dyad::testing {

using Tensors = std::vector<Tensor>;
using nlohmann::json;

/// How a case of a function that is no operator of its own calls it: `attrs` are the attributes of
/// the case, as its script wrote them.
using CaseFunction = Tensors (*)(const json& attrs, const Tensors& inputs);

/// Makes functions known to reference_cases() by name. One static object a test file:
///
///     const FunctionCases kCases{{"mse_loss", [](const json&, const Tensors& in) -> Tensors {
///                                   return {mse_loss(in[0], in[1])};
///                                 }}};
class FunctionCases {
 public:
  struct Entry {
    std::string name;
    CaseFunction call;
  };
  FunctionCases(std::initializer_list<Entry> entries);
};

/// The function of that name, or null.
CaseFunction find_function_case(const std::string& name);
/// The names of all of them.
std::vector<std::string> function_case_names();

/// A number of a case: inf, -inf and nan are strings there.
double number_of(const json& value);
Ints ints_of(const json& values);
Shape shape_of(const json& sizes);

// Attributes of a case by name.
double number(const json& attrs, const char* name);
std::int64_t integer(const json& attrs, const char* name);
bool flag(const json& attrs, const char* name);
std::string text(const json& attrs, const char* name);
Ints ints(const json& attrs, const char* name);
Shape shape(const json& attrs, const char* name);
DType dtype_at(const json& attrs, const char* name);
/// Of the attribute `reduction`.
Reduction reduction_of(const json& attrs);

// Complex numbers go in and out of a case as their parts, so that finite differences and ONNX see
// real tensors.
Tensor z(const Tensor& x);
Tensor parts(const Tensor& x);

}  // namespace dyad::testing
