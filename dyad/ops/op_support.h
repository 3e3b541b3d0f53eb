#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/op.h"
#include "dyad/ir/scalar_math.h"
#include "dyad/ops/cumulative.h"

/// What the operators' structs share. For the .cpp files of this layer.
namespace dyad::ops {

struct IndexAttrs;

inline constexpr ArgInfo kOut[] = {{"out"}};
inline constexpr ArgInfo kBoolOut[] = {{"out", kBool}};
inline constexpr ArgInfo kIndexOut[] = {{"out", set_of(DType::i64)}};
inline constexpr ArgInfo kUnary[] = {{"x", kAny}};
/// Of operators that only move elements.
inline constexpr ArgInfo kMoved[] = {{"x", kEverything}};
inline constexpr ArgInfo kUnaryNumber[] = {{"x", kNumber}};
inline constexpr ArgInfo kUnaryFloat[] = {{"x", kFloat}};
inline constexpr ArgInfo kBinary[] = {{"a", kAny}, {"b", kAny}};
inline constexpr ArgInfo kBinaryNumber[] = {{"a", kNumber}, {"b", kNumber}};
inline constexpr ArgInfo kGradAndX[] = {{"grad", kFloat}, {"x", kFloat}};
inline constexpr ArgInfo kXAndY[] = {{"x", kAny}, {"y", kAny}};
inline constexpr ArgInfo kValuesAndIndices[] = {{"values"}, {"indices", set_of(DType::i64)}};
/// Where functions to whole numbers go wrong.
inline constexpr Samples kRoundingSamples{
    .edges = "0 -0 0.5 -0.5 1.5 2.5 -2.5 0.49999997 8388609 -1e20 inf -inf nan"};

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The dtype that sums and products have: integers are added in i64.
[[nodiscard]] constexpr DType sum_dtype(DType dtype) {
  return is_floating(dtype) ? dtype : DType::i64;
}

/// Whether a tensor holds complex numbers: its arithmetic is written in that of its parts
/// (complex.cpp), where a graph, a gradient and a kernel see real numbers only.
[[nodiscard]] inline bool is_complex(const Tensor& x) noexcept {
  return x.defined() && dyad::is_complex(x.impl()->dtype);
}
[[nodiscard]] inline bool any_complex(const Tensor& a, const Tensor& b) noexcept {
  return is_complex(a) || is_complex(b);
}

/// Bits of saved_inputs and saved_outputs.
inline constexpr std::uint32_t kFirst = 1, kSecond = 2, kThird = 4, kFourth = 8;

/// The schema of a function of one argument with floating results (f32 for integers and bool).
constexpr Schema unary_function(std::string_view name, std::string_view doc, OnnxName onnx,
                                Samples samples, std::uint32_t saved_inputs,
                                std::uint32_t saved_outputs = 0) {
  return {.name = name,
          .inputs = kUnary,
          .outputs = kOut,
          .doc = doc,
          .onnx = onnx,
          .samples = samples,
          .typing = Typing::floating,
          .saved_inputs = saved_inputs,
          .saved_outputs = saved_outputs};
}
/// The same of two arguments.
constexpr Schema binary_function(std::string_view name, std::string_view doc, Samples samples,
                                 std::uint32_t saved_inputs, std::uint32_t saved_outputs = 0) {
  Schema schema = unary_function(name, doc, {}, samples, saved_inputs, saved_outputs);
  schema.inputs = kBinary;
  return schema;
}

/// While a function is recorded, asks whether sizes that were computed are 0 or 1, of which strides
/// say nothing: for what depends on how x lies. Arguments of such sizes are told apart anyway.
void ask_for_small_sizes(const Tensor& x, Loc loc);

/// What `size` is in this call, also where only data tell, which no guard is made of: for errors.
/// Itself where a graph leaves it open.
[[nodiscard]] Dim size_now(Dim size);
/// Whether `size` is less than `least`, which a function refuses. Of sizes that only data tell a
/// recording looks at those of this call and notes what must hold: a later call for which it does
/// not runs eagerly, and meets the function's own error. A graph leaves them open.
[[nodiscard]] bool is_below(Dim size, Dim least);
/// Whether `size` is no multiple of `of`, looked at in the same way. For functions whose operators
/// do not fit together then: later calls are left to them.
[[nodiscard]] bool leaves_rest(Dim size, std::int64_t of);

/// `axis` counted from the front; IndexError as part of the call's message when out of range.
[[nodiscard]] int checked_axis(const InferIn& in, std::int64_t axis, int rank);
/// The axes counted from the front and sorted, all of them when none is named. IndexError when one
/// is out of range, ValueError when one is named twice.
[[nodiscard]] Ints checked_axes(const InferIn& in, const Ints& axes, int rank);
/// The same for axes that have been checked.
[[nodiscard]] Ints sorted_axes(const Ints& axes, int rank);
/// An axis in range counted from the front; another as it is, for infer to refuse.
[[nodiscard]] inline std::int64_t normalized(std::int64_t axis, const Tensor& x) {
  const int rank = x.defined() ? x.rank() : 0;
  return axis < 0 && axis >= -rank ? axis + rank : axis;
}
/// Whether `axis` is 0 or -1 of a scalar: what works along an axis takes it as one element, as in
/// PyTorch. Public functions see to that; rows have no axis of a scalar.
[[nodiscard]] inline bool is_of_scalar(std::int64_t axis, const Tensor& x) noexcept {
  return x.defined() && x.rank() == 0 && (axis == 0 || axis == -1);
}
/// The axes of a reduction over x: of a scalar none in the place of the one that it is said to
/// have.
[[nodiscard]] inline Ints reduced_of(const Tensor& x, Ints axes) {
  if (axes.size() == 1 && is_of_scalar(axes[0], x)) axes.clear();
  return axes;
}
/// A scalar as a vector of one element, and what was made of that as scalars again.
[[nodiscard]] Tensor as_vector(const Tensor& x, Loc loc);
[[nodiscard]] Tensor as_scalar(const Tensor& x, Loc loc);
[[nodiscard]] ValuesAndIndices as_scalar(const ValuesAndIndices& x, Loc loc);
/// `shape` without the sorted `axes`, or with size 1 there when they are kept.
[[nodiscard]] Shape reduced_shape(const Shape& shape, const Ints& axes, bool keepdim);
/// The product of the sizes at `axes`.
[[nodiscard]] Dim count_of(const Shape& shape, const Ints& axes);

[[noreturn]] void fail_index(const InferIn& in, const std::string& rule);
/// DTypeError unless every input that is present has the dtype of the first one.
void require_one_dtype(const InferIn& in);

/// What infer_pointwise() gives for two operands that are not both bool; else DTypeError by `rule`.
[[nodiscard]] Types infer_of_numbers(const InferIn& in, const std::string& rule);

/// A tensor of f16 or bf16 in f32; another one, or none, as it is.
[[nodiscard]] Tensor widened(const Tensor& x);
/// What was computed in f32 for operands that meet in `dtype`: in f16 or bf16 where it is one of
/// these.
[[nodiscard]] Tensor narrowed(const Tensor& x, DType dtype);
[[nodiscard]] std::vector<Tensor> narrowed(std::vector<Tensor> x, DType dtype);
/// The dtype that tensors meet in when one of them is f16 or bf16 (undefined ones count for
/// nothing).
[[nodiscard]] std::optional<DType> dtype_with_narrow(TensorRefs tensors);

/// f(x...), computed in f32 where a tensor is f16 or bf16: what f makes on the way then has the
/// range and the precision that sums have, and its result is rounded once. For others f(x...) as it
/// is. What calls it has opened a LocScope.
template <class F, class... X>
[[nodiscard]] auto in_f32(const F& f, const X&... x) {
  const Tensor* refs[] = {&x...};
  const std::optional<DType> dtype = dtype_with_narrow(refs);
  return dtype ? narrowed(f(widened(x)...), *dtype) : f(x...);
}
/// The same of a composite's inputs, for its body.
template <class F>
[[nodiscard]] std::vector<Tensor> inputs_in_f32(TensorRefs in, const F& f) {
  const std::optional<DType> dtype = dtype_with_narrow(in);
  if (!dtype) return f(in);
  std::vector<Tensor> wide;
  std::vector<const Tensor*> refs;
  wide.reserve(in.size());
  refs.reserve(in.size());
  for (const Tensor* x : in) wide.push_back(widened(*x));
  for (const Tensor& x : wide) refs.push_back(&x);
  return narrowed(f(TensorRefs(refs)), *dtype);
}
/// grad / size in f32: f16 does not hold every count.
[[nodiscard]] Tensor over_count(const Tensor& grad, Dim count);

/// The sizes of a tensor, with their symbols while a graph is recorded: what functions and
/// expansions pass on as a shape.
[[nodiscard]] Shape sizes_of(const Tensor& x, Loc loc = std::source_location::current());
/// A size as an operand: a number when it is one, otherwise a tensor computed from it.
[[nodiscard]] Arg size_arg(Dim size, Loc loc = std::source_location::current());

/// gather() by indices that must not be negative: classes, whose -1 is a mistake. They were given
/// to the operator `of`, which an error names.
[[nodiscard]] Tensor gather_from_front(const Tensor& x, std::int64_t axis, const Tensor& index,
                                       std::string_view of,
                                       Loc loc = std::source_location::current());
/// An operand that may be a host number as a tensor of `dtype` (a number as a scalar).
[[nodiscard]] Tensor as_dtype(const Arg& value, DType dtype,
                              Loc loc = std::source_location::current());
/// Writes `value`, what the operator `name` gives for it, into target, which keeps shape and dtype:
/// ShapeError for another shape, DTypeError for a dtype of a higher category.
Tensor& overwrite(Tensor& target, const Tensor& value, std::string_view name, Loc loc);
/// index_select() by indices that must not be negative. They were given to the operator `of`, which
/// an error names, unless it is none.
[[nodiscard]] Tensor index_select_from_front(const Tensor& x, std::int64_t axis,
                                             const Tensor& index, std::string_view of = {},
                                             Loc loc = std::source_location::current());

/// The type of x for a scatter of (x, index, source) along the axis of `attrs`: index has the rank
/// of x and reaches beyond it along no other axis, source has the shape of index and the dtype of x
/// (IndexError, ShapeError, DTypeError).
[[nodiscard]] Types infer_scatter_at(const InferIn& in, const IndexAttrs& attrs);

/// dropout() with a key that is given.
[[nodiscard]] Tensor dropout_by_key(const Tensor& x, double p, const Tensor& seed,
                                    const Tensor& offset,
                                    Loc loc = std::source_location::current());

/// The row of an operator that has a kernel and also `parts(attrs, in, loc)`: its results by other
/// operators. Through these it is differentiated when it has no rule (then it saves all its
/// inputs), and written as ONNX when it has no form.
template <Operator Op>
inline constexpr OpInfo op_info_with_parts = [] {
  OpInfo row = make_op_info<Op>();
  row.expand = [](const void* attrs, TensorRefs in, Loc loc) -> std::vector<Tensor> {
    return Op::parts(attrs_at<typename Op::Attrs>(attrs), in, loc);
  };
  return row;
}();

/// Calls an operator whose row is op_info_with_parts.
template <Operator Op>
std::vector<Tensor> apply_with_parts(const typename Op::Attrs& attrs, Loc loc, TensorRefs inputs) {
  std::vector<Tensor> out(Op::schema.outputs.size());
  Evaluator::current().apply(op_info_with_parts<Op>, inputs, &attrs, out, loc);
  return out;
}

/// For the parts of a backward operator: the gradients of f's results, weighted by `grads`
/// (undefined: none), by those of the inputs that are `wanted` (zeros where f does not depend on
/// one); the others stay undefined.
using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
[[nodiscard]] std::vector<Tensor> derivative(const TensorFunction& f, std::vector<Tensor> inputs,
                                             const std::vector<bool>& wanted,
                                             const std::vector<Tensor>& grads, Loc loc);

}  // namespace dyad::ops
