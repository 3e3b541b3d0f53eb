#pragma once

#include "dyad/ir/scalar_math.h"

namespace dyad::scalar {

/// exp(x^2) erfc(x): infinite below -26.6 (f32: -9.3). f32: 1 ulp, f64: 8 ulp; below 0 the error of
/// exp(x^2).
Scalar erfcx(Scalar x);

/// How likely a standard normal number is to lie beyond |x| on one side, from 1/2 at 0 on.
struct NormalTail {
  Scalar size;   ///< |x|, or the number at which the tail rounds to 0 where that is less
  Scalar value;  ///< erfc(size / sqrt(2)) / 2
};
/// f32: the relative error is 3e-7 up to |x| = 1.5 and 3e-6 up to 4, where the tail is 3e-5;
/// beyond, the absolute error is below 2e-10. f64: that of erfc.
NormalTail normal_tail(Scalar x);

}  // namespace dyad::scalar
