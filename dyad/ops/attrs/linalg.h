#pragma once

namespace dyad::ops {

/// `matmul(a, b)`: both of rank 2 or more and of one dtype; the axes before the last two broadcast.
/// With transpose_a the last two axes of a are [k, m] instead of [m, k]; with transpose_b those of
/// b are [n, k] instead of [k, n].
struct MatmulAttrs {
  bool transpose_a = false;
  bool transpose_b = false;
};

}  // namespace dyad::ops
