#pragma once

#include "dyad/core/tensor.h"
#include "dyad/ops/complex.h"

/// What public functions call when an operand is complex. For the .cpp files of this layer.
namespace dyad::ops {

[[nodiscard]] Tensor complex_add(const Tensor& a, const Tensor& b, Loc loc);
[[nodiscard]] Tensor complex_sub(const Tensor& a, const Tensor& b, Loc loc);
[[nodiscard]] Tensor complex_mul(const Tensor& a, const Tensor& b, Loc loc);
[[nodiscard]] Tensor complex_div(const Tensor& a, const Tensor& b, Loc loc);
[[nodiscard]] Tensor complex_eq(const Tensor& a, const Tensor& b, Loc loc);
[[nodiscard]] Tensor complex_where(const Tensor& condition, const Tensor& a, const Tensor& b,
                                   Loc loc);
[[nodiscard]] Tensor complex_matmul(const Tensor& a, const Tensor& b, Loc loc);
[[nodiscard]] Tensor complex_log(const Tensor& x, Loc loc);
[[nodiscard]] Tensor complex_exp(const Tensor& x, Loc loc);
[[nodiscard]] Tensor complex_abs(const Tensor& x, Loc loc);
/// To or from a complex dtype: a real number has no imaginary part, and gets it back when that is
/// dropped.
[[nodiscard]] Tensor complex_to(const Tensor& x, DType dtype, Loc loc);
using Reduce = Tensor (*)(const Tensor& x, Ints axes, bool keepdim, Loc loc);
/// A linear reduction: that of the parts.
[[nodiscard]] Tensor complex_reduce(Reduce reduce, const Tensor& x, Ints axes, bool keepdim,
                                    Loc loc);

}  // namespace dyad::ops
