#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

/// A new tensor filled with `value`. Sizes may be symbolic.
[[nodiscard]] Tensor full(Shape shape, double value, DType dtype = f32,
                          Loc loc = std::source_location::current());
/// A new tensor of zeros. Sizes may be symbolic.
[[nodiscard]] Tensor zeros(Shape shape, DType dtype = f32,
                           Loc loc = std::source_location::current());
/// A new tensor of ones. Sizes may be symbolic.
[[nodiscard]] Tensor ones(Shape shape, DType dtype = f32,
                          Loc loc = std::source_location::current());
/// A new tensor of the shape and dtype of x, filled with `value`.
[[nodiscard]] Tensor full_like(const Tensor& x, double value,
                               Loc loc = std::source_location::current());
/// Zeros of the shape and dtype of x.
[[nodiscard]] Tensor zeros_like(const Tensor& x, Loc loc = std::source_location::current());
/// Ones of the shape and dtype of x.
[[nodiscard]] Tensor ones_like(const Tensor& x, Loc loc = std::source_location::current());

/// Of the shape of x.
[[nodiscard]] Tensor full_like(const Tensor& x, double value, DType dtype,
                               Loc loc = std::source_location::current());
[[nodiscard]] Tensor zeros_like(const Tensor& x, DType dtype,
                                Loc loc = std::source_location::current());
[[nodiscard]] Tensor ones_like(const Tensor& x, DType dtype,
                               Loc loc = std::source_location::current());
/// Of the shape of x, to be written to: its elements are 0, since memory that nobody wrote would
/// make results differ from run to run.
[[nodiscard]] Tensor empty_like(const Tensor& x, Loc loc = std::source_location::current());
[[nodiscard]] Tensor empty_like(const Tensor& x, DType dtype,
                                Loc loc = std::source_location::current());

/// 0, 1, ... count - 1.
[[nodiscard]] Tensor arange(Dim count, DType dtype = i64,
                            Loc loc = std::source_location::current());
/// begin, begin + step, ... before end; ValueError when step is 0.
[[nodiscard]] Tensor arange(std::int64_t begin, std::int64_t end, std::int64_t step = 1,
                            DType dtype = i64, Loc loc = std::source_location::current());

/// A size as an i64 scalar: `sum(x) / size_tensor(x.size(0))` stays right when the size varies.
[[nodiscard]] Tensor size_tensor(Dim size, Loc loc = std::source_location::current());

}  // namespace dyad
