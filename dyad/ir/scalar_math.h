#pragma once

#include <array>

#include "dyad/ir/scalar.h"

/// Elementary functions over Scalar, made of scalar instructions alone, so that they give the same
/// bits wherever they run. All take f32 or f64 values (DTypeError otherwise) and treat signed
/// zeros, infinities, NaN and denormals as C's <cmath> does. Errors are in units of the last place
/// of the exact result, found by tests.
namespace dyad::scalar {

/// f32 and f64: 1 ulp.
Scalar exp(Scalar x);
/// 2^x. f32 and f64: 1 ulp.
Scalar exp2(Scalar x);
/// e^x - 1, exact near 0. f32 and f64: 2 ulp.
Scalar expm1(Scalar x);
/// f32 and f64: 1 ulp.
Scalar log(Scalar x);
/// f32 and f64: 2 ulp.
Scalar log2(Scalar x);
/// f32 and f64: 2 ulp.
Scalar log10(Scalar x);
/// log(1 + x), exact near 0. f32 and f64: 2 ulp.
Scalar log1p(Scalar x);
/// f32 and f64: 2.5 ulp.
Scalar tanh(Scalar x);
/// 1 / (1 + exp(-x)). f32 and f64: 2 ulp, also where the result is tiny.
Scalar sigmoid(Scalar x);
/// f32 and f64: 2 ulp.
Scalar erf(Scalar x);
/// 1 / sqrt(x). f32 and f64: 1.5 ulp.
Scalar rsqrt(Scalar x);
/// x to the power y, special cases as in C. f32 and f64: 1 ulp.
Scalar pow(Scalar x, Scalar y);
/// f32: 1 ulp, f64: 2 ulp, for every finite number.
Scalar sin(Scalar x);
Scalar cos(Scalar x);
/// sin(x) / cos(x). f32 and f64: 3 ulp.
Scalar tan(Scalar x);
/// The same bits for |x| <= 2^40, without the instructions that others need.
Scalar sin_near(Scalar x);
Scalar cos_near(Scalar x);
Scalar tan_near(Scalar x);
/// f32: 1 ulp, f64: 2 ulp. NaN where |x| > 1.
Scalar asin(Scalar x);
Scalar acos(Scalar x);
/// f32: 1 ulp, f64: 2 ulp.
Scalar atan(Scalar x);
/// The angle of the point (x, y), in [-pi, pi], special cases as in C. f32: 1 ulp, f64: 2 ulp.
Scalar atan2(Scalar y, Scalar x);
/// f32: 1 ulp, f64: 3 ulp.
Scalar sinh(Scalar x);
Scalar cosh(Scalar x);
/// f32: 1 ulp, f64: 4 ulp.
Scalar asinh(Scalar x);
/// NaN below 1. f32: 1 ulp, f64: 4 ulp.
Scalar acosh(Scalar x);
/// NaN where |x| > 1. f32: 1 ulp, f64: 4 ulp.
Scalar atanh(Scalar x);
/// sqrt(x^2 + y^2) without overflow; infinite when either is. f32: 1 ulp, f64: 2 ulp.
Scalar hypot(Scalar x, Scalar y);

/// 1 - erf(x), exact where it is tiny. f32: 1 ulp, f64: 4 ulp (of what f64 holds: 0 from 27.3 on).
Scalar erfc(Scalar x);
/// The y with erf(y) = x; NaN where |x| > 1. f32: 1 ulp, f64: 6 ulp.
Scalar erfinv(Scalar x);
/// log|gamma(x)|; +inf at 0, -1, -2... For x > 0 f32: 1 ulp, f64: 6 ulp; below 0, where it has
/// zeros, 16 units of the larger of 1 and the result.
Scalar lgamma(Scalar x);
/// The derivative of lgamma: -+inf at +-0, NaN at -1, -2... f32: 1 ulp, f64: 8 units of the larger
/// of 1 and the result.
Scalar digamma(Scalar x);
/// The n-th derivative of digamma, 0 <= n <= 20 (ValueError); at negative whole numbers +inf for
/// odd n, NaN for even n. f64: 8 (n + 1) ulp for x > 0.
Scalar polygamma(int n, Scalar x);

/// -1, 0 or 1, NaN for NaN; the sign of zero is kept. Integers too.
Scalar sign(Scalar x);
/// Magnitude of x, sign of y.
Scalar copysign(Scalar x, Scalar y);
/// To the nearest integer, ties to even.
Scalar round(Scalar x);
/// min and max that give NaN when either operand is NaN.
Scalar minimum(Scalar a, Scalar b);
Scalar maximum(Scalar a, Scalar b);
Scalar isnan(Scalar x);
Scalar isinf(Scalar x);
Scalar isfinite(Scalar x);
/// The remainder with the sign of x: x - y * trunc(x / y). Exact.
/// Integers: x rem 0 is 0.
Scalar fmod(Scalar x, Scalar y);
/// Quotient rounded to minus infinity and the remainder that goes with it (sign of the divisor):
/// Python's // and %. Integer x // 0 and x % 0 are 0; floating a / 0 and NaN.
Scalar floor_div(Scalar a, Scalar b);
Scalar floor_mod(Scalar a, Scalar b);

/// Four independent 32-bit random words (i64 values 0..2^32-1) of Philox 4x32-10 (Salmon et al.
/// 2011) for a 64-bit counter and a 64-bit key, both i64.
std::array<Scalar, 4> philox(Scalar key, Scalar counter);
/// Uniform in [0, 1) of `type` f32 (24 bits of one word) or f64 (53 bits of two).
Scalar uniform(Scalar key, Scalar counter, ScalarType type);
/// The same for an element of a dtype: f16 and bf16 have the bits of f32 that fit, so that 1 is
/// never reached.
Scalar uniform(Scalar key, Scalar counter, DType dtype);
/// Standard normal of `type` f32 or f64: Box and Muller's transform of two words, computed in f32
/// or f64.
Scalar normal(Scalar key, Scalar counter, ScalarType type);

}  // namespace dyad::scalar
