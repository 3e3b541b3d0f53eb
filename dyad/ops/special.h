#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

// Element by element, floating (f32 for integers and bool).

/// 2 to the power x
[[nodiscard]] Tensor exp2(const Tensor& x, Loc loc = std::source_location::current());
/// Logarithm to base 2: NaN below 0, -inf at 0
[[nodiscard]] Tensor log2(const Tensor& x, Loc loc = std::source_location::current());
/// Logarithm to base 10: NaN below 0, -inf at 0
[[nodiscard]] Tensor log10(const Tensor& x, Loc loc = std::source_location::current());
/// 1 - erf(x), exact where it is tiny
[[nodiscard]] Tensor erfc(const Tensor& x, Loc loc = std::source_location::current());
/// exp(x^2) erfc(x), which does not vanish for large x; infinite from -26.7 down (f32: -9.4).
[[nodiscard]] Tensor erfcx(const Tensor& x, Loc loc = std::source_location::current());
/// The y with erf(y) = x: NaN where |x| > 1, infinite at -1 and 1
[[nodiscard]] Tensor erfinv(const Tensor& x, Loc loc = std::source_location::current());
/// The y with ndtr(y) = x, the standard normal quantile: NaN unless 0 <= x <= 1, infinite at both
/// ends
[[nodiscard]] Tensor ndtri(const Tensor& x, Loc loc = std::source_location::current());
/// log|gamma(x)|; +inf at 0, -1, -2...
[[nodiscard]] Tensor lgamma(const Tensor& x, Loc loc = std::source_location::current());
/// The derivative of lgamma: -inf at 0, NaN at -1, -2...
[[nodiscard]] Tensor digamma(const Tensor& x, Loc loc = std::source_location::current());
/// The n-th derivative of digamma. ValueError unless 0 <= n <= 20; its own derivative needs n + 1.
[[nodiscard]] Tensor polygamma(std::int64_t n, const Tensor& x,
                               Loc loc = std::source_location::current());
/// log(pi) p (p - 1) / 4 + the sum of lgamma(x - i / 2) for i from 0 to p - 1, the logarithm of the
/// multivariate gamma function, for x above (p - 1) / 2. ValueError for a p below 1.
[[nodiscard]] Tensor mvlgamma(const Tensor& x, std::int64_t p,
                              Loc loc = std::source_location::current());
/// Hurwitz's zeta function, the sum of 1 / (q + k)^x over k >= 0, for q above 0: NaN for x below 1,
/// infinite at 1; of another q infinite where it is whole, NaN elsewhere. Operands broadcast;
/// computed in f64.
[[nodiscard]] Tensor zeta(const Arg& x, const Arg& q, Loc loc = std::source_location::current());
/// log(exp(a) + exp(b)) without overflow; operands broadcast. Equal infinities give themselves, and
/// share the gradient in halves.
[[nodiscard]] Tensor logaddexp(const Arg& a, const Arg& b,
                               Loc loc = std::source_location::current());
/// x * log(y), 0 where x is 0 (NaN where y is NaN); operands broadcast. Where x is 0 and y is not
/// above 0, both derivatives are 0.
[[nodiscard]] Tensor xlogy(const Arg& x, const Arg& y, Loc loc = std::source_location::current());

}  // namespace dyad
