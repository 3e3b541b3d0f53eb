#include <cmath>
#include <limits>

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/reduce_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

using scalar::ScalarType;

// --- variance ----------------------------------------------------------------------------------

struct VarAttrs {
  Ints axes;
  std::int64_t correction = 1;
  bool keepdim = false;
};

ReduceAttrs reduce_attrs(const VarAttrs& attrs) {
  return {.axes = attrs.axes, .keepdim = attrs.keepdim};
}

/// The divisor: the number of elements less the correction, not below 0.
Dim degrees(const Shape& shape, const VarAttrs& attrs) {
  const Dim count = count_of(shape, sorted_axes(attrs.axes, shape.rank()));
  return attrs.correction == 0 ? count : max(count - attrs.correction, 0);
}

/// Counts, means and sums of square distances from the mean join exactly but for rounding, without
/// the cancellation of sums of squares (Chan, Golub, LeVeque: Updating formulae and a pairwise
/// algorithm for computing sample variances, 1979).
template <bool kRoot>
struct Variance {
  using Attrs = VarAttrs;
  static Types infer(const InferIn& in, const Attrs& attrs) {
    return infer_reduction(in, reduce_attrs(attrs), in[0].dtype());
  }
  static Ints reduced_axes(const Attrs& attrs, int rank) { return sorted_axes(attrs.axes, rank); }
  static void reduce(const Attrs& attrs, ReductionBuilder& b) {
    const ScalarType type = b.sum_type();
    const Scalar x = scalar::convert(b.element(), type);
    b.accumulate(type, 0, x.like(1));
    b.accumulate(type, 0, x);
    b.accumulate(type, 0, x.like(0));
    b.combine([](const Scalars& a, const Scalars& x) -> Scalars {
      const Scalar count = a[0] + x[0], distance = x[1] - a[1];
      const Scalar share = scalar::select(count > 0, x[0] / count, 0.0);
      const Scalar step = distance * share;
      return {count, a[1] + step, a[2] + x[2] + distance * step * a[0]};
    });
    b.finish([&](const Scalars& a, Scalar count) -> Scalars {
      const Scalar n = scalar::convert(count, type) - static_cast<double>(attrs.correction);
      const Scalar variance = a[2] / scalar::maximum(n, n.like(0));
      const Scalar result = kRoot ? scalar::sqrt(variance) : variance;
      return {scalar::convert(result, scalar::compute_type(b.result_dtype()))};
    });
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Tensor x = widened(g.input(0));
    const Shape& shape = g.input_shape(0);
    const Tensor distance = x - mean(x, attrs.axes, true);
    Tensor upper = with_axes(widened(g.grad()), shape, reduce_attrs(attrs));
    if constexpr (kRoot) {
      // Where nothing varies the root has no derivative: 0 is taken.
      const Tensor root = with_axes(widened(g.output()), shape, reduce_attrs(attrs));
      upper = where(root == 0, 0, upper / where(root == 0, 1, root));
    } else {
      upper = upper * 2;
    }
    g.set(0, distance * (upper / size_arg(degrees(shape, attrs))));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const DType dtype = e.output_type().dtype();
    const ReduceAttrs kept{.axes = attrs.axes, .keepdim = true};
    const std::string center = reduction_node(e, "ReduceMean", e.input(0), kept);
    const std::string distance = e.node("Sub", {e.input(0), center});
    const std::string squares = e.node("Mul", {distance, distance});
    const std::string total = reduction_node(e, "ReduceSum", squares, reduce_attrs(attrs));
    const std::string divisor = e.cast(e.size(degrees(e.input_type(0).shape(), attrs)), dtype);
    const std::string variance = e.node("Div", {total, divisor});
    e.output(0, kRoot ? e.node("Sqrt", {variance}) : variance);
  }
};

struct Var : Variance<false> {
  static constexpr Schema schema = reduction(
      "var",
      "The mean square distance from the mean over axes, with the divisor count - correction.",
      kUnaryFloat, kFirst);
};
struct Std : Variance<true> {
  static constexpr Schema schema =
      reduction("std", "The square root of var; its derivative where nothing varies is 0.",
                kUnaryFloat, kFirst, kFirst);
};

// --- norms -------------------------------------------------------------------------------------

struct NormAttrs {
  Ints axes;
  double p = 2;
  bool keepdim = false;
};

ReduceAttrs reduce_attrs(const NormAttrs& attrs) {
  return {.axes = attrs.axes, .keepdim = attrs.keepdim};
}

struct Norm {
  using Attrs = NormAttrs;
  static constexpr Schema schema =
      reduction("norm",
                "(sum of |x|^p)^(1/p) over axes; inf and -inf: the largest and smallest "
                "|x|; 0: how many are not 0.",
                kUnaryFloat, kFirst, kFirst);
  static Types infer(const InferIn& in, const Attrs& attrs) {
    if (std::isnan(attrs.p)) fail_value(in, "p must be a number");
    const Ints axes = checked_axes(in, attrs.axes, in[0].rank());
    if (attrs.p < 0) require_elements(in, axes);
    return infer_reduction(in, reduce_attrs(attrs), in[0].dtype());
  }
  static Ints reduced_axes(const Attrs& attrs, int rank) { return sorted_axes(attrs.axes, rank); }
  static void reduce(const Attrs& attrs, ReductionBuilder& b) {
    const double p = attrs.p;
    const Scalar size = scalar::abs(scalar::convert(b.element(), b.sum_type()));
    const bool largest = std::isinf(p) && p > 0, smallest = std::isinf(p) && p < 0;
    const double start = smallest ? std::numeric_limits<double>::infinity() : 0;
    Scalar term = size;
    if (p == 0) {
      term = scalar::select(size == 0.0, size.like(0), size.like(1));
    } else if (p == 2) {
      term = size * size;
    } else if (p != 1 && !std::isinf(p)) {
      term = scalar::pow(size, size.like(p));
    }
    b.accumulate(term.type(), start, term);
    b.combine([&](const Scalars& a, const Scalars& x) -> Scalars {
      if (largest) return {scalar::maximum(a[0], x[0])};
      if (smallest) return {scalar::minimum(a[0], x[0])};
      return {a[0] + x[0]};
    });
    b.finish([&](const Scalars& a, Scalar) -> Scalars {
      Scalar result = a[0];
      if (p == 2) {
        result = scalar::sqrt(result);
      } else if (p != 0 && p != 1 && !std::isinf(p)) {
        result = scalar::pow(result, result.like(1 / p));
      }
      return {scalar::convert(result, scalar::compute_type(b.result_dtype()))};
    });
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const double p = attrs.p;
    if (p == 0) {
      g.set(0, zeros(g.input_shape(0), g.grad().dtype()));
      return;
    }
    const Tensor x = widened(g.input(0)), grad = widened(g.grad());
    const Shape& shape = g.input_shape(0);
    const Tensor upper = with_axes(grad, shape, reduce_attrs(attrs));
    const Tensor result = with_axes(widened(g.output()), shape, reduce_attrs(attrs));
    if (p == 1) {
      g.set(0, sign(x) * upper);
    } else if (std::isinf(p)) {
      const Tensor chosen = to(abs(x) == result, grad.dtype());
      g.set(0, sign(x) * chosen * (upper / sum(chosen, attrs.axes, true)));
    } else {
      // x * |x|^(p - 2) / norm^(p - 1), 0 where x or the norm is.
      const Tensor none = logical_or(x == 0, result == 0);
      const Tensor base = where(none, 1, x), norm = where(result == 0, 1, result);
      const Tensor slope = p == 2 ? base / norm : sign(base) * pow(abs(base) / norm, p - 1);
      g.set(0, where(none, 0, slope * upper));
    }
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const double p = attrs.p;
    const DType dtype = e.output_type().dtype();
    const ReduceAttrs axes = reduce_attrs(attrs);
    const std::string x = e.input(0);
    if (p == 1 || p == 2) return write_reduction(e, p == 1 ? "ReduceL1" : "ReduceL2", x, axes);
    if (p == 0) {
      const std::string zero = e.node("Equal", {x, e.scalar(0, dtype)});
      return write_reduction(e, "ReduceSum", e.cast(e.node("Not", {zero}), dtype), axes);
    }
    const std::string size = e.node("Abs", {x});
    if (std::isinf(p)) return write_reduction(e, p > 0 ? "ReduceMax" : "ReduceMin", size, axes);
    const std::string powers = e.node("Pow", {size, e.scalar(p, dtype)});
    const std::string total = reduction_node(e, "ReduceSum", powers, axes);
    e.output(0, e.node("Pow", {total, e.scalar(1 / p, dtype)}));
  }
};

}  // namespace

std::span<const OpInfo* const> moments_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<Var>, &op_info<Std>, &op_info<Norm>};
  return kRows;
}

}  // namespace ops

Tensor var(const Tensor& x, Ints axes, std::int64_t correction, bool keepdim, Loc loc) {
  return apply<ops::Var>(
      {.axes = ops::reduced_of(x, std::move(axes)), .correction = correction, .keepdim = keepdim},
      loc, x);
}
Tensor std(const Tensor& x, Ints axes, std::int64_t correction, bool keepdim, Loc loc) {
  return apply<ops::Std>(
      {.axes = ops::reduced_of(x, std::move(axes)), .correction = correction, .keepdim = keepdim},
      loc, x);
}
std::pair<Tensor, Tensor> var_mean(const Tensor& x, const Ints& axes, std::int64_t correction,
                                   bool keepdim, Loc loc) {
  return {var(x, axes, correction, keepdim, loc), mean(x, axes, keepdim, loc)};
}
std::pair<Tensor, Tensor> std_mean(const Tensor& x, const Ints& axes, std::int64_t correction,
                                   bool keepdim, Loc loc) {
  return {std(x, axes, correction, keepdim, loc), mean(x, axes, keepdim, loc)};
}
Tensor norm(const Tensor& x, double p, Ints axes, bool keepdim, Loc loc) {
  return apply<ops::Norm>({.axes = ops::reduced_of(x, std::move(axes)), .p = p, .keepdim = keepdim},
                          loc, x);
}

}  // namespace dyad
