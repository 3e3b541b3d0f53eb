#include "dyad/ops/reduce.h"

#include <cmath>
#include <limits>

#include "dyad/ir/scalar_reduction.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

using scalar::ScalarType;

struct ReduceAttrs {
  Ints axes;
  bool keepdim = false;
};

// --- what the operators share ------------------------------------------------------------------

Types infer_reduction(const InferIn& in, const ReduceAttrs& attrs, DType dtype) {
  const Ints axes = checked_axes(in, attrs.axes, in[0].rank());
  return {Type(dtype, reduced_shape(in[0].shape(), axes, attrs.keepdim))};
}
void require_elements(const InferIn& in, const Ints& axes) {
  const Shape& shape = in[0].shape();
  for (const std::int64_t axis : axes) {
    if (shape[static_cast<std::size_t>(axis)].same_as(0)) {
      fail_shape(in, "axis " + std::to_string(axis) +
                         " has size 0, and no elements have no largest or smallest one");
    }
  }
}

/// What was reduced, with its axes back in place as sizes of 1, so that it broadcasts over `shape`.
Tensor with_axes(const Tensor& reduced, const Shape& shape, const ReduceAttrs& attrs) {
  if (attrs.keepdim) return reduced;
  return reshape(reduced, reduced_shape(shape, sorted_axes(attrs.axes, shape.rank()), true));
}

void write_onnx(OnnxEmitter& e, std::string_view op, const std::string& x, const ReduceAttrs& attrs,
                DType dtype) {
  std::vector<std::string> inputs{x};
  if (!attrs.axes.empty()) inputs.push_back(e.constant_i64(attrs.axes));
  const std::string y = e.node(op, inputs, {{"keepdims", std::int64_t{attrs.keepdim}}});
  e.output(0, e.cast(y, dtype));
}

/// Sums and products of integers and bool are i64.
DType wide_dtype(DType dtype) { return is_floating(dtype) ? dtype : DType::i64; }
/// What sums and products take in.
Scalar wide_element(const ReductionBuilder& b) {
  return scalar::convert(b.element(), b.sum_type());
}
/// One accumulator, which is the result.
void finish_with_accumulator(ReductionBuilder& b) {
  b.finish([](const Scalars& a, Scalar) -> Scalars { return {a[0]}; });
}

constexpr Schema reduction(std::string_view name, std::string_view doc,
                           std::span<const ArgInfo> inputs, std::uint32_t saved_inputs = 0,
                           std::uint32_t saved_outputs = 0) {
  return {.name = name,
          .inputs = inputs,
          .outputs = kOut,
          .doc = doc,
          .saved_inputs = saved_inputs,
          .saved_outputs = saved_outputs};
}

// --- sums and products -------------------------------------------------------------------------

struct Sum {
  using Attrs = ReduceAttrs;
  static constexpr Schema schema =
      reduction("sum", "The sum over axes; integers and bool add up in i64.", kUnary);
  static Types infer(const InferIn& in, const Attrs& attrs) {
    return infer_reduction(in, attrs, wide_dtype(in[0].dtype()));
  }
  static Ints reduced_axes(const Attrs& attrs, int rank) { return sorted_axes(attrs.axes, rank); }
  static void reduce(const Attrs&, ReductionBuilder& b) {
    b.accumulate(0, wide_element(b));
    b.combine([](const Scalars& a, const Scalars& x) -> Scalars { return {a[0] + x[0]}; });
    finish_with_accumulator(b);
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, expand(with_axes(g.grad(), g.input_shape(0), attrs), g.input_shape(0)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const DType dtype = e.output_type().dtype();
    write_onnx(e, "ReduceSum", e.cast(e.input(0), dtype), attrs, dtype);
  }
};

struct Mean {
  using Attrs = ReduceAttrs;
  static constexpr Schema schema =
      reduction("mean", "The mean over axes, floating; of no elements NaN.", kUnary);
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const DType dtype = in[0].dtype();
    return infer_reduction(in, attrs, is_floating(dtype) ? dtype : DType::f32);
  }
  static Ints reduced_axes(const Attrs& attrs, int rank) { return sorted_axes(attrs.axes, rank); }
  static void reduce(const Attrs&, ReductionBuilder& b) {
    b.accumulate(0, wide_element(b));
    b.combine([](const Scalars& a, const Scalars& x) -> Scalars { return {a[0] + x[0]}; });
    // The mean of integers is rounded once, from f64.
    const ScalarType result = scalar::compute_type(b.result_dtype());
    const ScalarType exact = scalar::is_floating(b.sum_type()) ? result : ScalarType::f64;
    b.finish([&](const Scalars& a, Scalar count) -> Scalars {
      const Scalar mean = scalar::convert(a[0], exact) / scalar::convert(count, exact);
      return {scalar::convert(mean, result)};
    });
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Shape& shape = g.input_shape(0);
    const Dim count = count_of(shape, sorted_axes(attrs.axes, shape.rank()));
    g.set(0, expand(with_axes(g.grad(), shape, attrs) / size_arg(count), shape));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const DType dtype = e.output_type().dtype();
    write_onnx(e, "ReduceMean", e.cast(e.input(0), dtype), attrs, dtype);
  }
};

struct Prod {
  using Attrs = ReduceAttrs;
  static constexpr Schema schema = reduction(
      "prod", "The product over axes; integers and bool multiply in i64.", kUnary, kFirst);
  static Types infer(const InferIn& in, const Attrs& attrs) {
    return infer_reduction(in, attrs, wide_dtype(in[0].dtype()));
  }
  static Ints reduced_axes(const Attrs& attrs, int rank) { return sorted_axes(attrs.axes, rank); }
  static void reduce(const Attrs&, ReductionBuilder& b) {
    b.accumulate(1, wide_element(b));
    b.combine([](const Scalars& a, const Scalars& x) -> Scalars { return {a[0] * x[0]}; });
    finish_with_accumulator(b);
  }
  static void grad(Gradient& g, const Attrs& attrs);
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const DType dtype = e.output_type().dtype();
    write_onnx(e, "ReduceProd", e.cast(e.input(0), dtype), attrs, dtype);
  }
};

/// For each element the product of the others along axes: the derivative of prod, exact where
/// elements are 0, to any order.
struct ProdOfOthers {
  using Attrs = ReduceAttrs;
  static constexpr Schema schema =
      reduction("prod_of_others", "For each element the product of the others over axes.",
                kUnaryFloat, kFirst);
  static Types infer(const InferIn& in, const Attrs& attrs) {
    (void)checked_axes(in, attrs.axes, in[0].rank());
    return {in[0]};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc) {
    // Without zeros product / x; with one zero it alone has a product of others; with more none.
    const Tensor& x = *in[0];
    const Tensor is_zero = x == 0;
    const Tensor nonzero = where(is_zero, 1, x);
    const Tensor zeros = sum(is_zero, attrs.axes, true);
    const Tensor product = prod(nonzero, attrs.axes, true);
    const Tensor elsewhere = where(zeros == 0, product / nonzero, 0);
    return {where(logical_and(is_zero, zeros == 1), product, elsewhere)};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    // As the product along the last axis of a square in which the diagonal is 1: the reduced axes
    // become one, last, that axis is spread into [i, j] = j == i ? 1 : x[j].
    const Shape& shape = g.input_shape(0);
    const Ints axes = sorted_axes(attrs.axes, shape.rank());
    Ints order, back(shape.size(), 0);
    for (int i = 0; i < shape.rank(); ++i) {
      if (std::find(axes.begin(), axes.end(), i) == axes.end()) order.push_back(i);
    }
    for (const std::int64_t axis : axes) order.push_back(axis);
    Shape moved;
    for (std::size_t i = 0; i < order.size(); ++i) {
      moved.push_back(shape[static_cast<std::size_t>(order[i])]);
      back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
    }
    const Dim count = count_of(shape, axes);
    Shape rows(moved.begin(), moved.end() - static_cast<std::ptrdiff_t>(axes.size()));
    rows.push_back(count);
    Shape squares = rows;
    squares.push_back(count);

    const Tensor x = reshape(permute(g.input(0), order), rows);
    const Tensor upper = reshape(permute(g.grad(), order), rows);
    const Tensor numbers = arange(count);
    const Tensor diagonal = unsqueeze(numbers, 1) == numbers;
    const Tensor square = where(diagonal, 1, dyad::expand(unsqueeze(x, -2), squares));
    const Tensor others = apply<ProdOfOthers>({.axes = {-1}}, {}, square);
    const Tensor spread = where(diagonal, 0, unsqueeze(upper, -1) * others);
    g.set(0, permute(reshape(sum(spread, {-2}), moved), back));
  }
};

void Prod::grad(Gradient& g, const Attrs& attrs) {
  const Tensor others = apply<ProdOfOthers>({.axes = attrs.axes}, {}, g.input(0));
  g.set(0, with_axes(g.grad(), g.input_shape(0), attrs) * others);
}

// --- extremes ----------------------------------------------------------------------------------

template <bool kLargest>
struct Extreme {
  using Attrs = ReduceAttrs;
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_elements(in, sorted_axes(checked_axes(in, attrs.axes, in[0].rank()), in[0].rank()));
    return infer_reduction(in, attrs, in[0].dtype());
  }
  static Ints reduced_axes(const Attrs& attrs, int rank) { return sorted_axes(attrs.axes, rank); }
  static void reduce(const Attrs&, ReductionBuilder& b) {
    const Scalar x = ordered(b.element());
    b.accumulate(worst(x.type()), x);
    b.combine([](const Scalars& a, const Scalars& x) -> Scalars { return {better(a[0], x[0])}; });
    b.finish([&](const Scalars& a, Scalar) -> Scalars {
      return {scalar::convert(a[0], scalar::compute_type(b.result_dtype()))};
    });
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Shape& shape = g.input_shape(0);
    const Tensor chosen = g.input(0) == with_axes(g.output(), shape, attrs);
    const Tensor weight = to(chosen, g.grad().dtype());
    const Tensor share = with_axes(g.grad(), shape, attrs) / sum(weight, attrs.axes, true);
    g.set(0, weight * share);
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    write_onnx(e, kLargest ? "ReduceMax" : "ReduceMin", e.input(0), attrs, e.output_type().dtype());
  }

  // bool is ordered as 0 and 1.
  static Scalar ordered(Scalar x) {
    return x.type() == ScalarType::boolean ? scalar::convert(x, ScalarType::i32) : x;
  }
  static Scalar better(Scalar a, Scalar b) {
    if (!scalar::is_floating(a.type())) return kLargest ? scalar::max(a, b) : scalar::min(a, b);
    return kLargest ? scalar::maximum(a, b) : scalar::minimum(a, b);
  }
  /// What every element beats or equals.
  static Scalar worst(ScalarType type) {
    if (scalar::is_floating(type)) {
      const double infinity = std::numeric_limits<double>::infinity();
      return kLargest ? -infinity : infinity;
    }
    if (type == ScalarType::i64) {
      return kLargest ? std::numeric_limits<std::int64_t>::min()
                      : std::numeric_limits<std::int64_t>::max();
    }
    return kLargest ? std::numeric_limits<std::int32_t>::min()
                    : std::numeric_limits<std::int32_t>::max();
  }
};

struct Max : Extreme<true> {
  static constexpr Schema schema = reduction(
      "max", "The largest over axes, NaN if there is one; equal ones share the gradient evenly.",
      kUnary, kFirst, kFirst);
};
struct Min : Extreme<false> {
  static constexpr Schema schema = reduction(
      "min", "The smallest over axes, NaN if there is one; equal ones share the gradient evenly.",
      kUnary, kFirst, kFirst);
};

struct ArgAttrs {
  std::int64_t axis = 0;
  bool keepdim = false;
};

template <bool kLargest>
struct ArgExtreme {
  using Attrs = ArgAttrs;
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const Ints axes{checked_axis(in, attrs.axis, in[0].rank())};
    require_elements(in, axes);
    return {Type(DType::i64, reduced_shape(in[0].shape(), axes, attrs.keepdim))};
  }
  static Ints reduced_axes(const Attrs& attrs, int rank) { return {from_front(attrs.axis, rank)}; }
  static void reduce(const Attrs&, ReductionBuilder& b) {
    using E = Extreme<kLargest>;
    const Scalar x = E::ordered(b.element());
    b.accumulate(E::worst(x.type()), x);
    b.accumulate(std::numeric_limits<std::int64_t>::max(), b.index());
    b.combine([](const Scalars& a, const Scalars& x) -> Scalars {
      // NaN beats all; among equals (NaN and NaN too) the earlier place does.
      Scalar beats = kLargest ? x[0] > a[0] : x[0] < a[0];
      Scalar equals = x[0] == a[0];
      if (scalar::is_floating(x[0].type())) {
        const Scalar old_nan = scalar::isnan(a[0]), new_nan = scalar::isnan(x[0]);
        beats = beats | (new_nan & !old_nan);
        equals = equals | (new_nan & old_nan);
      }
      const Scalar take = beats | (equals & (x[1] < a[1]));
      return {scalar::select(take, x[0], a[0]), scalar::select(take, x[1], a[1])};
    });
    b.finish([](const Scalars& a, Scalar) -> Scalars { return {a[1]}; });
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    e.output(0, e.node(kLargest ? "ArgMax" : "ArgMin", {e.input(0)},
                       {{"axis", attrs.axis}, {"keepdims", std::int64_t{attrs.keepdim}}}));
  }
};

constexpr Schema arg_extreme(std::string_view name, std::string_view doc) {
  return {.name = name,
          .inputs = kUnary,
          .outputs = kIndexOut,
          .doc = doc,
          .samples = {.differentiable = false}};
}

struct ArgMax : ArgExtreme<true> {
  static constexpr Schema schema =
      arg_extreme("argmax", "The position of the first largest element along an axis.");
};
struct ArgMin : ArgExtreme<false> {
  static constexpr Schema schema =
      arg_extreme("argmin", "The position of the first smallest element along an axis.");
};

// --- truth -------------------------------------------------------------------------------------

template <bool kAll>
struct Truth {
  using Attrs = ReduceAttrs;
  static Types infer(const InferIn& in, const Attrs& attrs) {
    return infer_reduction(in, attrs, DType::boolean);
  }
  static Ints reduced_axes(const Attrs& attrs, int rank) { return sorted_axes(attrs.axes, rank); }
  static void reduce(const Attrs&, ReductionBuilder& b) {
    const Scalar x = scalar::convert(b.element(), ScalarType::boolean);
    b.accumulate(Scalar(kAll), x);
    b.combine([](const Scalars& a, const Scalars& x) -> Scalars {
      return {kAll ? a[0] & x[0] : a[0] | x[0]};
    });
    finish_with_accumulator(b);
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::string truth = e.cast(e.cast(e.input(0), DType::boolean), DType::i32);
    write_onnx(e, kAll ? "ReduceMin" : "ReduceMax", truth, attrs, DType::boolean);
  }
};

constexpr Schema truth_reduction(std::string_view name, std::string_view doc) {
  return {.name = name,
          .inputs = kUnary,
          .outputs = kBoolOut,
          .doc = doc,
          .samples = {.differentiable = false}};
}

struct Any : Truth<false> {
  static constexpr Schema schema =
      truth_reduction("any", "Whether any element over axes is not 0.");
};
struct All : Truth<true> {
  static constexpr Schema schema =
      truth_reduction("all", "Whether every element over axes is not 0.");
};

// --- logsumexp ---------------------------------------------------------------------------------

struct LogSumExp {
  using Attrs = ReduceAttrs;
  static constexpr Schema schema = reduction(
      "logsumexp", "log(sum(exp(x))) over axes, without overflow.", kUnaryFloat, kFirst, kFirst);
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_elements(in, checked_axes(in, attrs.axes, in[0].rank()));
    return infer_reduction(in, attrs, in[0].dtype());
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc) {
    const Tensor& x = *in[0];
    const Tensor largest = max(x, attrs.axes, true);
    // Around an infinite largest element differences would be NaN.
    const Tensor base = where(isfinite(largest), largest, 0);
    const Tensor result = log(sum(exp(x - base), attrs.axes, true)) + base;
    if (attrs.keepdim) return {result};
    return {reshape(result, reduced_shape(sizes_of(x), sorted_axes(attrs.axes, x.rank()), false))};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Shape& shape = g.input_shape(0);
    g.set(0, with_axes(g.grad(), shape, attrs) *
                 exp(g.input(0) - with_axes(g.output(), shape, attrs)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    write_onnx(e, "ReduceLogSumExp", e.input(0), attrs, e.output_type().dtype());
  }
};

constexpr const OpInfo* kRows[] = {
    &op_info<Sum>, &op_info<Mean>, &op_info<Prod>,      &op_info<ProdOfOthers>,
    &op_info<Max>, &op_info<Min>,  &op_info<ArgMax>,    &op_info<ArgMin>,
    &op_info<Any>, &op_info<All>,  &op_info<LogSumExp>,
};

}  // namespace

std::span<const OpInfo* const> reduce_rows() { return kRows; }

}  // namespace ops

Tensor sum(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return apply<ops::Sum>({.axes = std::move(axes), .keepdim = keepdim}, loc, x);
}
Tensor mean(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return apply<ops::Mean>({.axes = std::move(axes), .keepdim = keepdim}, loc, x);
}
Tensor var(const Tensor& x, Ints axes, std::int64_t correction, bool keepdim, Loc loc) {
  const LocScope scope(loc);
  const Tensor squares = square(x - mean(x, axes, true, loc), loc);
  const Ints sorted = ops::sorted_axes(axes, x.rank());
  const Dim count = ops::count_of(ops::sizes_of(x, loc), sorted);
  return sum(squares, axes, keepdim, loc) / ops::size_arg(count - correction, loc);
}
Tensor max(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return apply<ops::Max>({.axes = std::move(axes), .keepdim = keepdim}, loc, x);
}
Tensor min(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return apply<ops::Min>({.axes = std::move(axes), .keepdim = keepdim}, loc, x);
}
Tensor prod(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return apply<ops::Prod>({.axes = std::move(axes), .keepdim = keepdim}, loc, x);
}
Tensor any(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return apply<ops::Any>({.axes = std::move(axes), .keepdim = keepdim}, loc, x);
}
Tensor all(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return apply<ops::All>({.axes = std::move(axes), .keepdim = keepdim}, loc, x);
}
Tensor argmax(const Tensor& x, std::int64_t axis, bool keepdim, Loc loc) {
  return apply<ops::ArgMax>({.axis = axis, .keepdim = keepdim}, loc, x);
}
Tensor argmin(const Tensor& x, std::int64_t axis, bool keepdim, Loc loc) {
  return apply<ops::ArgMin>({.axis = axis, .keepdim = keepdim}, loc, x);
}
Tensor logsumexp(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return apply<ops::LogSumExp>({.axes = std::move(axes), .keepdim = keepdim}, loc, x);
}

}  // namespace dyad
