#pragma once

#include <concepts>
#include <type_traits>

#include "dyad/core/tensor.h"

namespace dyad {
namespace ops {
/// arange() of floating numbers.
[[nodiscard]] Tensor floating_range(double begin, double end, double step, DType dtype, Loc loc);
}  // namespace ops

/// A new tensor filled with `value`, of which i64 and u64 keep every digit. Sizes may be symbolic.
[[nodiscard]] Tensor full(Sizes shape, Number value, DType dtype = f32,
                          Loc loc = std::source_location::current());
/// A new tensor of zeros. Sizes may be symbolic.
[[nodiscard]] Tensor zeros(Sizes shape, DType dtype = f32,
                           Loc loc = std::source_location::current());
/// A new tensor of ones. Sizes may be symbolic.
[[nodiscard]] Tensor ones(Sizes shape, DType dtype = f32,
                          Loc loc = std::source_location::current());
/// A new tensor of the shape and dtype of x, filled with `value`.
[[nodiscard]] Tensor full_like(const Tensor& x, Number value,
                               Loc loc = std::source_location::current());
/// Zeros of the shape and dtype of x.
[[nodiscard]] Tensor zeros_like(const Tensor& x, Loc loc = std::source_location::current());
/// Ones of the shape and dtype of x.
[[nodiscard]] Tensor ones_like(const Tensor& x, Loc loc = std::source_location::current());

/// Of the shape of x.
[[nodiscard]] Tensor full_like(const Tensor& x, Number value, DType dtype,
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

/// begin, begin + step, ... before end, for floating bounds or steps: ceil((end - begin) / step)
/// elements begin + i * step, computed in f64 and converted to `dtype`. ValueError for a step of 0,
/// for NaN and infinities, and for 2^62 elements or more.
template <class B, class E, class S = int>
  requires(std::is_arithmetic_v<B> && std::is_arithmetic_v<E> && std::is_arithmetic_v<S> &&
           (std::is_floating_point_v<B> || std::is_floating_point_v<E> ||
            std::is_floating_point_v<S>))
[[nodiscard]] Tensor arange(B begin, E end, S step = 1, DType dtype = f32,
                            Loc loc = std::source_location::current()) {
  return ops::floating_range(static_cast<double>(begin), static_cast<double>(end),
                             static_cast<double>(step), dtype, loc);
}
/// 0, 1, ... before end, for a floating end.
template <std::floating_point T>
[[nodiscard]] Tensor arange(T end, DType dtype = f32, Loc loc = std::source_location::current()) {
  return ops::floating_range(0, static_cast<double>(end), 1, dtype, loc);
}

/// A size as an i64 scalar, which stays right when the size varies: what `sum(x) / x.size(0)`
/// divides by.
[[nodiscard]] Tensor size_tensor(Dim size, Loc loc = std::source_location::current());

}  // namespace dyad
