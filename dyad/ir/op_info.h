#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dyad/base/loc.h"
#include "dyad/core/evaluator.h"
#include "dyad/ir/attrs.h"
#include "dyad/ir/type.h"

namespace dyad::scalar {
class Scalar;
}

namespace dyad {

using scalar::Scalar;

class ReductionBuilder;
class OnnxEmitter;
class Gradient;

/// How an operator computes; each row has exactly one.
enum class BodyKind : std::uint8_t {
  pointwise,  ///< a scalar program for each element, inputs broadcast
  reduction,  ///< init, combine, finish over axes
  view,       ///< other shape and strides over the same storage
  composite,  ///< written in other operators
  opaque,  ///< a named kernel of the runtime for each device (library calls, contractions, gathers)
  control,     ///< holds graphs (cond, while_loop, scan)
  structural,  ///< belongs to graphs: placeholder, constant, variable, assign...
};

/// What an operator does beside computing outputs from inputs. Anything but pure keeps its place in
/// program order.
enum class Effect : std::uint8_t { pure, random, read, write, host, collective };

/// One input or output of an operator.
struct ArgInfo {
  std::string_view name;
  DTypeSet dtypes = kAny;
  bool optional = false;
  bool variadic = false;  ///< the last input only: any number of tensors
};
/// Inputs, or outputs, of an operator that has as many as a call says.
inline constexpr ArgInfo kAnyTensors[] = {{.name = "tensors", .variadic = true}};

/// The operator's counterpart in ONNX: its name, and the opset that brought the form that is
/// written.
struct OnnxName {
  std::string_view op;
  int since = 0;
};

/// Where generated tests take their inputs from.
struct Samples {
  double low = -2, high = 2;    ///< range of ordinary random inputs
  std::string_view edges = {};  ///< numbers at which values are checked one by one: "0 -0 inf nan"
  bool differentiable = true;   ///< gradients are checked by finite differences on ordinary inputs
};

/// How a pointwise operator types its result, after its inputs are promoted to one dtype.
enum class Typing : std::uint8_t {
  same,      ///< the promoted dtype
  floating,  ///< the promoted dtype, f32 for integers and bool
  boolean,   ///< bool, computed in the promoted dtype
};

/// How an opaque or composite operator computes for a whole batch at once, for vmap(); the other
/// kinds, views included, say it by their bodies.
enum class Batching : std::uint8_t {
  none,     ///< by its parts, or one call for each member of the batch
  leading,  ///< axes in front of those that it works on are a batch and broadcast: matmul
  axes,     ///< one more axis in front of every input, and `axis`, `axes`, `shape` moved on by one:
            ///< concat, softmax, gather
  first,    ///< the same for the first input alone, where the others are one for all: index_select
  samples,  ///< axis 0 of the first input and of the outputs counts samples, which do not meet; the
            ///< other inputs are one for all: conv2d
  all_samples,  ///< axis 0 of every input and output counts samples: max_pool2d
};

/// What a rule for types may look at.
struct InferIn {
  const struct OpInfo& op;
  std::span<const Type> inputs;
  const void* attrs;
  Loc loc;

  [[nodiscard]] const Type& operator[](std::size_t i) const noexcept { return inputs[i]; }
  /// False for an optional input that is absent.
  [[nodiscard]] bool has(std::size_t i) const noexcept {
    return i < inputs.size() && !inputs[i].is_none();
  }
};

/// Shape and strides over the storage of the input, `offset` elements further on; `possible` is
/// false when only a copy will do. A view may have another dtype than its input (view_as_real):
/// strides and offset are in elements of the result; when the memory does not begin where such an
/// element may, it is copied first.
struct ViewLayout {
  Shape shape = {};
  Strides strides = {};
  std::int64_t offset = 0;
  bool possible = true;
};

/// One operator: a constexpr row made from its struct (ir/op.h), or by a user at run time. Rows
/// outlive every graph.
struct OpInfo {
  std::string_view name;
  std::string_view doc = {};
  int version = 1;
  BodyKind kind = BodyKind::opaque;
  Effect effect = Effect::pure;
  Typing typing = Typing::same;
  std::span<const ArgInfo> inputs = {};
  std::span<const ArgInfo> outputs = {};
  OnnxName onnx = {};
  Samples samples = {};
  std::uint32_t saved_inputs = 0;   ///< bit i: the gradient rule reads input i
  std::uint32_t saved_outputs = 0;  ///< bit i: it reads output i
  /// Bit i: a run refuses some elements of input i: an index out of range, a singular matrix.
  std::uint32_t checks = 0;
  /// Computing it takes about as long as reading its inputs: it may be done twice to save memory.
  bool cheap = false;
  bool may_copy = false;   ///< view: there are strides that leave only a copy
  bool own_types = false;  ///< pointwise: inputs have dtypes for reasons of their own (a scale, a
                           ///< key); those without axes are not cast to what the others have
  /// Opaque, with an `eval` as a pointwise operator has it, whose last operand is the number of the
  /// element in the result, row-major (i64): kernels of its users may make it. Inputs are scalars.
  bool counted = false;
  Batching batching = Batching::none;
  const AttrsInfo* attrs = &attrs_info<NoAttrs>;

  Types (*infer)(const InferIn& in) = nullptr;
  /// Pointwise, counted: fills `out` from `in`, all recorded in one program.
  void (*eval)(const void* attrs, std::span<const Scalar> in, std::span<Scalar> out) = nullptr;
  /// Reduction: builds init, combine and finish for an element type.
  void (*reduce)(const void* attrs, ReductionBuilder& builder) = nullptr;
  /// Reduction: the reduced axes of an input of that rank, normalised and sorted.
  Ints (*reduced_axes)(const void* attrs, int rank) = nullptr;
  /// View: the layout of the result; `out` is the inferred shape as numbers.
  ViewLayout (*view)(const void* attrs, const Shape& in, const Strides& strides,
                     const Shape& out) = nullptr;
  /// View: `x` with `value` in the place of its view, written in operators: what a write in place
  /// to the view means where values never change. Null: it cannot be written through.
  Tensor (*write)(const void* attrs, const Tensor& x, const Tensor& value, Loc loc) = nullptr;
  /// Composite: the same result by other operators.
  std::vector<Tensor> (*expand)(const void* attrs, TensorRefs in, Loc loc) = nullptr;
  /// The gradient rule, written in operators; null: not differentiable (composites without one
  /// differentiate their expansion).
  void (*grad)(Gradient& g) = nullptr;
  /// Writes the ONNX nodes when the name alone does not say it.
  void (*to_onnx)(OnnxEmitter& emitter, const void* attrs) = nullptr;
};

/// The operator of that name, or null.
[[nodiscard]] const OpInfo* find_op(std::string_view name) noexcept;
/// Every operator, built in and registered, by name.
[[nodiscard]] std::vector<const OpInfo*> all_ops();
/// Adds rows to the registry; the rows must live as long as the process. ValueError when a name is
/// taken.
void register_ops(std::span<const OpInfo* const> rows);

/// The row's description of input `i` (the last one for the tensors of a variadic input), or null
/// when the operator has no such input.
[[nodiscard]] const ArgInfo* input_info(const OpInfo& op, std::size_t i) noexcept;

/// Checks the number and dtypes of inputs against the row (an absent optional input has the type
/// none) and infers the outputs. ShapeError, DTypeError, ValueError.
[[nodiscard]] Types infer_types(const OpInfo& op, std::span<const Type> inputs, const void* attrs,
                                Loc loc);

/// A size that only a run can tell (how many elements are not zero): what a rule for types gives
/// for it. A graph puts a fresh symbol in its place.
[[nodiscard]] Dim unknown_size();

/// Types of a pointwise operator: inputs broadcast, promoted, typed as the row says.
[[nodiscard]] Types infer_pointwise(const InferIn& in);

/// The dtype that the row promotes its inputs to, whatever their ranks (PromotedInputs has seen to
/// those): that of result_type() if all tensors had axes. Inputs that the row limits to bool or to
/// indices (a condition, positions) and absent ones take no part.
[[nodiscard]] DType promote_inputs(const OpInfo& op, TensorRefs inputs);
/// False for an input that keeps its own dtype whatever the others are (see promote_inputs).
[[nodiscard]] bool takes_part_in_promotion(const ArgInfo& input) noexcept;
/// A host number (TensorImpl::is_number) as one of dtype `dtype`, converted as convert_element
/// does.
[[nodiscard]] Tensor convert_number(const Tensor& number, DType dtype);

/// `matmul(a: f32[3, 4], b: f32[5, 2])`: how every message names a call.
[[nodiscard]] std::string call_string(const OpInfo& op, std::span<const Type> inputs,
                                      const void* attrs = nullptr);
/// Throw ShapeError / DTypeError / ValueError with `call_string: rule`.
[[noreturn]] void fail_shape(const InferIn& in, const std::string& rule);
[[noreturn]] void fail_dtype(const InferIn& in, const std::string& rule);
[[noreturn]] void fail_value(const InferIn& in, const std::string& rule);

}  // namespace dyad
