#pragma once

#include <cstdint>

namespace dyad::ops {

/// `rotary_embedding(x[b, h, l, d], cos, sin, position_ids[b, l] or absent)`: cos and sin are
/// [positions, r / 2] with position_ids, [b, l, r / 2] without; r is rotary_dim, or d when that is
/// 0.
struct RotaryAttrs {
  bool interleaved = false;
  std::int64_t rotary_dim = 0;
};

/// `cache_update(cache, value, position)`: a copy of cache with value in the place of the part that
/// begins at position along the axis; position is one index, or one for each element of axis 0.
struct CacheUpdateAttrs {
  std::int64_t axis = -2;
};

}  // namespace dyad::ops
