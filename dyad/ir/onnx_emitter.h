#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "dyad/core/tensor.h"
#include "dyad/ir/type.h"

namespace dyad {

/// An ONNX node attribute.
using OnnxAttr = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>,
                              std::vector<float>, std::vector<std::string>, Tensor>;
using OnnxAttrs = std::vector<std::pair<std::string, OnnxAttr>>;

class OnnxEmitter;

/// A walk along an axis of a tensor, slice by slice, with states from one to the next.
struct OnnxWalk {
  std::int64_t axis = 0;  ///< from the front
  bool reverse = false;   ///< from the last slice on
  std::string x;
  Type slice;                                        ///< of x without the axis
  std::vector<std::pair<std::string, Type>> states;  ///< before the first step
  Types results;                                     ///< of a step
  /// Writes what one step does: what the states become, then its results.
  std::function<std::vector<std::string>(OnnxEmitter& e, std::span<const std::string> states,
                                         const std::string& slice)>
      step;
};

/// What an operator's row uses to write itself as ONNX nodes; the onnx layer implements it. Values
/// go by name.
class OnnxEmitter {
 public:
  virtual ~OnnxEmitter() = default;

  /// The opset being written.
  [[nodiscard]] virtual int opset() const = 0;
  [[nodiscard]] virtual int input_count() const = 0;
  /// The name of input i of the node being written, empty for an absent optional one.
  [[nodiscard]] virtual std::string input(int i) = 0;
  /// Input i of a pointwise operator, converted to the dtype that it computes in: ONNX promotes
  /// nothing.
  [[nodiscard]] virtual std::string operand(int i) = 0;
  /// Input i, converted to a wider dtype when its own is none of these.
  [[nodiscard]] virtual std::string input_as(int i, DTypeSet dtypes) = 0;
  [[nodiscard]] virtual const Type& input_type(int i) const = 0;
  /// The value of input i when it is a constant of the graph, else null.
  [[nodiscard]] virtual const Tensor* constant_input(int i) const = 0;
  [[nodiscard]] virtual const Type& output_type(int i = 0) const = 0;

  /// Adds a node and returns the name of its first output (others by `outputs`, when more are
  /// wanted).
  virtual std::string node(std::string_view op, std::vector<std::string> inputs,
                           OnnxAttrs attributes = {}) = 0;
  virtual std::vector<std::string> node_multi(std::string_view op, std::vector<std::string> inputs,
                                              OnnxAttrs attributes, int outputs) = 0;
  /// Adds a Scan; the names of its results, put together along the axis.
  virtual std::vector<std::string> walk(const OnnxWalk& walk) = 0;
  /// A constant tensor as an initializer.
  virtual std::string constant(const Tensor& value) = 0;
  virtual std::string constant_i64(std::span<const std::int64_t> values) = 0;
  /// A scalar of `dtype`.
  virtual std::string scalar(double value, DType dtype) = 0;
  /// A size as an i64 scalar.
  virtual std::string size(Dim size) = 0;
  /// A 1-d i64 tensor with these sizes; symbolic ones are computed from Shape nodes.
  virtual std::string shape(const Shape& shape) = 0;
  /// A converted value; the value itself when it is known to have the dtype. `saturate` is that of
  /// small floats.
  virtual std::string cast(const std::string& value, DType dtype, bool saturate = true) = 0;
  /// Says that output i of the node being written is this value, converted to the output's dtype.
  virtual void output(int i, const std::string& value) = 0;
  /// Writes the node by its parts instead, which its row must have: where no form of this opset
  /// says it.
  virtual void parts() = 0;
  /// Fails the export: the operator, its line and why.
  [[noreturn]] virtual void fail(const std::string& reason) = 0;
};

}  // namespace dyad
