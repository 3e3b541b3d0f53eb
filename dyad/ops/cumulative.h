#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

// Along an axis, which counts from the end when negative (IndexError out of range), element after
// element. Results have the shape of x.

/// The elements of an axis and where they are along it (i64).
struct ValuesAndIndices {
  Tensor values;
  Tensor indices;
};

/// out[i] = x[0] + ... + x[i]; exclusive: without x[i]; reverse: x[i] + ... + x[n - 1]. Integers
/// and bool add up in i64; f32 in f64, f16 and bf16 in f32, rounded at each element.
[[nodiscard]] Tensor cumsum(const Tensor& x, std::int64_t axis, bool exclusive = false,
                            bool reverse = false, Loc loc = std::source_location::current());
/// out[i] = x[0] * ... * x[i], in the same dtypes as cumsum; exclusive: without x[i]; reverse: from
/// the last on. The gradient is exact where elements are 0.
[[nodiscard]] Tensor cumprod(const Tensor& x, std::int64_t axis, bool exclusive = false,
                             bool reverse = false, Loc loc = std::source_location::current());
/// Of x converted to `dtype` first, which the result has too, as in PyTorch.
[[nodiscard]] Tensor cumsum(const Tensor& x, std::int64_t axis, DType dtype,
                            Loc loc = std::source_location::current());
[[nodiscard]] Tensor cumprod(const Tensor& x, std::int64_t axis, DType dtype,
                             Loc loc = std::source_location::current());
/// log(exp(x[0]) + ... + exp(x[i])) without overflow; reverse: from the last on. Floating.
[[nodiscard]] Tensor logcumsumexp(const Tensor& x, std::int64_t axis, bool reverse = false,
                                  Loc loc = std::source_location::current());
/// The largest so far and where it is: the last of equal ones, as PyTorch has it. From a NaN on all
/// are NaN. The gradient goes to the element at the index.
[[nodiscard]] ValuesAndIndices cummax(const Tensor& x, std::int64_t axis,
                                      Loc loc = std::source_location::current());
/// The smallest so far and where it is, as cummax() has them.
[[nodiscard]] ValuesAndIndices cummin(const Tensor& x, std::int64_t axis,
                                      Loc loc = std::source_location::current());
/// The linear recurrence y[i] = a[i] * y[i - 1] + b[i] with y[-1] = 0 (a[0] does not count);
/// reverse: from the last element back. a and b have one shape and dtype, floating.
[[nodiscard]] Tensor linear_scan(const Tensor& a, const Tensor& b, std::int64_t axis,
                                 bool reverse = false, Loc loc = std::source_location::current());

}  // namespace dyad
