#pragma once

#include <iosfwd>

#include "dyad/core/dtype.h"
#include "dyad/core/shape.h"
#include "dyad/core/storage.h"

namespace dyad {

/// `f32`, `bool`...: as messages name it.
std::ostream& operator<<(std::ostream& out, DType dtype);
/// `[3, batch, 4]`; while a compiled function is recorded, the sizes of the call.
std::ostream& operator<<(std::ostream& out, const Shape& shape);
/// `784`, `2*time + 1`; while a compiled function is recorded, the size of the call.
std::ostream& operator<<(std::ostream& out, Dim dim);
/// `[12, 4, 1]`: strides, axes
std::ostream& operator<<(std::ostream& out, const Ints& numbers);
/// `cpu`
std::ostream& operator<<(std::ostream& out, Device device);

}  // namespace dyad
