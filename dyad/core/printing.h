#pragma once

#include <iosfwd>

#include "dyad/core/dtype.h"
#include "dyad/core/shape.h"

namespace dyad {

/// `f32`, `bool`...: as messages name it.
std::ostream& operator<<(std::ostream& out, DType dtype);
/// `[3, batch, 4]`
std::ostream& operator<<(std::ostream& out, const Shape& shape);
/// `784`, `2*time + 1`
std::ostream& operator<<(std::ostream& out, Dim dim);

}  // namespace dyad
