#include "dyad/ops/matrix_functions.h"

#include <cmath>
#include <string>

#include "dyad/base/error.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/decompositions.h"
#include "dyad/ops/diagonal.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/shapes.h"
#include "dyad/ops/solve.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace {

/// Two axes of x counted from the front: rows and columns.
struct MatrixAxes {
  std::int64_t rows, columns;

  MatrixAxes(std::string_view function, const Tensor& x, const Ints& axes, Loc loc) {
    const auto fail = [&](const std::string& rule) {
      throw ValueError(std::string(function) + "(" + type_string(x) + "): " + rule, loc.user());
    };
    if (axes.size() != 2) fail("two axes are needed, found " + std::to_string(axes.size()));
    rows = normalize_axis(axes[0], x.rank(), function, loc);
    columns = normalize_axis(axes[1], x.rank(), function, loc);
    if (rows == columns) fail("the two axes must not be the same");
  }
};

/// What was made of x by leaving out the axes, with size 1 there.
Tensor kept(Tensor made, const MatrixAxes& axes) {
  made = unsqueeze(made, std::min(axes.rows, axes.columns));
  return unsqueeze(made, std::max(axes.rows, axes.columns));
}

/// The singular values of matrices: by svd(), through which the gradient goes, and not by
/// svdvals(), whose last bits are others.
Tensor singular_values(const Tensor& x) { return svd(x, false).s; }
Tensor singular_values(const Tensor& x, const MatrixAxes& axes) {
  return singular_values(movedim(x, Ints{axes.rows, axes.columns}, Ints{-2, -1}));
}

void require_square_matrices(std::string_view function, const Tensor& x, Loc loc) {
  if (x.rank() >= 2 && x.size(-1, loc) == x.size(-2, loc)) return;
  throw ShapeError(
      std::string(function) + "(" + type_string(x) + "): square matrices are needed, [..., n, n]",
      loc.user());
}

}  // namespace

Tensor vector_norm(const Tensor& x, double p, const Ints& axes, bool keepdim, Loc loc) {
  const LocScope called(loc, "vector_norm");
  return norm(ops::is_complex(x) ? abs(x, loc) : x, p, axes, keepdim, loc);
}

Tensor matrix_norm(const Tensor& x, std::string_view kind, const Ints& axes, bool keepdim,
                   Loc loc) {
  const LocScope called(loc, "matrix_norm");
  const MatrixAxes at("matrix_norm", x, axes, loc);
  if (kind == "fro") return norm(x, 2, {at.rows, at.columns}, keepdim, loc);
  if (kind != "nuc") {
    throw ValueError("matrix_norm(" + type_string(x) + ", \"" + std::string(kind) +
                         "\"): the norm must be fro or nuc, or one of the numbers 1 -1 2 -2 inf "
                         "-inf",
                     loc.user());
  }
  const Tensor made = sum(singular_values(x, at), {-1});
  return keepdim ? kept(made, at) : made;
}
Tensor matrix_norm(const Tensor& x, double p, const Ints& axes, bool keepdim, Loc loc) {
  const LocScope called(loc, "matrix_norm");
  const MatrixAxes at("matrix_norm", x, axes, loc);
  const double size = std::abs(p);
  if (size != 1 && size != 2 && !std::isinf(p)) {
    throw ValueError("matrix_norm(" + type_string(x) + ", p = " + std::to_string(p) +
                         "): p must be one of 1 -1 2 -2 inf -inf; fro and nuc go by name",
                     loc.user());
  }
  const auto extreme = [&](const Tensor& of, std::int64_t axis) {
    return p > 0 ? max(of, {axis}) : min(of, {axis});
  };
  Tensor made;
  if (size == 2) {
    made = extreme(singular_values(x, at), -1);
  } else {
    const std::int64_t along = size == 1 ? at.rows : at.columns;
    const std::int64_t over = size == 1 ? at.columns : at.rows;
    made = squeeze(extreme(sum(abs(x), {along}, true), over), along - (over < along ? 1 : 0));
  }
  return keepdim ? kept(made, at) : made;
}

Tensor cond(const Tensor& x, Loc loc) { return cond(x, 2, loc); }
Tensor cond(const Tensor& x, double p, Loc loc) {
  const LocScope called(loc, "cond");
  if (std::abs(p) == 2) {
    const Tensor s = singular_values(x);
    const Tensor largest = select(s, -1, 0, loc), smallest = select(s, -1, -1, loc);
    return p > 0 ? div(largest, smallest, loc) : div(smallest, largest, loc);
  }
  return mul(matrix_norm(x, p), matrix_norm(inverse(x, loc), p), loc);
}
Tensor cond(const Tensor& x, const char* kind, Loc loc) {
  const LocScope called(loc, "cond");
  return mul(matrix_norm(x, kind), matrix_norm(inverse(x, loc), kind), loc);
}

LuFactor lu_factor(const Tensor& x, Loc loc) {
  require_square_matrices("lu_factor", x, loc);
  const LocScope called(loc, "lu_factor");
  const Lu parts = lu(x, loc);
  return {add(tril(parts.l, -1, loc), parts.u, loc), parts.permutation};
}
Tensor lu_solve(const LuFactor& a, const Tensor& b, Loc loc) {
  require_square_matrices("lu_solve", a.factors, loc);
  if (b.rank() < 2) {
    throw ShapeError("lu_solve(b: " + type_string(b) +
                         "): b must be [..., n, k]; unsqueeze(b, -1) makes a vector a column",
                     loc.user());
  }
  const LocScope called(loc, "lu_solve");
  // Row i of the factors is row permutation[i] of a, in each matrix of the batch.
  const Shape of_a = ops::sizes_of(a.factors), of_b = ops::sizes_of(b);
  Shape shape;
  if (!broadcast(Shape(of_a.begin(), of_a.end() - 2), Shape(of_b.begin(), of_b.end() - 2), shape)) {
    throw ShapeError("lu_solve(" + type_string(a.factors) + ", b: " + type_string(b) +
                         "): the axes before the last two do not broadcast",
                     loc.user());
  }
  shape.push_back(of_b[of_b.size() - 2]);
  shape.push_back(of_b[of_b.size() - 1]);
  const Tensor rows = expand(unsqueeze(a.permutation, -1), shape);
  const Tensor ordered = gather(expand(b, shape), -2, rows);
  const Tensor half = triangular_solve(a.factors, ordered, false, false, true, loc);
  return triangular_solve(a.factors, half, true, false, false, loc);
}
Tensor cholesky_inverse(const Tensor& factor, bool upper, Loc loc) {
  require_square_matrices("cholesky_inverse", factor, loc);
  const LocScope called(loc, "cholesky_inverse");
  const Dim size = factor.size(-1, loc);
  return cholesky_solve(eye(size, size, 0, factor.dtype(), loc), factor, upper, loc);
}

}  // namespace dyad
