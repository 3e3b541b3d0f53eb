#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

// Element by element, floating (f32 for integers and bool), within 1 unit in the last place in f32,
// 4 in f64 (tan: 3 in both). Angles are in radians.

/// sin(x) / cos(x)
[[nodiscard]] Tensor tan(const Tensor& x, Loc loc = std::source_location::current());
/// In [-pi/2, pi/2]; NaN where |x| > 1. Its derivative at -1 and 1 is inf.
[[nodiscard]] Tensor asin(const Tensor& x, Loc loc = std::source_location::current());
/// In [0, pi]; NaN where |x| > 1. Its derivative at -1 and 1 is -inf.
[[nodiscard]] Tensor acos(const Tensor& x, Loc loc = std::source_location::current());
/// In [-pi/2, pi/2]
[[nodiscard]] Tensor atan(const Tensor& x, Loc loc = std::source_location::current());
/// The angle of the point (x, y), in [-pi, pi]; operands broadcast, special cases as in C. Its
/// derivatives at the origin are 0.
[[nodiscard]] Tensor atan2(const Arg& y, const Arg& x, Loc loc = std::source_location::current());
/// (exp(x) - exp(-x)) / 2
[[nodiscard]] Tensor sinh(const Tensor& x, Loc loc = std::source_location::current());
/// (exp(x) + exp(-x)) / 2
[[nodiscard]] Tensor cosh(const Tensor& x, Loc loc = std::source_location::current());
/// The number whose sinh is x.
[[nodiscard]] Tensor asinh(const Tensor& x, Loc loc = std::source_location::current());
/// At least 0; NaN below 1. Its derivative at 1 is inf.
[[nodiscard]] Tensor acosh(const Tensor& x, Loc loc = std::source_location::current());
/// NaN where |x| > 1, infinite at -1 and 1
[[nodiscard]] Tensor atanh(const Tensor& x, Loc loc = std::source_location::current());
/// sqrt(x^2 + y^2) without overflow; infinite when either is. Its derivatives at the origin are 0.
[[nodiscard]] Tensor hypot(const Arg& x, const Arg& y, Loc loc = std::source_location::current());

}  // namespace dyad
