#include "dyad/ops/reduce.h"

#include <algorithm>

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/complex_support.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/reduce_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

using scalar::ScalarType;

/// Sums and products of integers and bool are i64.
/// What sums and products take in.
Scalar wide_element(const ReductionBuilder& b) {
  return scalar::convert(b.element(), b.sum_type());
}
/// One accumulator, which is the result.
void finish_with_accumulator(ReductionBuilder& b) {
  b.finish([](const Scalars& a, Scalar) -> Scalars { return {a[0]}; });
}

// --- sums and products -------------------------------------------------------------------------

struct Sum {
  using Attrs = ReduceAttrs;
  static constexpr Schema schema =
      reduction("sum", "The sum over axes; integers and bool add up in i64.", kUnary);
  static Types infer(const InferIn& in, const Attrs& attrs) {
    return infer_reduction(in, attrs, sum_dtype(in[0].dtype()));
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
    write_reduction(e, "ReduceSum", e.cast(e.input(0), e.output_type().dtype()), attrs);
  }
};

/// The gradient of what may have been repeated along axes: added to 0, a -0 would become 0. From -0
/// on, which changes no number, that of one element stays what it is; added to 0 at the end, every
/// other sum is sum()'s, to its sign of 0.
struct SumOfRepeats {
  using Attrs = ReduceAttrs;
  static constexpr Schema schema =
      reduction("sum_of_repeats", "The sum over axes; of one element that element.", kUnaryFloat);
  static Types infer(const InferIn& in, const Attrs& attrs) {
    return infer_reduction(in, attrs, in[0].dtype());
  }
  static Ints reduced_axes(const Attrs& attrs, int rank) { return sorted_axes(attrs.axes, rank); }
  static void reduce(const Attrs&, ReductionBuilder& b) {
    b.accumulate(-0.0, wide_element(b));
    b.combine([](const Scalars& a, const Scalars& x) -> Scalars { return {a[0] + x[0]}; });
    b.finish([](const Scalars& a, Scalar count) -> Scalars {
      return {select(count == 1, a[0], a[0] + 0.0)};
    });
  }
  static void grad(Gradient& g, const Attrs& attrs) { Sum::grad(g, attrs); }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) { Sum::to_onnx(e, attrs); }
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
    g.set(0, expand(with_axes(over_count(g.grad(), count), shape, attrs), shape));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const DType dtype = e.output_type().dtype();
    const Shape& shape = e.input_type(0).shape();
    const Dim count = count_of(shape, sorted_axes(attrs.axes, shape.rank()));
    std::string mean = reduction_node(e, "ReduceMean", e.cast(e.input(0), dtype), attrs);
    // ONNX leaves the mean of no elements open; 0 / 0 makes it NaN, 0 / count changes no other.
    if (!count.is_number() || count.number() == 0) {
      const std::string none = e.node("Div", {e.scalar(0, dtype), e.cast(e.size(count), dtype)});
      mean = e.node("Add", {mean, none});
    }
    e.output(0, mean);
  }
};

struct Prod {
  using Attrs = ReduceAttrs;
  static constexpr Schema schema = reduction(
      "prod", "The product over axes; integers and bool multiply in i64.", kUnary, kFirst);
  static Types infer(const InferIn& in, const Attrs& attrs) {
    return infer_reduction(in, attrs, sum_dtype(in[0].dtype()));
  }
  static Ints reduced_axes(const Attrs& attrs, int rank) { return sorted_axes(attrs.axes, rank); }
  static void reduce(const Attrs&, ReductionBuilder& b) {
    b.accumulate(1, wide_element(b));
    b.combine([](const Scalars& a, const Scalars& x) -> Scalars { return {a[0] * x[0]}; });
    finish_with_accumulator(b);
  }
  static void grad(Gradient& g, const Attrs& attrs);
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    write_reduction(e, "ReduceProd", e.cast(e.input(0), e.output_type().dtype()), attrs);
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
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs given, Loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      // Without zeros product / x; with one zero it alone has a product of others; with more none.
      const Tensor& x = *in[0];
      const Tensor is_zero = x == 0;
      const Tensor nonzero = where(is_zero, 1, x);
      const Tensor zeros = sum(is_zero, attrs.axes, true);
      const Tensor product = prod(nonzero, attrs.axes, true);
      const Tensor elsewhere = where(zeros == 0, product / nonzero, 0);
      return {where(logical_and(is_zero, zeros == 1), product, elsewhere)};
    });
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

    const Tensor x = reshape(permute(widened(g.input(0)), order), rows);
    const Tensor upper = reshape(permute(widened(g.grad()), order), rows);
    const Tensor numbers = arange(count);
    const Tensor diagonal = unsqueeze(numbers, 1) == numbers;
    const Tensor square = where(diagonal, 1, dyad::expand(unsqueeze(x, -2), squares));
    const Tensor others = apply<ProdOfOthers>({.axes = {-1}}, {}, square);
    const Tensor spread = where(diagonal, 0, unsqueeze(upper, -1) * others);
    g.set(0, permute(reshape(sum(spread, {-2}), moved), back));
  }
};

void Prod::grad(Gradient& g, const Attrs& attrs) {
  const Tensor others = apply<ProdOfOthers>({.axes = attrs.axes}, {}, widened(g.input(0)));
  g.set(0, with_axes(widened(g.grad()), g.input_shape(0), attrs) * others);
}

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
    // Counted: of no elements there is a sum, but not to every runtime a largest one.
    std::string truth = e.cast(e.input(0), DType::boolean);
    if (kAll) truth = e.node("Not", {truth});
    const std::string count = reduction_node(e, "ReduceSum", e.cast(truth, DType::i64), attrs);
    e.output(0, e.node(kAll ? "Equal" : "Greater", {count, e.scalar(0, DType::i64)}));
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
    return infer_reduction(in, attrs, in[0].dtype());
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs given, Loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      const Tensor& x = *in[0];
      const Ints axes = sorted_axes(attrs.axes, x.rank());
      const Dim count = count_of(x.shape(), axes);
      if (count.is_number() && count.number() == 0) {
        return {log(sum(exp(x), attrs.axes, attrs.keepdim))};
      }
      const Tensor result = is_many_rows(x, axes) ? rows_in_cache(x) : with_axes_kept(x, axes);
      if (attrs.keepdim) return {result};
      return {reshape(result, reduced_shape(sizes_of(x), axes, false))};
    });
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Shape& shape = g.input_shape(0);
    g.set(0, with_axes(widened(g.grad()), shape, attrs) *
                 exp(widened(g.input(0)) - with_axes(widened(g.output()), shape, attrs)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    write_reduction(e, "ReduceLogSumExp", e.input(0), attrs);
  }

 private:
  /// Elements that the four passes go over at a time, while they are in cache.
  static constexpr std::int64_t kInCache = 1 << 18;

  static Tensor with_axes_kept(const Tensor& x, const Ints& axes) {
    const Tensor largest = max(x, axes, true);
    // Around an infinite largest element differences would be NaN.
    const Tensor base = where(isfinite(largest), largest, 0);
    return log(sum(exp(x - base), axes, true)) + base;
  }
  static bool is_many_rows(const Tensor& x, const Ints& axes) {
    return Evaluator::is_eager() && x.is_contiguous() && axes == Ints{x.rank() - 1} &&
           x.impl()->numel() > 2 * kInCache;
  }
  static Tensor rows_in_cache(const Tensor& x) {
    const std::int64_t length = x.shape()[static_cast<std::size_t>(x.rank() - 1)].number();
    const std::int64_t rows = x.impl()->numel() / length, some = std::max(kInCache / length, 1L);
    const Tensor all = reshape(x, {rows, length});
    std::vector<Tensor> parts;
    for (std::int64_t first = 0; first < rows; first += some) {
      parts.push_back(with_axes_kept(slice(all, 0, first, std::min(rows, first + some)), {1}));
    }
    return reshape(concat(parts, 0), reduced_shape(sizes_of(x), {x.rank() - 1}, true));
  }
};

}  // namespace

std::span<const OpInfo* const> reduce_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info<Sum>,          &op_info<SumOfRepeats>, &op_info<Mean>, &op_info<Prod>,
      &op_info<ProdOfOthers>, &op_info<Any>,          &op_info<All>,  &op_info<LogSumExp>,
  };
  return kRows;
}

Tensor sum_of_repeats(const Tensor& x, Ints axes) {
  if (is_complex(x)) return view_as_complex(sum_of_repeats(view_as_real(x), std::move(axes)));
  return apply<SumOfRepeats>({std::move(axes)}, {}, x);
}

}  // namespace ops

Tensor sum(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  if (ops::is_complex(x)) {
    return ops::complex_reduce(sum, x, ops::reduced_of(x, std::move(axes)), keepdim, loc);
  }
  return apply<ops::Sum>({.axes = ops::reduced_of(x, std::move(axes)), .keepdim = keepdim}, loc, x);
}
Tensor mean(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  if (ops::is_complex(x)) {
    return ops::complex_reduce(mean, x, ops::reduced_of(x, std::move(axes)), keepdim, loc);
  }
  return apply<ops::Mean>({.axes = ops::reduced_of(x, std::move(axes)), .keepdim = keepdim}, loc,
                          x);
}
Tensor prod(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return apply<ops::Prod>({.axes = ops::reduced_of(x, std::move(axes)), .keepdim = keepdim}, loc,
                          x);
}
Tensor any(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return apply<ops::Any>({.axes = ops::reduced_of(x, std::move(axes)), .keepdim = keepdim}, loc, x);
}
Tensor all(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return apply<ops::All>({.axes = ops::reduced_of(x, std::move(axes)), .keepdim = keepdim}, loc, x);
}
Tensor logsumexp(const Tensor& x, Ints axes, bool keepdim, Loc loc) {
  return apply<ops::LogSumExp>({.axes = ops::reduced_of(x, std::move(axes)), .keepdim = keepdim},
                               loc, x);
}

Tensor sum(const Tensor& x, Ints axes, bool keepdim, DType dtype, Loc loc) {
  const LocScope called(loc, "sum");
  return to(sum(to(x, dtype, loc), std::move(axes), keepdim, loc), dtype, loc);
}
Tensor mean(const Tensor& x, Ints axes, bool keepdim, DType dtype, Loc loc) {
  if (!is_floating(dtype) && !is_complex(dtype)) {
    throw DTypeError("mean(" + type_string(x) + ", dtype = " + std::string(name_of(dtype)) +
                         "): dtype must be floating or complex; round the mean and convert it "
                         "with to()",
                     loc.user());
  }
  const LocScope called(loc, "mean");
  return mean(to(x, dtype, loc), std::move(axes), keepdim, loc);
}
Tensor prod(const Tensor& x, Ints axes, bool keepdim, DType dtype, Loc loc) {
  const LocScope called(loc, "prod");
  return to(prod(to(x, dtype, loc), std::move(axes), keepdim, loc), dtype, loc);
}

}  // namespace dyad
