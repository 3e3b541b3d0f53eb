#pragma once

#include <limits>
#include <type_traits>

#include "dyad/core/tensor.h"

namespace dyad {

// Element by element. The functions of analysis give floating results (f32 for integers and bool),
// within 2 units in the last place.

/// e to the power x
[[nodiscard]] Tensor exp(const Tensor& x, Loc loc = std::source_location::current());
/// exp(x) - 1, exact near 0
[[nodiscard]] Tensor expm1(const Tensor& x, Loc loc = std::source_location::current());
/// Natural logarithm: NaN below 0, -inf at 0
[[nodiscard]] Tensor log(const Tensor& x, Loc loc = std::source_location::current());
/// log(1 + x), exact near 0
[[nodiscard]] Tensor log1p(const Tensor& x, Loc loc = std::source_location::current());
/// The square root: NaN below 0
[[nodiscard]] Tensor sqrt(const Tensor& x, Loc loc = std::source_location::current());
/// 1 / sqrt(x)
[[nodiscard]] Tensor rsqrt(const Tensor& x, Loc loc = std::source_location::current());
/// The sine of radians
[[nodiscard]] Tensor sin(const Tensor& x, Loc loc = std::source_location::current());
/// The cosine of radians
[[nodiscard]] Tensor cos(const Tensor& x, Loc loc = std::source_location::current());
/// The error function, 2 / sqrt(pi) times the integral of exp(-t*t) from 0 to x
[[nodiscard]] Tensor erf(const Tensor& x, Loc loc = std::source_location::current());

// To whole numbers, in the dtype of x; their derivative is 0.
/// Rounded to minus infinity
[[nodiscard]] Tensor floor(const Tensor& x, Loc loc = std::source_location::current());
/// Rounded to plus infinity
[[nodiscard]] Tensor ceil(const Tensor& x, Loc loc = std::source_location::current());
/// Rounded to the nearest, ties to even
[[nodiscard]] Tensor round(const Tensor& x, Loc loc = std::source_location::current());
/// To so many places behind the point, or, when negative, to tens, hundreds... before it: of floats
/// round(x * 10^decimals) / 10^decimals, computed in f32 at least; of integers exactly.
[[nodiscard]] Tensor round(const Tensor& x, std::int64_t decimals,
                           Loc loc = std::source_location::current());

/// x moved into [low, high] (NaN stays); its derivative is 1 inside and at the bounds, 0 outside.
/// ValueError when low > high or one of them is NaN.
[[nodiscard]] Tensor clamp(const Tensor& x, Number low,
                           Number high = std::numeric_limits<double>::infinity(),
                           Loc loc = std::source_location::current());

/// The same with a bound for each element, which broadcast with x; an undefined one does not bound.
/// Where low > high the result is high; a bound that is NaN makes NaN. The gradient goes to what
/// the result was taken from, at equal numbers to x.
[[nodiscard]] Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high = {},
                           Loc loc = std::source_location::current());

/// The same with a number or a size (Dim) on one side, or a size on both.
template <class Low, class High>
  requires MixedOperands<Low, High>
[[nodiscard]] Tensor clamp(const Tensor& x, const Low& low, const High& high,
                           Loc loc = std::source_location::current()) {
  return clamp(x, Arg(low, loc).tensor(), Arg(high, loc).tensor(), loc);
}

/// x converted: floats to integers truncate and saturate (NaN gives 0), integers to narrower ones
/// wrap, anything but 0 is true. x itself when it has the dtype.
[[nodiscard]] Tensor to(const Tensor& x, DType dtype, Loc loc = std::source_location::current());
/// The same, with a say in what floats of 8 and 4 bits do with what is too large for them: the
/// largest number, or, without `saturate`, infinity or NaN, whichever they have (ONNX Cast).
[[nodiscard]] Tensor cast(const Tensor& x, DType dtype, bool saturate = true,
                          Loc loc = std::source_location::current());

}  // namespace dyad
