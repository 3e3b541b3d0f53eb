#pragma once

#include <cstdint>

#include "dyad/core/dtype.h"
#include "dyad/core/shape.h"

namespace dyad::ops {

/// `random_key()` -> seed, offset: two i64 scalars from the default generator, which moves on by
/// `count` numbers.
struct RandomKeyAttrs {
  Dim count;
};

/// `seed_generator()`: the default generator goes on from here. No results.
struct SeedGeneratorAttrs {
  std::int64_t seed = 0;
  std::int64_t offset = 0;
};

/// `uniform(seed, offset)`: element i (row-major) is a function of (seed, offset + i) alone, in
/// [0, 1): a multiple of 2^-24 for f32 (f16 and bf16: that number rounded down to 11 and 8 bits),
/// of 2^-53 for f64.
struct UniformAttrs {
  Shape shape;
  DType dtype = DType::f32;
};

/// Numbers of the stream that each gamma distributed one may use.
inline constexpr std::int64_t kGammaTries = 16;

/// `standard_gamma(concentration, seed, offset)`: element i is a function of its concentration and
/// of the numbers from offset + 16 i on.
struct StandardGammaAttrs {
  bool logarithm = false;
};

}  // namespace dyad::ops
