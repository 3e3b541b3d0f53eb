#include "dyad/ops/pool_parts.h"

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/division.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/views.h"

namespace dyad::ops {
namespace {

/// Sizes along one spatial axis.
struct Axis {
  std::size_t number;
  Dim in, out;
};

/// How many elements count in each window, [out, 1]; `held` is [out, in].
Tensor counts(const AvgPoolBackwardAttrs& a, const Axis& axis, const Tensor& first,
              const Tensor& held) {
  if (!a.count_include_pad) return sum(held, {1}, true);
  // Not what lies behind the padding.
  const std::int64_t step = a.dilation[axis.number];
  const Tensor rest = size_arg(axis.in + a.high[axis.number]) - first;
  return minimum(floor_divide(rest + (step - 1), step), a.kernel[axis.number]);
}

/// The share that each place of an axis has in each window, [out, in]; of a divisor 1.
Tensor shares(const AvgPoolBackwardAttrs& a, const Axis& axis, DType dtype) {
  const Tensor place = unsqueeze(arange(axis.in), 0), window = unsqueeze(arange(axis.out), 1);
  if (!a.adaptive.empty()) {
    const Arg in = size_arg(axis.in), out = size_arg(axis.out);
    const Tensor first = floor_divide(window * in, out);
    const Tensor end = floor_divide((window + 1) * in + (out - 1), out);
    const Tensor held = logical_and(place >= first, place < end).to(dtype);
    return a.divisor > 0 ? held : held / (end - first).to(dtype);
  }
  const std::int64_t step = a.dilation[axis.number];
  const Tensor first = window * a.stride[axis.number] - size_arg(a.low[axis.number]);
  const Tensor along = place - first;
  const Tensor inside = logical_and(along >= 0, along < a.kernel[axis.number] * step);
  const Tensor held = logical_and(inside, remainder(along, step) == 0).to(i64);
  return a.divisor > 0 ? held.to(dtype) : held.to(dtype) / counts(a, axis, first, held).to(dtype);
}

}  // namespace

Tensor avg_pool_backward_parts(const AvgPoolBackwardAttrs& attrs, const Tensor& grad, Loc loc) {
  Tensor out = grad;
  const Shape pooled = sizes_of(grad, loc);
  const int rank = grad.rank();
  for (int axis = 2; axis < rank; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    const Tensor matrix =
        shares(attrs, {.number = at - 2, .in = attrs.shape[at], .out = pooled[at]}, grad.dtype());
    out = transpose(matmul(transpose(out, axis, rank - 1), matrix), axis, rank - 1);
  }
  return attrs.divisor > 0 ? out / static_cast<double>(attrs.divisor) : out;
}

}  // namespace dyad::ops
