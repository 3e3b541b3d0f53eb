#pragma once

#include "dyad/ir/scalar_math.h"

namespace dyad::scalar {

/// exp(x^2) erfc(x): infinite below -26.6 (f32: -9.3). f32: 1 ulp, f64: 8 ulp; below 0 the error of
/// exp(x^2).
Scalar erfcx(Scalar x);

}  // namespace dyad::scalar
