#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

struct RotaryArgs {
  /// Pairs are neighbours, elements 2 i and 2 i + 1; otherwise i and i + r / 2.
  bool interleaved = false;
  std::int64_t rotary_dim = 0;  ///< r, how many of the d elements are turned; 0: all
};

/// Turns each pair of elements of x[b, h, l, d] by the angle of its position (Su et al., 2021). cos
/// and sin are tables [positions, r / 2], whose rows position_ids[b, l] names (undefined: 0 to
/// l - 1), or already [b, l, r / 2]. Floating, one dtype. ShapeError, DTypeError; IndexError for a
/// position out of range.
[[nodiscard]] Tensor rotary_embedding(const Tensor& x, const Tensor& cos, const Tensor& sin,
                                      const Tensor& position_ids = {}, const RotaryArgs& args = {},
                                      Loc loc = std::source_location::current());

/// `cache` with `value` in the place of the part that begins at `position` (i64 or i32: one, or [n]
/// one for each element of axis 0) along the axis: the keys and values of attention that are kept
/// from step to step. IndexError when the part does not lie within. (Where the position is known to
/// the host, `cache.slice(axis, p, p + n).copy_(value)` does it in place.)
[[nodiscard]] Tensor cache_update(const Tensor& cache, const Tensor& value, const Tensor& position,
                                  std::int64_t axis = -2,
                                  Loc loc = std::source_location::current());

// Masks and biases of attention, computed from sizes.

/// bool[length, keys]: query i sees keys 0 to i + offset. `offset` is how many keys precede the
/// first query.
[[nodiscard]] Tensor causal_mask(Dim length, Dim keys, Dim offset = 0,
                                 Loc loc = std::source_location::current());
/// bool[n, length]: true for the first lengths[i] elements of row i.
[[nodiscard]] Tensor length_mask(const Tensor& lengths, Dim length,
                                 Loc loc = std::source_location::current());
/// [heads, length, keys]: -slope |i - j|, with slopes that fall geometrically from head to head
/// (Press et al., 2022).
[[nodiscard]] Tensor alibi_bias(std::int64_t heads, Dim length, Dim keys, DType dtype = f32,
                                Loc loc = std::source_location::current());

}  // namespace dyad
