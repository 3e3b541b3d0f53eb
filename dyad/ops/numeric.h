#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

// Element by element; operands broadcast. Floating results (f32 for integers and bool) unless said.

/// The real number whose cube is x; its derivative at 0 is infinite.
[[nodiscard]] Tensor cbrt(const Tensor& x, Loc loc = std::source_location::current());
/// sin(pi x) / (pi x), 1 at 0, exactly 0 at other whole numbers.
[[nodiscard]] Tensor sinc(const Tensor& x, Loc loc = std::source_location::current());
/// Its derivative of order n. ValueError unless 0 <= n <= 8; its own derivative needs n + 1.
[[nodiscard]] Tensor sinc(const Tensor& x, std::int64_t n,
                          Loc loc = std::source_location::current());
/// The modified Bessel function of the first kind of order 0.
[[nodiscard]] Tensor i0(const Tensor& x, Loc loc = std::source_location::current());
/// The modified Bessel function of the first kind of order 1. At 0 itself the third and higher
/// derivatives are not exact.
[[nodiscard]] Tensor i1(const Tensor& x, Loc loc = std::source_location::current());
/// i0(x) * exp(-|x|), which does not overflow.
[[nodiscard]] Tensor i0e(const Tensor& x, Loc loc = std::source_location::current());
/// i1(x) * exp(-|x|), which does not overflow. At 0 itself the third and higher derivatives are not
/// exact.
[[nodiscard]] Tensor i1e(const Tensor& x, Loc loc = std::source_location::current());
/// |a| with the sign of b (which -0 has too). The derivative by a is 0 at 0, that by b is 0.
[[nodiscard]] Tensor copysign(const Arg& a, const Arg& b,
                              Loc loc = std::source_location::current());
/// x moved to the next number of its dtype towards y. The derivative by x is 1, that by y is 0.
/// Operands of one floating dtype, f64 or f32 (DTypeError).
[[nodiscard]] Tensor nextafter(const Tensor& x, const Tensor& y,
                               Loc loc = std::source_location::current());
/// The greatest common divisor of whole numbers, at least 0; gcd(0, 0) is 0. Integer dtypes, which
/// are promoted.
[[nodiscard]] Tensor gcd(const Tensor& a, const Tensor& b,
                         Loc loc = std::source_location::current());
/// The least common multiple of whole numbers, at least 0. Integer dtypes, which are promoted.
[[nodiscard]] Tensor lcm(const Tensor& a, const Tensor& b,
                         Loc loc = std::source_location::current());

/// 0 below 0, 1 above, `at_zero` at 0 (where the gradient goes to it); NaN stays. In the promoted
/// dtype.
[[nodiscard]] Tensor heaviside(const Tensor& x, const Arg& at_zero,
                               Loc loc = std::source_location::current());
/// log(x / (1 - x)), sigmoid's opposite; with eps, x is first moved into [eps, 1 - eps].
[[nodiscard]] Tensor logit(const Tensor& x, double eps = 0,
                           Loc loc = std::source_location::current());
/// log2(2^a + 2^b) without overflow
[[nodiscard]] Tensor logaddexp2(const Arg& a, const Arg& b,
                                Loc loc = std::source_location::current());
/// x * log(1 + y), exact for small y; 0 where x is 0 (NaN where y is NaN).
[[nodiscard]] Tensor xlog1py(const Arg& x, const Arg& y, Loc loc = std::source_location::current());
/// -x log(x), 0 at 0 (as its derivative there is), -inf below.
[[nodiscard]] Tensor entr(const Tensor& x, Loc loc = std::source_location::current());
/// The standard normal distribution function.
[[nodiscard]] Tensor ndtr(const Tensor& x, Loc loc = std::source_location::current());
/// Its logarithm, exact where the function itself vanishes.
[[nodiscard]] Tensor log_ndtr(const Tensor& x, Loc loc = std::source_location::current());
/// Degrees as radians.
[[nodiscard]] Tensor deg2rad(const Tensor& x, Loc loc = std::source_location::current());
/// Radians as degrees.
[[nodiscard]] Tensor rad2deg(const Tensor& x, Loc loc = std::source_location::current());
/// x = mantissa * 2^exponent with 0.5 <= |mantissa| < 1; 0, infinities and NaN have themselves and
/// exponent 0. Floating x (DTypeError); the derivative is that at a fixed exponent.
struct Frexp {
  Tensor mantissa;
  Tensor exponent;  ///< i32
};
[[nodiscard]] Frexp frexp(const Tensor& x, Loc loc = std::source_location::current());
/// x * 2^n
[[nodiscard]] Tensor ldexp(const Tensor& x, const Arg& n,
                           Loc loc = std::source_location::current());
/// pow() in f64.
[[nodiscard]] Tensor float_power(const Arg& a, const Arg& b,
                                 Loc loc = std::source_location::current());
/// input + value * a * b
[[nodiscard]] Tensor addcmul(const Tensor& input, const Tensor& a, const Tensor& b,
                             double value = 1, Loc loc = std::source_location::current());
/// input + value * a / b
[[nodiscard]] Tensor addcdiv(const Tensor& input, const Tensor& a, const Tensor& b,
                             double value = 1, Loc loc = std::source_location::current());

// Bool.

/// Whether the sign of x is minus; -0 has it.
[[nodiscard]] Tensor signbit(const Tensor& x, Loc loc = std::source_location::current());
/// Whether x is plus infinity.
[[nodiscard]] Tensor isposinf(const Tensor& x, Loc loc = std::source_location::current());
/// Whether x is minus infinity.
[[nodiscard]] Tensor isneginf(const Tensor& x, Loc loc = std::source_location::current());
/// |a - b| <= atol + rtol * |b|; infinities are close to their equals only, NaN to nothing, or to
/// NaN with equal_nan.
[[nodiscard]] Tensor isclose(const Arg& a, const Arg& b, double rtol = 1e-5, double atol = 1e-8,
                             bool equal_nan = false, Loc loc = std::source_location::current());
/// Whether all elements are close: a scalar.
[[nodiscard]] Tensor allclose(const Arg& a, const Arg& b, double rtol = 1e-5, double atol = 1e-8,
                              bool equal_nan = false, Loc loc = std::source_location::current());
/// Whether a and b have one shape and equal elements: a scalar.
[[nodiscard]] Tensor equal(const Tensor& a, const Tensor& b,
                           Loc loc = std::source_location::current());

}  // namespace dyad
