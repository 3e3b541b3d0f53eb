#pragma once

#include "dyad/core/dtype.h"
#include "dyad/core/shape.h"

namespace dyad::ops {

/// `random_key()` -> seed, offset: two i64 scalars from the default generator, which moves on by
/// `count` numbers.
struct RandomKeyAttrs {
  Dim count;
};

/// `uniform(seed, offset)`: element i (row-major) is a function of (seed, offset + i) alone, in
/// [0, 1): a multiple of 2^-24 for f32 (f16 and bf16: that number rounded down to 11 and 8 bits),
/// of 2^-53 for f64.
struct UniformAttrs {
  Shape shape;
  DType dtype = DType::f32;
};

}  // namespace dyad::ops
