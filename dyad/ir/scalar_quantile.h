#pragma once

#include "dyad/ir/scalar.h"

namespace dyad::scalar {

/// The number below which a standard normal one lies with probability x: NaN unless 0 <= x <= 1,
/// infinite at both ends.
Scalar ndtri(Scalar x);

}  // namespace dyad::scalar
