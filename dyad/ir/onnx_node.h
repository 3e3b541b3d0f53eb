#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dyad/core/tensor.h"
#include "dyad/ir/op_info.h"

namespace dyad {

/// A node of an ONNX model as a rule sees it that builds the same in Dyad's operators; the onnx
/// layer implements it. A rule calls the public functions on the node's inputs: they are values of
/// the graph being built, or concrete tensors when all of the node's inputs are known already.
class OnnxNode {
 public:
  virtual ~OnnxNode() = default;

  [[nodiscard]] virtual std::string_view op() const = 0;
  /// The version of the operator's domain (its opset) that the model imports.
  [[nodiscard]] virtual int version() const = 0;
  /// The node, as a place in the model's file.
  [[nodiscard]] virtual Loc loc() const = 0;

  [[nodiscard]] virtual int input_count() const = 0;
  [[nodiscard]] virtual int output_count() const = 0;
  /// False for an optional input that is absent, or an output that nobody wants.
  [[nodiscard]] virtual bool has(int i) const = 0;
  [[nodiscard]] virtual bool wants(int i) const = 0;
  /// Input i; undefined when it is absent.
  [[nodiscard]] virtual Tensor input(int i) = 0;
  /// The elements of input i where the model alone tells them (an initializer, a constant, what
  /// follows from these); undefined otherwise.
  [[nodiscard]] virtual Tensor constant(int i) = 0;
  /// The elements of an integer input of rank 0 or 1 as sizes: numbers, or expressions in the sizes
  /// of the model's inputs. Nothing when only a run can tell.
  [[nodiscard]] virtual std::optional<Shape> known_sizes(int i) = 0;
  /// The same, with new symbols for what data tell: the run finds their values.
  [[nodiscard]] virtual std::optional<Shape> open_sizes(int i) = 0;
  virtual void output(int i, const Tensor& value) = 0;

  [[nodiscard]] virtual bool has_attribute(std::string_view name) const = 0;
  // An attribute's value, or `otherwise` when the node does not have it.
  [[nodiscard]] virtual std::int64_t integer(std::string_view name, std::int64_t otherwise) = 0;
  [[nodiscard]] virtual double number(std::string_view name, double otherwise) = 0;
  [[nodiscard]] virtual std::string text(std::string_view name, std::string_view otherwise) = 0;
  [[nodiscard]] virtual Ints integers(std::string_view name, const Ints& otherwise) = 0;
  [[nodiscard]] virtual std::vector<double> numbers(std::string_view name) = 0;
  [[nodiscard]] virtual std::vector<std::string> texts(std::string_view name) = 0;
  /// Undefined when the node does not have it.
  [[nodiscard]] virtual Tensor tensor(std::string_view name) = 0;
  /// An attribute that holds ONNX's number of a dtype.
  [[nodiscard]] virtual DType dtype(std::string_view name, DType otherwise) = 0;

  /// Refuses the node: OnnxError that names it and says why.
  [[noreturn]] virtual void fail(const std::string& reason) = 0;
  /// The rule cannot go on without the elements of input i, which constant() does not have: refuses
  /// the node, or asks for the values of the model's inputs that tell them.
  [[noreturn]] virtual void need_constant(int i) = 0;

  // What rules ask for most.

  [[nodiscard]] bool flag(std::string_view name, bool otherwise = false) {
    return integer(name, otherwise ? 1 : 0) != 0;
  }
  /// The inputs from the i-th on.
  [[nodiscard]] std::vector<Tensor> inputs_from(int i);
  /// known_sizes, open_sizes or need_constant.
  [[nodiscard]] Shape sizes(int i);
  /// The only one of these.
  [[nodiscard]] Dim one_size(int i);
  /// The elements of an input that must be a constant.
  [[nodiscard]] Tensor must_be_constant(int i);
  /// The same of integers, in row-major order.
  [[nodiscard]] Ints constant_integers(int i);
  /// The only one of these.
  [[nodiscard]] std::int64_t constant_integer(int i);
  /// An axis that the model names, of so many, counted from the front; refuses the node when there
  /// is none such.
  [[nodiscard]] std::int64_t axis_of(std::int64_t axis, int rank);
  /// How many axes an image x[n, c, ...] has behind these two.
  [[nodiscard]] std::size_t spatial_axes(const Tensor& x);
  /// The element of an input that must be a constant scalar; `otherwise` when it is absent.
  [[nodiscard]] double constant_number(int i, double otherwise);
  /// The same as an integer, exactly; a floating number is cut toward 0.
  [[nodiscard]] std::int64_t constant_integer(int i, std::int64_t otherwise);
  /// An attribute in old versions, an input in new ones: constant integers, or `otherwise`.
  [[nodiscard]] Ints integers_or_input(std::string_view name, int i, const Ints& otherwise);
};

/// What an ONNX operator means from a version of its domain on, until another rule of the operator
/// begins. Rules stand in tables beside the rows of their operators.
struct OnnxRule {
  std::string_view op;
  int since = 1;
  void (*build)(OnnxNode& node) = nullptr;
  std::string_view domain = {};
};

/// The domain of ONNX Runtime's own operators.
inline constexpr std::string_view kRuntimeDomain = "com.microsoft";

/// A rule for an operator that is one function of its inputs, without attributes.
template <Tensor (*f)(const Tensor&, Loc)>
void onnx_unary(OnnxNode& node) {
  node.output(0, f(node.input(0), node.loc()));
}
template <Tensor (*f)(const Arg&, const Arg&, Loc)>
void onnx_binary(OnnxNode& node) {
  node.output(0, f(node.input(0), node.input(1), node.loc()));
}

/// Makes rules known; they must live as long as the process.
void register_onnx_rules(std::span<const OnnxRule> rules);
/// The rule for an operator in a version of its domain, or null: the registered one with the
/// highest `since` that is not above the version.
[[nodiscard]] const OnnxRule* find_onnx_rule(std::string_view domain, std::string_view op,
                                             int version);
/// All of them, by domain, operator and version.
[[nodiscard]] std::vector<const OnnxRule*> all_onnx_rules();

}  // namespace dyad
