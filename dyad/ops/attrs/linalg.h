#pragma once

#include "dyad/core/dtype.h"

namespace dyad::ops {

/// `matmul(a, b)`: both of rank 2 or more and of one dtype; the axes before the last two broadcast.
/// With transpose_a the last two axes of a are [k, m] instead of [m, k]; with transpose_b those of
/// b are [n, k] instead of [k, n].
struct MatmulAttrs {
  bool transpose_a = false;
  bool transpose_b = false;
};

/// `solve(a, b)`: x with a @ x = b, or with transpose a^T @ x = b; a[..., n, n], b[..., n, k],
/// whose leading axes broadcast.
struct SolveAttrs {
  bool transpose = false;
};

/// `triangular_solve(a, b)`: the same where only one triangle of a counts, with ones on its
/// diagonal when unit_diagonal is set.
struct TriangularSolveAttrs {
  bool upper = false;
  bool transpose = false;
  bool unit_diagonal = false;
};

/// `cholesky(x)`: l with l @ l^T = x, or with upper u with u^T @ u = x.
struct CholeskyAttrs {
  bool upper = false;
};

/// `qr(x)`: q[m, k] and r[k, n], where k is m when the factors are complete, else min(m, n).
struct QrAttrs {
  bool complete = false;
};

/// `svd(x)`: u[m, k], s[min(m, n)] and vh[k', n], where k = m and k' = n for full matrices, else
/// min(m, n).
struct SvdAttrs {
  bool full_matrices = true;
};

/// How far apart numbers of a floating dtype are at 1.
[[nodiscard]] constexpr double spacing_at_one(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
      return 0x1p-52;
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    default:
      return 0x1p-23;
  }
}

/// `pinv(x)`: singular values up to rcond times the largest one count as 0; a negative rcond means
/// max(m, n) times the spacing of numbers at 1.
struct PinvAttrs {
  double rcond = -1;
};

}  // namespace dyad::ops
