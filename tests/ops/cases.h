#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dyad/core/tensor.h"
#include "dyad/exec/graph.h"
#include "dyad/ir/op_info.h"

namespace dyad::testing {

/// Has this process interpret kernels instead of compiling hundreds that run once, unless
/// DYAD_KERNELS says otherwise or a kernel has run: they give the same bits.
void interpret_kernels();

/// Tests on small tensors.
class Interpreted : public ::testing::Test {
 protected:
  Interpreted() { interpret_kernels(); }
};

/// One line of a file in data/: an operator's row, or a function (see function_cases.h), with
/// inputs and what it must give.
struct Case {
  std::string name;
  const OpInfo* op = nullptr;  ///< null for a function
  Ref<Attrs> attrs;            ///< of a row
  std::vector<Tensor> inputs;  ///< undefined where an optional one is absent
  std::vector<Tensor> outputs;
  double tolerance = 1;
  double floor = 0;
  bool grad = false;
  int onnx_since = 0;      ///< refused in ONNX opsets before this one
  std::string text;        ///< for messages
  std::size_t number = 0;  ///< counted through all files, by their names
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> call;
};

/// All cases, read once; with DYAD_OPS=NAME,NAME... in the environment only those of these
/// operators.
const std::vector<Case>& reference_cases();
/// Whether DYAD_OPS leaves some out: what counts cases has nothing to say then.
bool only_some_cases();

/// Runs a case's operator or function through the current evaluator.
inline std::vector<Tensor> run(const Case& c, const std::vector<Tensor>& inputs) {
  return c.call(inputs);
}

/// A case as a graph of its inputs; `symbolic`: with their sizes as symbols, equal ones as the same
/// one, but for ones, which broadcast.
Graph graph_of(const Case& c, bool symbolic);

/// The same case with its axes counted from the end, where its row has attributes `axis` or `axes`.
std::optional<Case> with_negative_axes(const Case& c);

/// How the elements of a concrete tensor lie in memory.
enum class Layout { row_major, column_major, stepped };
/// The same elements in another layout.
Tensor laid_out(const Tensor& x, Layout layout);

/// All elements in row-major order as f64 (integers up to 2^53 are exact), complex ones as two.
std::vector<double> elements(const Tensor& x);
/// A concrete f64 tensor.
Tensor f64_tensor(const std::vector<double>& values, const Shape& shape);

/// Empty when `got` agrees with `want`: same dtype, same shape, elements within the case's
/// tolerance (NaN with NaN, equal infinities).
std::string difference(const Case& c, const Tensor& got, const Tensor& want);

}  // namespace dyad::testing
